//! Counts one partition: reads, tallies, counts, and goes on; at the log's end it promises.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use slotwise_core::model::AdSerial;
use tokio::sync::watch;

use super::heat::Heat;
use super::job::Job;
use super::promise::Promise;
use super::sums::tally;
use crate::events::batch::{self, Damaged};
use crate::limits::{
    COUNT_POLL_INTERVAL, COUNT_READ_BYTES_MAX, COUNT_RETRY_MAX, COUNT_RETRY_MIN, HOT_KEPT,
    PROMISE_STEP, SWEEP_INTERVAL, SWEEP_ROWS, TRIM_INTERVAL,
};
use crate::ports::{
    Claim, CountError, Counted, IdLife, LogBatch, Place, Position, Step, StoreError, SweepAt,
};
use crate::telemetry::Metric;

/// Counts one partition.
pub struct Worker {
    job: Arc<Job>,
    claim: Claim,
    /// As it is stored.
    place: Place,
    /// Whether that has to be asked for first: the last transaction may have been committed.
    is_unsure: bool,
    /// Whether batches are counted one by one, to find the one that no store takes.
    is_careful: bool,
    heat: Heat,
    sweeps: [Sweep; 2],
    trim_at_us: i64,
}

/// A sweep of old ids, and when it goes on.
struct Sweep {
    at: SweepAt,
    due_us: i64,
}

/// What a turn found in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// There is more.
    More,
    /// Little or nothing: it can wait for the next poll.
    Little,
}

/// A read of the log, tallied.
struct Reading {
    step: Step,
    /// When the log took each batch, and the ads of its events.
    ads: Vec<(i64, Vec<AdSerial>)>,
    damaged: Vec<(Position, Damaged)>,
}

impl Worker {
    /// A worker at `place`, which is where the partition stands.
    pub fn new(job: Arc<Job>, claim: Claim, place: Place) -> Self {
        let partition = claim.partition;
        let now_us = job.clock.now_us();
        let sweep = |life| {
            // Those of different partitions begin at different times.
            let begin = micros(SWEEP_INTERVAL / 16) * i64::from(partition.0);
            let at = SweepAt { partition, life, after: None };
            Sweep { at, due_us: now_us.saturating_add(begin) }
        };
        Self {
            claim,
            place,
            is_unsure: false,
            is_careful: false,
            heat: Heat::new(partition),
            sweeps: [sweep(IdLife::Short), sweep(IdLife::Conversion)],
            trim_at_us: now_us,
            job,
        }
    }

