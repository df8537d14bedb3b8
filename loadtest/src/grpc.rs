//! gRPC's messages in the parts in which HTTP/2 brings them, and its statuses.

use crate::workload::encode::GRPC_PREFIX_BYTES;

/// Puts messages together. One that comes in one part is not copied.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    partial: Vec<u8>,
}

impl Messages {
    /// Takes the next part and gives out the messages that it ends.
    #[inline]
    pub(crate) fn feed(&mut self, part: &[u8], mut message: impl FnMut(&[u8])) {
        let mut rest = part;
        if !self.partial.is_empty() {
            self.partial.extend_from_slice(part);
            rest = &self.partial;
        }
        let len = rest.len();
        while let Some(whole) = whole(rest) {
            message(&rest[GRPC_PREFIX_BYTES..whole]);
            rest = &rest[whole..];
        }
        let taken = len - rest.len();
        if self.partial.is_empty() {
            if !rest.is_empty() {
                self.partial = rest.to_vec();
            }
        } else {
            self.partial.drain(..taken);
        }
    }

    /// Whether a message has begun and not ended.
    pub(crate) fn is_cut(&self) -> bool {
        !self.partial.is_empty()
    }
}

/// The length, with its prefix, of the message that `bytes` begin with, if it is whole. None is
/// compressed: we ask for nothing of the kind.
#[inline]
fn whole(bytes: &[u8]) -> Option<usize> {
    let (prefix, _) = bytes.split_first_chunk::<GRPC_PREFIX_BYTES>()?;
    let len = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
    let len = len + GRPC_PREFIX_BYTES;
    (bytes.len() >= len).then_some(len)
}

/// What a status is called.
pub(crate) fn status_name(code: u16) -> &'static str {
    const NAMES: [&str; 17] = [
        "OK",
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
    ];
    NAMES.get(usize::from(code)).copied().unwrap_or("a status that there is not")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_out_whole_however_they_are_cut() {
        let bytes = b"\0\0\0\0\x03one\0\0\0\0\0\0\0\0\0\x05three";
        for size in 1..=bytes.len() {
            let (mut messages, mut out) = (Messages::default(), Vec::new());
            for part in bytes.chunks(size) {
                messages.feed(part, |message| out.push(message.to_vec()));
            }
            assert_eq!(out, [&b"one"[..], b"", b"three"], "in parts of {size}");
            assert!(!messages.is_cut());
        }
        let mut messages = Messages::default();
        messages.feed(&bytes[..7], |_| panic!("it is not whole"));
        assert!(messages.is_cut());
    }
}
