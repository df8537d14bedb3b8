//! The Huffman code of HPACK (RFC 7541, appendix B), for decoding. It is a canonical code: the
//! lengths of its symbols say all of it, as codes of one length go up with the symbols.

use std::sync::LazyLock;

use super::hpack::BadBlock;

/// Bits of each byte's code.
#[rustfmt::skip]
const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];

/// The longest code. That of the end of the string is as long, and must not be sent.
const LENGTH_MAX: usize = 30;

static CODE: LazyLock<Code> = LazyLock::new(Code::new);

/// What the lengths say.
struct Code {
    /// The symbols, shorter codes first.
    symbols: Vec<u8>,
    /// For each length its first code, how many there are, and where they begin in `symbols`.
    lengths: [(u32, u32, usize); LENGTH_MAX + 1],
}

impl Code {
    fn new() -> Self {
        let mut symbols = Vec::with_capacity(LENGTHS.len());
        let mut lengths = [(0, 0, 0); LENGTH_MAX + 1];
        let mut next = 0_u32;
        for (length, row) in lengths.iter_mut().enumerate().skip(1) {
            next <<= 1;
            let (first, start) = (next, symbols.len());
            let with_it =
                (0..=u8::MAX).filter(|byte| usize::from(LENGTHS[usize::from(*byte)]) == length);
            for byte in with_it {
                symbols.push(byte);
                next += 1;
            }
            *row = (first, next - first, start);
        }
        Self { symbols, lengths }
    }

    fn symbol(&self, code: u32, length: usize) -> Option<u8> {
        let (first, count, start) = self.lengths[length];
        let at = code.checked_sub(first).filter(|at| *at < count)?;
        self.symbols.get(start + at as usize).copied()
    }
}

/// Appends what `coded` stands for.
pub(crate) fn decode(coded: &[u8], into: &mut Vec<u8>) -> Result<(), BadBlock> {
    let (mut code, mut length) = (0_u32, 0);
    for byte in coded {
        for bit in (0..8).rev() {
            code = code << 1 | u32::from(byte >> bit & 1);
            length += 1;
            if let Some(symbol) = CODE.symbol(code, length) {
                into.push(symbol);
                (code, length) = (0, 0);
            } else if length == LENGTH_MAX {
                return Err(BadBlock("a Huffman code that there is not"));
            }
        }
    }
    // What is left over is padding: fewer than eight ones.
    if length < 8 && code == (1 << length) - 1 {
        return Ok(());
    }
    Err(BadBlock("bad Huffman padding"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h2::hex::bytes;

    #[test]
    fn the_strings_of_rfc_7541_are_decoded() {
        for (coded, plain) in [
            ("f1e3 c2e5 f23a 6ba0 ab90 f4ff", "www.example.com"),
            ("a8eb 1064 9cbf", "no-cache"),
            ("25a8 49e9 5ba9 7d7f", "custom-key"),
            ("25a8 49e9 5bb8 e8b4 bf", "custom-value"),
            ("6402", "302"),
            ("640e ff", "307"),
            ("aec3 771a 4b", "private"),
            (
                "d07a be94 1054 d444 a820 0595 040b 8166 e082 a62d 1bff",
                "Mon, 21 Oct 2013 20:13:21 GMT",
            ),
            ("9d29 ad17 1863 c78f 0b97 c8e9 ae82 ae43 d3", "https://www.example.com"),
            ("9bd9 ab", "gzip"),
        ] {
            let mut decoded = Vec::new();
            decode(&bytes(coded), &mut decoded).unwrap();
            assert_eq!(String::from_utf8(decoded).unwrap(), plain);
        }
    }

    #[test]
    fn bad_padding_and_the_end_of_the_string_are_refused() {
        // A zero, eight ones, and the code that means the end.
        for coded in ["00", "07ff", "ffff ffff"] {
            assert!(decode(&bytes(coded), &mut Vec::new()).is_err(), "{coded}");
        }
    }
}
