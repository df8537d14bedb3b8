//! What a spill file is made of: frames, each a header and a batch of events.
//!
//! The header is a mark of eight bytes, the batch's length (four bytes, little-endian), and a
//! CRC-32 of these twelve; the batch has a checksum of its own. Where a header is damaged, the
//! next mark with a sound header is looked for. No text in an event can pass for a mark, as a
//! mark is no UTF-8.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::limits::SPILL_FRAME_BYTES_MAX;

/// What a frame begins with; its last byte is the version of this layout.
const MARK: [u8; 8] = [0xff, 0xfe, b's', b'p', b'i', b'l', b'l', 1];
/// Bytes of a header.
const HEADER: usize = 16;
const HEADER_BYTES: u64 = HEADER as u64;
/// Bytes that are looked through at once for a mark.
const LOOK_THROUGH: usize = 64 << 10;

/// What lies at some place of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A frame with a sound header.
    Frame {
        /// Where its batch begins.
        batch: u64,
        /// Where the frame ends.
        next: u64,
    },
    /// Something else, as far as this place.
    Damage {
        /// Where a sound header follows.
        next: u64,
    },
}

/// The header of a frame that holds `batch`.
pub(super) fn header(batch: &[u8]) -> io::Result<[u8; HEADER]> {
    if batch.len() > SPILL_FRAME_BYTES_MAX {
        return Err(io::Error::other("a batch is larger than a frame may be"));
    }
    let len = u32::try_from(batch.len()).map_err(io::Error::other)?;
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(&MARK);
    header[8..12].copy_from_slice(&len.to_le_bytes());
    let checksum = crc32fast::hash(&header[..12]);
    header[12..].copy_from_slice(&checksum.to_le_bytes());
    Ok(header)
}

/// What lies at `at`, in a file that is written as far as `end`; nothing where no frame follows.
pub(super) fn find(file: &File, at: u64, end: u64) -> io::Result<Option<Found>> {
    if let Some(next) = frame_end(file, at, end)? {
        return Ok(Some(Found::Frame { batch: at + HEADER_BYTES, next }));
    }
    let mut from = at + 1;
    let mut chunk = vec![0; LOOK_THROUGH];
    while from + HEADER_BYTES <= end {
        let len = (LOOK_THROUGH as u64).min(end - from);
        // Never above LOOK_THROUGH.
        #[allow(clippy::cast_possible_truncation)]
        let chunk = &mut chunk[..len as usize];
        file.read_exact_at(chunk, from)?;
        for (offset, bytes) in chunk.windows(MARK.len()).enumerate() {
            let next = from + offset as u64;
            if bytes == MARK && frame_end(file, next, end)?.is_some() {
                return Ok(Some(Found::Damage { next }));
            }
        }
        // A mark may lie across the border of two chunks.
        from += len - (MARK.len() as u64 - 1);
    }
    Ok(None)
}

/// Where the frame at `at` ends; nothing where there is no whole one.
fn frame_end(file: &File, at: u64, end: u64) -> io::Result<Option<u64>> {
    let mut header = [0; HEADER];
    if at + HEADER_BYTES > end {
        return Ok(None);
    }
    file.read_exact_at(&mut header, at)?;
    let [len, checksum] = [8, 12].map(|from| {
        let mut number = [0; 4];
        number.copy_from_slice(&header[from..from + 4]);
        u32::from_le_bytes(number)
    });
    let is_sound = header[..8] == MARK
        && crc32fast::hash(&header[..12]) == checksum
        && len as usize <= SPILL_FRAME_BYTES_MAX;
    let next = at + HEADER_BYTES + u64::from(len);
    Ok((is_sound && next <= end).then_some(next))
}
