//! What the headers of an answer say, as far as it matters here. Nearly all answers of a load have
//! the same header blocks, so that one comparison usually stands for decoding.

use super::hpack::{BadBlock, Decoder};
use crate::limits::BLOCKS_REMEMBERED;

/// The headers, or trailers, of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    /// HTTP's status.
    pub(crate) status: Option<u16>,
    /// gRPC's.
    pub(crate) grpc_status: Option<u16>,
    /// gRPC's words for it.
    pub(crate) grpc_message: String,
    /// Where a redirect leads.
    pub(crate) location: Vec<u8>,
}

/// A block that was read, and with how many changes of the table.
struct Known {
    block: Vec<u8>,
    changes: u64,
    head: Head,
}

/// Reads the header blocks of one connection, in the order in which they come.
#[derive(Default)]
pub(crate) struct Heads {
    decoder: Decoder,
    known: Vec<Known>,
    last: Head,
    oldest: usize,
}

impl Heads {
    /// What `block` says.
    pub(crate) fn read(&mut self, block: &[u8]) -> Result<&Head, BadBlock> {
        let changes = self.decoder.changes();
        let is_it = |known: &Known| known.changes == changes && known.block == block;
        // As an index: what is found cannot be lent out where it might not be found.
        if let Some(at) = self.known.iter().position(is_it) {
            return Ok(&self.known[at].head);
        }
        let mut head = Head::default();
        self.decoder.decode(block, |name, value| head.take(name, value))?;
        if self.decoder.changes() == changes {
            self.remember(Known { block: block.to_vec(), changes, head: head.clone() });
        }
        self.last = head;
        Ok(&self.last)
    }

    fn remember(&mut self, known: Known) {
        if self.known.len() < BLOCKS_REMEMBERED {
            self.known.push(known);
        } else {
            self.known[self.oldest] = known;
            self.oldest = (self.oldest + 1) % BLOCKS_REMEMBERED;
        }
    }
}

impl Head {
    fn take(&mut self, name: &[u8], value: &[u8]) {
        let number = || std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
        match name {
            b":status" => self.status = number(),
            // One that cannot be read is no success.
            b"grpc-status" => self.grpc_status = Some(number().unwrap_or(u16::MAX)),
            b"grpc-message" => self.grpc_message = String::from_utf8_lossy(value).into_owned(),
            b"location" => self.location = value.to_vec(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: u16) -> Head {
        Head { status: Some(code), ..Head::default() }
    }

    #[test]
    fn equal_blocks_mean_the_same_only_while_the_table_stays() {
        let mut heads = Heads::default();
        // `:status: 302`, remembered as number 62, and then by that number.
        assert_eq!(heads.read(b"\x48\x03302").unwrap(), &status(302));
        assert_eq!(heads.read(b"\xbe").unwrap(), &status(302));
        assert_eq!(heads.read(b"\xbe").unwrap(), &status(302));
        assert_eq!(heads.known.len(), 1);
        // Another one becomes number 62: the same byte says something else.
        assert_eq!(heads.read(b"\x48\x03418").unwrap(), &status(418));
        assert_eq!(heads.read(b"\xbe").unwrap(), &status(418));
        assert_eq!(heads.read(b"\xbf").unwrap(), &status(302));
    }

    #[test]
    fn as_many_blocks_are_remembered_as_are_said() {
        let mut heads = Heads::default();
        for number in 0..3 * BLOCKS_REMEMBERED {
            let block = format!("\x08\x03{:03}", 200 + number);
            let head = heads.read(block.as_bytes()).unwrap();
            assert_eq!(head.status, Some(u16::try_from(200 + number).unwrap()));
        }
        assert_eq!(heads.known.len(), BLOCKS_REMEMBERED);
    }

    #[test]
    fn a_status_that_cannot_be_read_is_no_success() {
        let mut heads = Heads::default();
        let trailers = heads.read(b"\x00\x0bgrpc-status\x01x").unwrap();
        assert_eq!(trailers.grpc_status, Some(u16::MAX));
    }
}
