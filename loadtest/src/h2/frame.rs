//! Frames: nine bytes that say what follows, and what follows (RFC 9113, section 4).

pub(crate) const HEADER_BYTES: usize = 9;
/// What a client begins a connection with.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The largest frame that a peer takes before it says otherwise, and that we take.
pub(crate) const FRAME_BYTES_DEFAULT: usize = 16 << 10;
/// Bytes that may be sent before the peer says otherwise, on a stream and on the connection.
pub(crate) const WINDOW_DEFAULT: i64 = 65_535;
/// The largest window there may be.
pub(crate) const WINDOW_MAX: i64 = (1 << 31) - 1;

pub(crate) mod kind {
    //! What a frame is.
    pub(crate) const DATA: u8 = 0;
    pub(crate) const HEADERS: u8 = 1;
    pub(crate) const RST_STREAM: u8 = 3;
    pub(crate) const SETTINGS: u8 = 4;
    pub(crate) const PUSH_PROMISE: u8 = 5;
    pub(crate) const PING: u8 = 6;
    pub(crate) const GOAWAY: u8 = 7;
    pub(crate) const WINDOW_UPDATE: u8 = 8;
    pub(crate) const CONTINUATION: u8 = 9;
}

pub(crate) mod flag {
    //! What a frame's flags say.
    pub(crate) const END_STREAM: u8 = 0x1;
    pub(crate) const ACK: u8 = 0x1;
    pub(crate) const END_HEADERS: u8 = 0x4;
    pub(crate) const PADDED: u8 = 0x8;
    pub(crate) const PRIORITY: u8 = 0x20;
}

pub(crate) mod setting {
    //! What a peer may say of itself.
    pub(crate) const HEADER_TABLE_SIZE: u16 = 1;
    pub(crate) const ENABLE_PUSH: u16 = 2;
    pub(crate) const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub(crate) const INITIAL_WINDOW_SIZE: u16 = 4;
    pub(crate) const MAX_FRAME_SIZE: u16 = 5;
}

/// What the nine bytes say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) len: usize,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
}

impl Header {
    /// The header that `bytes` begin with, once it is whole.
    #[inline]
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let (head, _) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        Some(Self {
            len: usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]),
            kind: head[3],
            flags: head[4],
            stream: u32::from_be_bytes([head[5] & 0x7f, head[6], head[7], head[8]]),
        })
    }

    #[inline]
    pub(crate) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends a frame's nine bytes.
#[inline]
pub(crate) fn put_header(out: &mut Vec<u8>, len: usize, kind: u8, flags: u8, stream: u32) {
    // A frame's length has 24 bits; nothing here is longer than a frame may be.
    let [_, high, middle, low] = u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes();
    let [a, b, c, d] = stream.to_be_bytes();
    out.extend_from_slice(&[high, middle, low, kind, flags, a, b, c, d]);
}

/// Appends a whole frame.
pub(crate) fn put(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    put_header(out, payload.len(), kind, flags, stream);
    out.extend_from_slice(payload);
}

/// Appends SETTINGS.
pub(crate) fn put_settings(out: &mut Vec<u8>, settings: &[(u16, u32)]) {
    put_header(out, settings.len() * 6, kind::SETTINGS, 0, 0);
    for (id, value) in settings {
        out.extend_from_slice(&id.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// Appends leave for the peer to send so much more on `stream`; 0 is the connection.
pub(crate) fn put_window_update(out: &mut Vec<u8>, stream: u32, bytes: u32) {
    put(out, kind::WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes());
}

/// The settings of a payload.
pub(crate) fn settings(payload: &[u8]) -> impl Iterator<Item = (u16, u32)> + '_ {
    payload.as_chunks::<6>().0.iter().map(|[a, b, c, d, e, f]| {
        (u16::from_be_bytes([*a, *b]), u32::from_be_bytes([*c, *d, *e, *f]))
    })
}

/// The number that a payload begins with.
pub(crate) fn number(payload: &[u8]) -> Option<u32> {
    payload.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

/// A payload without padding and, before headers, without priority.
#[inline]
pub(crate) fn unpadded(header: Header, mut payload: &[u8]) -> Option<&[u8]> {
    if header.has(flag::PADDED) {
        let (padding, rest) = payload.split_first()?;
        payload = rest.get(..rest.len().checked_sub(usize::from(*padding))?)?;
    }
    if header.kind == kind::HEADERS && header.has(flag::PRIORITY) {
        payload = payload.get(5..)?;
    }
    Some(payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_read_as_it_was_written() {
        let mut out = Vec::new();
        put(&mut out, kind::DATA, flag::END_STREAM, 0x0102_0305, b"abc");
        assert_eq!(out, [0, 0, 3, 0, 1, 1, 2, 3, 5, b'a', b'b', b'c']);
        let header = Header::read(&out).unwrap();
        assert_eq!(header, Header { len: 3, kind: 0, flags: 1, stream: 0x0102_0305 });
        assert_eq!(Header::read(&out[..8]), None, "not whole yet");
        // The first bit of the stream is reserved: ignored.
        out[5] |= 0x80;
        assert_eq!(Header::read(&out).unwrap().stream, 0x0102_0305);
    }

    #[test]
    fn padding_and_priority_are_left_out() {
        let padded = |kind, flags| Header { len: 0, kind, flags, stream: 1 };
        let data = padded(kind::DATA, flag::PADDED);
        assert_eq!(unpadded(data, &[2, 7, 8, 0, 0]), Some(&[7, 8][..]));
        assert_eq!(unpadded(data, &[3, 7, 8]), None, "more padding than there is");
        let headers = padded(kind::HEADERS, flag::PADDED | flag::PRIORITY);
        assert_eq!(unpadded(headers, &[1, 0, 0, 0, 0, 9, 0x88, 0]), Some(&[0x88][..]));
    }

    #[test]
    fn settings_are_read_as_they_were_written() {
        let mut out = Vec::new();
        put_settings(
            &mut out,
            &[(setting::INITIAL_WINDOW_SIZE, 70_000), (setting::ENABLE_PUSH, 0)],
        );
        let read: Vec<_> = settings(&out[HEADER_BYTES..]).collect();
        assert_eq!(read, [(4, 70_000), (2, 0)]);
    }
}
