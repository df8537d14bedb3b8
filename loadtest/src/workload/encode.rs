//! Protobuf, written by hand where a request is made for each send.

/// Bytes of a number as protobuf writes it.
#[inline]
pub(crate) fn varint_len(value: usize) -> usize {
    let bits = usize::BITS - (value | 1).leading_zeros();
    (bits as usize).div_ceil(7)
}

/// Appends a number.
#[inline]
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        #[allow(clippy::cast_possible_truncation, reason = "the lowest seven bits")]
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    #[allow(clippy::cast_possible_truncation, reason = "below 128")]
    out.push(value as u8);
}

/// Appends a field of bytes; `tag` is its number and kind, below 128.
#[inline]
pub(crate) fn put_bytes(out: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    out.push(tag);
    put_varint(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// Begins a message as gRPC frames it; [`end_message`] says how long it has become.
#[inline]
pub(crate) fn begin_message(out: &mut Vec<u8>) -> usize {
    let at = out.len();
    out.extend_from_slice(&[0; GRPC_PREFIX_BYTES]);
    at
}

/// Ends the message that began `at`.
#[inline]
pub(crate) fn end_message(out: &mut [u8], at: usize) {
    let len = u32::try_from(out.len() - at - GRPC_PREFIX_BYTES).unwrap_or(u32::MAX);
    out[at + 1..at + GRPC_PREFIX_BYTES].copy_from_slice(&len.to_be_bytes());
}

/// Whether it is compressed, and four bytes of length.
pub(crate) const GRPC_PREFIX_BYTES: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_prost_writes_them() {
        for value in [0, 1, 127, 128, 300, 16_383, 16_384, usize::MAX] {
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            put_varint(&mut ours, value);
            prost::encoding::encode_varint(value as u64, &mut theirs);
            assert_eq!(ours, theirs);
            assert_eq!(varint_len(value), ours.len());
        }
    }
}
