//! A file that is named by what is in it.

use std::collections::VecDeque;
use std::io::{self, Read};

use sha2::{Digest, Sha256};

/// A file that is hashed as it is read, and that knows where its lines begin: the parser of CSV
/// counts them otherwise where lines are blank, or end as on Windows.
pub(super) struct Hashed {
    file: Box<dyn Read + Send>,
    hash: Sha256,
    /// Bytes that were read.
    length: u64,
    line: u64,
    last: u8,
    is_blank: bool,
    /// The first byte of each line that is not blank, with its number, from where the parser is
    /// to where its buffer ends.
    begins: VecDeque<(u64, u64)>,
    has_lines: bool,
}

impl Hashed {
    pub(super) fn new(file: Box<dyn Read + Send>) -> Self {
        let (hash, begins) = (Sha256::new(), VecDeque::new());
        Self { file, hash, length: 0, line: 1, last: 0, is_blank: true, begins, has_lines: false }
    }

    /// One whose lines are asked for.
    pub(super) fn with_lines(file: Box<dyn Read + Send>) -> Self {
        Self { has_lines: true, ..Self::new(file) }
    }

    /// Of all that was read.
    pub(super) fn sha256(self) -> [u8; 32] {
        self.hash.finalize().into()
    }

    fn see(&mut self, byte: u8) {
        match byte {
            b'\n' if self.last == b'\r' => {}
            b'\n' | b'\r' => {
                self.line += 1;
                self.is_blank = true;
            }
            _ if self.is_blank => {
                self.is_blank = false;
                self.begins.push_back((self.length, self.line));
            }
            _ => {}
        }
        self.last = byte;
        self.length += 1;
    }

    /// The number of the first line that is not blank from `offset` on. Offsets never go back.
    pub(super) fn line_at(&mut self, offset: u64) -> u64 {
        while self.begins.front().is_some_and(|(begin, _)| *begin < offset) {
            self.begins.pop_front();
        }
        self.begins.front().map_or(self.line, |(_, line)| *line)
    }
}

impl Read for Hashed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.file.read(buffer)?;
        self.hash.update(&buffer[..length]);
        if self.has_lines {
            buffer[..length].iter().for_each(|byte| self.see(*byte));
        }
        Ok(length)
    }
}
