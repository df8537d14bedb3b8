//! What all loads of decisions have in common: requests, their pace, and the look at their answers.

use percent_encoding::percent_decode_str;

use crate::check::{self, Deep, Want, Wrong};
use crate::grpc::status_name;
use crate::h2::connection::End;
use crate::h2::head::Head;
use crate::limits::STATUS_WORDS_MAX;
use crate::load::pace::Pace;
use crate::load::probe::Probe;
use crate::meter::Meter;
use crate::workload::{Pool, Visitors};

/// How answers are looked at.
pub(crate) struct Checks {
    /// Ads that each request asks for.
    pub(crate) count: usize,
    /// Every visitor gets so many.
    pub(crate) is_full: bool,
    /// Checks some whole.
    pub(crate) deep: Deep,
    /// A no-op answers: only that it does, and with how many bytes, can be looked at.
    pub(crate) is_noop: bool,
}

/// Requests, their pace, and what became of them.
pub(crate) struct Common {
    pub(crate) pace: Pace,
    pub(crate) meter: Meter,
    pub(crate) probe: Probe,
    pub(crate) pool: Pool,
    pub(crate) visitors: Visitors,
    pub(crate) checks: Checks,
    /// Bytes of all answers, and how many those were.
    pub(crate) answer_bytes: u64,
    pub(crate) answers: u64,
    pub(crate) now_ns: u64,
    /// The next request of the pool.
    next: usize,
}

impl Common {
    pub(crate) fn new(
        pace: Pace,
        meter: Meter,
        probe: Probe,
        (pool, visitors): (Pool, Visitors),
        checks: Checks,
    ) -> Self {
        Self {
            pace,
            meter,
            probe,
            pool,
            visitors,
            checks,
            answer_bytes: 0,
            answers: 0,
            now_ns: 0,
            next: 0,
        }
    }

    /// Looks for what has become due, where so many calls are open.
    pub(crate) fn fill(&mut self, open: usize) {
        self.pace.fill(self.now_ns, open, &mut self.meter);
    }

    /// What was due has been handed to the kernel by `now_ns`.
    pub(crate) fn came(&mut self, now_ns: u64) {
        self.pace.came(now_ns, &mut self.meter);
    }

    /// Appends the message of the next request, or of the next so many; the number of the first.
    #[inline]
    pub(crate) fn put(&mut self, body: &mut Vec<u8>, batch: Option<usize>) -> usize {
        let asked = self.next;
        match batch {
            None => self.pool.put(body, asked, &mut self.visitors),
            Some(count) => self.pool.put_batch(body, asked, count, &mut self.visitors),
        }
        self.next = self.pool.wrap(asked + batch.unwrap_or(1));
        asked
    }

    /// Looks at the answer to request `asked` of the pool.
    #[inline]
    pub(crate) fn look(&mut self, answer: &[u8], asked: usize) -> Result<(), Wrong> {
        if self.checks.is_noop {
            return Ok(());
        }
        let what = self.pool.asked(asked);
        let want = Want {
            zone: what.zone,
            count: self.checks.count,
            is_full: self.checks.is_full,
            is_explained: what.is_explained,
        };
        check::answer(answer, &want)?;
        if self.checks.deep.is_due() {
            let words = self.pool.words(asked);
            self.checks.deep.check(answer, what.zone, words, self.checks.count)?;
        }
        Ok(())
    }

    /// A call with so many decisions has ended, and not as it should.
    pub(crate) fn cut_off(&mut self, end: End, weight: u64) {
        cut_off(&mut self.meter, end, self.now_ns, weight);
    }

    /// When there is something to send.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        self.pace.due_ns()
    }

    /// Whether nothing more will be sent, and the measurement is over.
    pub(crate) fn has_ended(&self) -> bool {
        self.pace.has_ended() && self.probe.due_ns().is_none()
    }
}

/// So much was asked for in a call that did not end as it should.
pub(crate) fn cut_off(meter: &mut Meter, end: End, now_ns: u64, weight: u64) {
    match end {
        End::Whole | End::Broken => meter.broken(now_ns, weight),
        End::Reset(code) => {
            meter.refused(format!("the stream was reset: code {code}"), now_ns, weight);
        }
        End::NotTaken => meter.refused("the server was going away".to_owned(), now_ns, weight),
        End::GivenUp => meter.unanswered(now_ns, weight),
    }
}

/// What headers and trailers say of a call of gRPC.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    status: Option<u16>,
    grpc_status: Option<u16>,
    words: String,
}

impl Verdict {
    /// Takes headers, or trailers.
    #[inline]
    pub(crate) fn take(&mut self, head: &Head) {
        self.status = head.status.or(self.status);
        self.grpc_status = head.grpc_status.or(self.grpc_status);
        if !head.grpc_message.is_empty() {
            // As gRPC says: all but plain ASCII comes as %XX, spaces from some servers, too.
            let words = percent_decode_str(&head.grpc_message).decode_utf8_lossy();
            self.words = words.chars().take(STATUS_WORDS_MAX).collect();
        }
    }

    /// Whether there is one.
    pub(crate) fn is_there(&self) -> bool {
        self.grpc_status.is_some()
    }

    /// How the call was refused, if it was.
    pub(crate) fn refused(&self) -> Option<String> {
        match (self.grpc_status, self.status) {
            (Some(0), _) | (None, None | Some(200)) => None,
            (Some(code), _) => Some(format!("{}: {}", status_name(code), self.words)),
            (None, Some(status)) => Some(format!("HTTP {status}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_refusal_are_read_as_they_were_meant() {
        let head = |grpc_message: &str| Head {
            grpc_status: Some(14),
            grpc_message: grpc_message.to_owned(),
            ..Head::default()
        };
        for (sent, meant) in [("caf%C3%A9%20is full", "café is full"), ("100%", "100%")] {
            let mut verdict = Verdict::default();
            verdict.take(&head(sent));
            assert_eq!(verdict.refused(), Some(format!("UNAVAILABLE: {meant}")));
        }
    }
}
