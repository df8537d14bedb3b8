//! Header blocks, decoded (RFC 7541).

use std::collections::VecDeque;

use super::huffman;
use crate::limits::{HEADER_STRING_BYTES_MAX, HEADER_TABLE_BYTES};

/// A header block that cannot be read: the connection is of no use any more.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadBlock(pub(crate) &'static str);

/// What an entry of the dynamic table costs beside its bytes, by the standard.
const ENTRY_OVERHEAD: usize = 32;

/// The fields that have a number from the start (RFC 7541, appendix A), from 1.
#[rustfmt::skip]
const STATIC: [(&str, &str); 61] = [
    (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"),
    (":path", "/index.html"), (":scheme", "http"), (":scheme", "https"), (":status", "200"),
    (":status", "204"), (":status", "206"), (":status", "304"), (":status", "400"),
    (":status", "404"), (":status", "500"), ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"), ("accept-language", ""), ("accept-ranges", ""),
    ("accept", ""), ("access-control-allow-origin", ""), ("age", ""), ("allow", ""),
    ("authorization", ""), ("cache-control", ""), ("content-disposition", ""),
    ("content-encoding", ""), ("content-language", ""), ("content-length", ""),
    ("content-location", ""), ("content-range", ""), ("content-type", ""), ("cookie", ""),
    ("date", ""), ("etag", ""), ("expect", ""), ("expires", ""), ("from", ""), ("host", ""),
    ("if-match", ""), ("if-modified-since", ""), ("if-none-match", ""), ("if-range", ""),
    ("if-unmodified-since", ""), ("last-modified", ""), ("link", ""), ("location", ""),
    ("max-forwards", ""), ("proxy-authenticate", ""), ("proxy-authorization", ""), ("range", ""),
    ("referer", ""), ("refresh", ""), ("retry-after", ""), ("server", ""), ("set-cookie", ""),
    ("strict-transport-security", ""), ("transfer-encoding", ""), ("user-agent", ""), ("vary", ""),
    ("via", ""), ("www-authenticate", ""),
];

/// Name and value.
type Field = (Vec<u8>, Vec<u8>);

/// One direction's decoder: it remembers what the peer has told it to.
#[derive(Debug)]
pub(crate) struct Decoder {
    /// Newest first.
    table: VecDeque<Field>,
    bytes: usize,
    bytes_max: usize,
    changes: u64,
}

impl Default for Decoder {
    fn default() -> Self {
        Self { table: VecDeque::new(), bytes: 0, bytes_max: HEADER_TABLE_BYTES, changes: 0 }
    }
}

impl Decoder {
    /// How often the table has changed: while it stays, equal blocks mean the same.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Reads a whole block and gives out its fields in order.
    pub(crate) fn decode(
        &mut self,
        block: &[u8],
        mut field: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), BadBlock> {
        let mut rest = block;
        while let Some(&first) = rest.first() {
            if first & 0x80 != 0 {
                let index = integer(&mut rest, 7)?;
                let (name, value) = self.field(index)?;
                field(&name, &value);
            } else if first & 0xe0 == 0x20 {
                self.resize(integer(&mut rest, 5)?)?;
            } else {
                let is_kept = first & 0x40 != 0;
                let index = integer(&mut rest, if is_kept { 6 } else { 4 })?;
                let name = match index {
                    0 => string(&mut rest)?,
                    index => self.field(index)?.0,
                };
                let value = string(&mut rest)?;
                field(&name, &value);
                if is_kept {
                    self.insert((name, value));
                }
            }
        }
        Ok(())
    }

    fn field(&self, index: usize) -> Result<Field, BadBlock> {
        let at = index.checked_sub(1).ok_or(BadBlock("field number 0"))?;
        if let Some((name, value)) = STATIC.get(at) {
            return Ok((name.as_bytes().to_vec(), value.as_bytes().to_vec()));
        }
        self.table.get(at - STATIC.len()).cloned().ok_or(BadBlock("a field that there is not"))
    }

    fn insert(&mut self, field: Field) {
        self.changes += 1;
        let bytes = weight(&field);
        self.shrink(self.bytes_max.saturating_sub(bytes));
        // One that is larger than the table only empties it.
        if bytes <= self.bytes_max {
            self.bytes += bytes;
            self.table.push_front(field);
        }
    }

    fn resize(&mut self, bytes_max: usize) -> Result<(), BadBlock> {
        if bytes_max > HEADER_TABLE_BYTES {
            return Err(BadBlock("a larger table than we allow"));
        }
        self.changes += 1;
        self.bytes_max = bytes_max;
        self.shrink(bytes_max);
        Ok(())
    }

    fn shrink(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max {
            match self.table.pop_back() {
                Some(oldest) => self.bytes -= weight(&oldest),
                None => break,
            }
        }
    }
}

fn weight((name, value): &Field) -> usize {
    name.len() + value.len() + ENTRY_OVERHEAD
}

/// A number whose first byte has `bits` of it.
fn integer(rest: &mut &[u8], bits: u32) -> Result<usize, BadBlock> {
    const CUT: BadBlock = BadBlock("a number that is cut off");
    let (&first, mut tail) = rest.split_first().ok_or(CUT)?;
    let most = (1_usize << bits) - 1;
    let mut value = usize::from(first) & most;
    if value == most {
        // Four more bytes reach 268 million: nothing here is that large.
        for shift in [0, 7, 14, 21, 28] {
            let (&next, after) = tail.split_first().ok_or(CUT)?;
            tail = after;
            if shift == 28 {
                return Err(BadBlock("a number that is too large"));
            }
            value += usize::from(next & 0x7f) << shift;
            if next & 0x80 == 0 {
                break;
            }
        }
    }
    *rest = tail;
    Ok(value)
}

fn string(rest: &mut &[u8]) -> Result<Vec<u8>, BadBlock> {
    let is_coded = rest.first().is_some_and(|first| first & 0x80 != 0);
    let len = integer(rest, 7)?;
    if len > HEADER_STRING_BYTES_MAX {
        return Err(BadBlock("a header that is too long"));
    }
    let (raw, tail) = rest.split_at_checked(len).ok_or(BadBlock("a string that is cut off"))?;
    *rest = tail;
    if !is_coded {
        return Ok(raw.to_vec());
    }
    let mut decoded = Vec::with_capacity(len * 2);
    huffman::decode(raw, &mut decoded)?;
    Ok(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h2::hex::bytes;

    fn decoded(decoder: &mut Decoder, hex: &str) -> Result<Vec<String>, BadBlock> {
        let mut fields = Vec::new();
        decoder.decode(&bytes(hex), |name, value| {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            fields.push(format!("{}: {}", text(name), text(value)));
        })?;
        Ok(fields)
    }

    /// RFC 7541, C.4: three requests on one connection, Huffman-coded.
    #[test]
    fn the_requests_of_rfc_7541_are_decoded() {
        let mut decoder = Decoder::default();
        let first = decoded(&mut decoder, "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff").unwrap();
        assert_eq!(
            first,
            [":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com"]
        );
        let second = decoded(&mut decoder, "8286 84be 5886 a8eb 1064 9cbf").unwrap();
        assert_eq!(second[3..], [":authority: www.example.com", "cache-control: no-cache"]);
        let third = "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf";
        let third = decoded(&mut decoder, third).unwrap();
        assert_eq!(
            third,
            [
                ":method: GET",
                ":scheme: https",
                ":path: /index.html",
                ":authority: www.example.com",
                "custom-key: custom-value",
            ]
        );
        assert_eq!(decoder.bytes, 164);
    }

    /// RFC 7541, C.6: three responses with a table of 256 bytes, so that entries are evicted.
    #[test]
    fn the_responses_of_rfc_7541_are_decoded_and_old_entries_go() {
        let mut decoder = Decoder { bytes_max: 256, ..Decoder::default() };
        let first = "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 \
                     82a6 2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3";
        let expected = [
            ":status: 302",
            "cache-control: private",
            "date: Mon, 21 Oct 2013 20:13:21 GMT",
            "location: https://www.example.com",
        ];
        assert_eq!(decoded(&mut decoder, first).unwrap(), expected);
        assert_eq!((decoder.table.len(), decoder.bytes), (4, 222));
        let second = decoded(&mut decoder, "4883 640e ffc1 c0bf").unwrap();
        assert_eq!(second[0], ":status: 307");
        assert_eq!(second[1..], expected[1..]);
        let third = "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab \
                     77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f \
                     9587 3160 65c0 03ed 4ee5 b106 3d50 07";
        assert_eq!(
            decoded(&mut decoder, third).unwrap(),
            [
                ":status: 200",
                "cache-control: private",
                "date: Mon, 21 Oct 2013 20:13:22 GMT",
                "location: https://www.example.com",
                "content-encoding: gzip",
                "set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
            ]
        );
        assert_eq!((decoder.table.len(), decoder.bytes), (3, 215));
    }

    #[test]
    fn what_is_no_block_is_refused() {
        // Number 0, number 62 of an empty table, a cut string, an endless number, a huge table.
        for hex in ["80", "be", "4003 61", "ff80 8080 8080 8080", "3fff ffff 7f"] {
            assert!(decoded(&mut Decoder::default(), hex).is_err(), "{hex}");
        }
    }
}