    /// Counts until `stop` says so, or until the partition is another's.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let mut pause = Duration::ZERO;
        while !*stop.borrow() {
            let wait = match self.turn().await {
                Ok(turn) => {
                    if !pause.is_zero() {
                        tracing::info!(partition = self.claim.partition.0, "counting goes on");
                    }
                    pause = Duration::ZERO;
                    if turn == Turn::More { Duration::ZERO } else { COUNT_POLL_INTERVAL }
                }
                Err(CountError::Fenced) => return,
                Err(error) => {
                    if pause.is_zero() {
                        let partition = self.claim.partition.0;
                        tracing::warn!(%error, partition, "counting waits");
                    }
                    pause = (pause * 2).clamp(COUNT_RETRY_MIN, COUNT_RETRY_MAX);
                    pause
                }
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    }

    /// Reads the log once and counts what is there, with the housekeeping that is due.
    ///
    /// # Errors
    /// [`CountError::Fenced`]: the partition is another's, and this worker is done. Otherwise it
    /// may be called again, and goes on from what is stored.
    pub async fn turn(&mut self) -> Result<Turn, CountError> {
        if self.is_unsure {
            self.place = self.job.counts.place(self.claim.partition).await?;
            self.is_unsure = false;
        }
        let before_us = self.job.clock.now_us();
        let (partition, after) = (self.claim.partition, self.place.position);
        let mut batches = self.job.log.read(partition, after, COUNT_READ_BYTES_MAX).await?;
        if self.is_careful {
            batches.truncate(1);
        }
        let bytes: usize = batches.iter().map(|batch| batch.bytes.len()).sum();
        match batches.last().map(|last| last.position) {
            Some(_) => self.count(&batches, before_us).await?,
            None => self.promise(before_us).await?,
        }
        self.keep_house(before_us).await?;
        Ok(if bytes >= COUNT_READ_BYTES_MAX / 2 { Turn::More } else { Turn::Little })
    }

    async fn count(&mut self, batches: &[LogBatch], now_us: i64) -> Result<(), CountError> {
        let Some(Reading { step, ads, damaged }) = self.tallied(batches, now_us) else {
            return Ok(());
        };
        let mut to = step.to;
        let counted = match self.job.counts.count(step).await {
            Err(CountError::Overflow) if batches.len() > 1 => {
                self.is_careful = true;
                return Ok(());
            }
            Err(CountError::Overflow) => {
                // It moves no promise either: none of it is taken.
                to.promised_us = self.place.promised_us;
                self.set_aside(to.position, &CountError::Overflow);
                self.is_careful = false;
                self.go_on(to, now_us).await?
            }
            other => self.believing(other)?,
        };
        self.place = to;
        damaged.iter().for_each(|(position, damage)| self.set_aside(*position, damage));
        for (taken_us, ads) in ads {
            self.heat.reaches(taken_us);
            ads.into_iter().for_each(|ad| self.heat.takes(ad));
        }
        let counters = &self.job.counters;
        counters.add(Metric::EventsCounted, counted.new);
        counters.add(Metric::EventsLate, counted.late);
        counters.add(Metric::EventsRepeated, counted.repeats);
        Ok(())
    }

    /// The step that counts `batches`; nothing where there are none.
    fn tallied(&self, batches: &[LogBatch], now_us: i64) -> Option<Reading> {
        let mut promise = Promise::at(self.place.promised_us);
        let (mut tallies, mut ads, mut damaged) = (Vec::new(), Vec::new(), Vec::new());
        for batch in batches {
            // A log whose clock is ahead of ours promises no more than ours does.
            let taken_us = batch.appended_at_us.min(now_us);
            let events = batch::decode(&batch.bytes).unwrap_or_else(|damage| {
                damaged.push((batch.position, damage));
                Vec::new()
            });
            ads.push((taken_us, events.iter().map(|event| event.showing.ad).collect()));
            tallies.extend(events.iter().filter_map(|event| tally(event, &mut promise, taken_us)));
        }
        let position = batches.last()?.position;
        let to = Place { position, promised_us: promise.us() };
        let (claim, from) = (self.claim, self.place.position);
        Some(Reading { step: Step { claim, from, to, tallies, now_us }, ads, damaged })
    }

    /// A batch that cannot be counted is passed over, and said to be: it stays in the log as long
    /// as any other.
    fn set_aside(&self, position: Position, reason: &impl Display) {
        self.job.counters.add(Metric::LogBatchesSetAside, 1);
        tracing::error!(
            partition = self.claim.partition.0,
            position = format_args!("{:032x}", position.0),
            %reason,
            "a batch of events cannot be counted and is set aside"
        );
    }

    /// The log ended when the clock said `now_us`.
    async fn promise(&mut self, now_us: i64) -> Result<(), CountError> {
        self.heat.reaches(now_us);
        let promised_us = Promise::at(self.place.promised_us).at_the_end(now_us).us();
        if promised_us.saturating_sub(self.place.promised_us) >= micros(PROMISE_STEP) {
            let to = Place { promised_us, ..self.place };
            self.go_on(to, now_us).await?;
            self.place = to;
        }
        Ok(())
    }

    /// Moves the partition without counting anything.
    async fn go_on(&mut self, to: Place, now_us: i64) -> Result<Counted, CountError> {
        let (claim, from) = (self.claim, self.place.position);
        let step = Step { claim, from, to, tallies: Vec::new(), now_us };
        let done = self.job.counts.count(step).await;
        self.believing(done)
    }

    fn believing<T>(&mut self, done: Result<T, CountError>) -> Result<T, CountError> {
        self.is_unsure |= done.is_err();
        done
    }

    async fn keep_house(&mut self, now_us: i64) -> Result<(), StoreError> {
        let (job, partition) = (&self.job, self.claim.partition);
        if self.heat.is_due() {
            let list = job.counts.hot_ads().await?;
            let ended_before_ms = now_us.saturating_sub(micros(HOT_KEPT)).div_euclid(1_000);
            // Its notice begins when it is written down.
            for hot in self.heat.judge(&list, job.clock.now_us()) {
                tracing::info!(
                    ad = hot.ad.0,
                    from_ms = hot.from_ms,
                    until_ms = hot.until_ms,
                    "hot"
                );
                job.counts.put_hot_ad(hot, ended_before_ms).await?;
            }
        }
        for sweep in self.sweeps.iter_mut().filter(|sweep| sweep.due_us <= now_us) {
            let swept = job.counts.sweep(sweep.at, now_us, SWEEP_ROWS).await?;
            sweep.at.after = swept.next;
            if swept.next.is_none() {
                sweep.due_us = now_us.saturating_add(micros(SWEEP_INTERVAL));
            }
        }
        if self.trim_at_us <= now_us {
            let before_us = now_us.saturating_sub(micros(job.log_kept));
            job.log.trim(partition, self.place.position, before_us).await?;
            self.trim_at_us = now_us.saturating_add(micros(TRIM_INTERVAL));
        }
        Ok(())
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}
