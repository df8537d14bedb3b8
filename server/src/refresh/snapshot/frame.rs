//! What a snapshot's file is made of: frames with length and checksum.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read, Write};

use prost::Message;
use slotwise_core::index::Key;
use slotwise_core::model::Status;

use crate::limits::SNAPSHOT_FRAME_BYTES_MAX;
use crate::ports::{Head, Row};

/// What the file begins with; another number is another format.
pub(super) const MAGIC: &[u8; 18] = b"slotwise snapshot1";

/// The catalogue in the file: complete at `head`.
#[derive(Debug, Default)]
pub struct Stored {
    /// Where it stands.
    pub head: Head,
    /// Every object.
    pub rows: BTreeMap<Key, Row>,
    /// What all nodes share, by name.
    pub secrets: Vec<(String, [u8; 32])>,
}

/// What is in a file, and how long it is as far as it is sound.
pub(super) fn read(file: impl Read) -> io::Result<Option<(Stored, u64)>> {
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let mut magic = [0; MAGIC.len()];
    match reader.read_exact(&mut magic) {
        Ok(()) if &magic == MAGIC => {}
        Ok(()) => {
            let why = "no snapshot of this version of slotwise";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let (mut stored, mut is_complete) = (Stored::default(), false);
    let (mut at, mut sound) = (MAGIC.len() as u64, 0);
    // Of the version that is not complete yet.
    let mut open: Vec<Frame> = Vec::new();
    while let Some((frame, len)) = Frame::read(&mut reader)? {
        at += len;
        let is_last = frame.head.is_some();
        open.push(frame);
        if is_last {
            open.drain(..).for_each(|frame| stored.take(frame));
            (is_complete, sound) = (true, at);
        }
    }
    Ok(is_complete.then_some((stored, sound)))
}

impl Stored {
    fn take(&mut self, frame: Frame) {
        for name in frame.removed {
            if let Some(key) = name.key() {
                self.rows.remove(&key);
            }
        }
        for stored in frame.rows {
            let Some(key) = stored.name.as_ref().and_then(Name::key) else { continue };
            let status = match stored.status {
                1 => Some(Status::Active),
                2 => Some(Status::Paused),
                _ => None,
            };
            let (serial, version, body) = (stored.serial, stored.version, stored.body);
            self.rows.insert(key.clone(), Row { key, serial, version, status, body });
        }
        for secret in frame.secrets {
            if let Ok(value) = secret.value.try_into() {
                self.secrets.push((secret.name, value));
            }
        }
        if let Some(head) = frame.head {
            let mut serials = [0; 5];
            serials.iter_mut().zip(head.serials).for_each(|(to, from)| *to = from);
            self.head = Head {
                mark: head.mark,
                serials,
                version: head.version,
                ads: head.ads,
                forced_version: head.forced_version,
            };
        }
    }
}

/// A part of the file; its numbers are never changed and never reused.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Frame {
    #[prost(message, repeated, tag = "1")]
    rows: Vec<StoredRow>,
    #[prost(message, repeated, tag = "2")]
    removed: Vec<Name>,
    /// Completes a version.
    #[prost(message, optional, tag = "3")]
    head: Option<StoredHead>,
    #[prost(message, repeated, tag = "4")]
    secrets: Vec<StoredSecret>,
}

#[derive(Clone, PartialEq, Message)]
struct StoredRow {
    #[prost(message, optional, tag = "1")]
    name: Option<Name>,
    #[prost(uint32, tag = "2")]
    serial: u32,
    #[prost(uint64, tag = "3")]
    version: u64,
    /// 0: none; 1: active; 2: paused.
    #[prost(uint32, tag = "4")]
    status: u32,
    #[prost(bytes = "vec", tag = "5")]
    body: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct Name {
    #[prost(uint32, tag = "1")]
    kind: u32,
    #[prost(string, tag = "2")]
    parent: String,
    #[prost(string, tag = "3")]
    id: String,
}

#[derive(Clone, PartialEq, Message)]
struct StoredHead {
    #[prost(uint64, tag = "1")]
    version: u64,
    #[prost(uint64, tag = "2")]
    mark: u64,
    #[prost(uint64, tag = "3")]
    ads: u64,
    #[prost(uint64, tag = "4")]
    forced_version: u64,
    #[prost(uint32, repeated, tag = "5")]
    serials: Vec<u32>,
}

#[derive(Clone, PartialEq, Message)]
struct StoredSecret {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

impl Frame {
    /// Writes length, checksum and the frame; returns how many bytes these are.
    pub(super) fn write(&self, to: &mut impl Write) -> io::Result<u64> {
        let body = self.encode_to_vec();
        let len = u32::try_from(body.len()).map_err(io::Error::other)?;
        to.write_all(&len.to_le_bytes())?;
        to.write_all(&crc32fast::hash(&body).to_le_bytes())?;
        to.write_all(&body)?;
        Ok(8 + u64::from(len))
    }

    /// The next frame with its length; nothing at the end, and where what comes is damaged.
    fn read(from: &mut impl Read) -> io::Result<Option<(Self, u64)>> {
        let mut prefix = [0; 8];
        if !read_whole(from, &mut prefix)? {
            return Ok(None);
        }
        let [len, checksum] = [0, 4].map(|at| {
            let mut number = [0; 4];
            number.copy_from_slice(&prefix[at..at + 4]);
            u32::from_le_bytes(number)
        });
        if len as usize > SNAPSHOT_FRAME_BYTES_MAX {
            return Ok(None);
        }
        let mut body = vec![0; len as usize];
        if !read_whole(from, &mut body)? || crc32fast::hash(&body) != checksum {
            return Ok(None);
        }
        let frame = Self::decode(body.as_slice()).ok();
        Ok(frame.map(|frame| (frame, 8 + u64::from(len))))
    }
}

/// Whether there was enough to fill `into`.
fn read_whole(from: &mut impl Read, into: &mut [u8]) -> io::Result<bool> {
    match from.read_exact(into) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

pub(super) fn frame_of(
    rows: &[Row],
    removed: &[Key],
    head: Option<Head>,
    secrets: &[(String, [u8; 32])],
) -> Frame {
    let row = |row: &Row| StoredRow {
        name: Some(Name::of(&row.key)),
        serial: row.serial,
        version: row.version,
        status: match row.status {
            None => 0,
            Some(Status::Active) => 1,
            Some(Status::Paused) => 2,
        },
        body: row.body.clone(),
    };
    let secret = |(name, value): &(String, [u8; 32])| StoredSecret {
        name: name.clone(),
        value: value.to_vec(),
    };
    Frame {
        rows: rows.iter().map(row).collect(),
        removed: removed.iter().map(Name::of).collect(),
        head: head.map(|head| StoredHead {
            version: head.version,
            mark: head.mark,
            ads: head.ads,
            forced_version: head.forced_version,
            serials: head.serials.to_vec(),
        }),
        secrets: secrets.iter().map(secret).collect(),
    }
}

impl Name {
    fn of(key: &Key) -> Self {
        let (parent, id) = key.parts();
        let kind = match key {
            Key::Account(_) => 1,
            Key::Site(_) => 2,
            Key::Zone(..) => 3,
            Key::Campaign(_) => 4,
            Key::Ad(..) => 5,
        };
        Self { kind, parent: parent.to_owned(), id: id.to_owned() }
    }

    fn key(&self) -> Option<Key> {
        let (parent, id) = (self.parent.as_str(), self.id.as_str());
        Some(match self.kind {
            1 => Key::Account(id.into()),
            2 => Key::Site(id.into()),
            3 => Key::Zone(parent.into(), id.into()),
            4 => Key::Campaign(id.into()),
            5 => Key::Ad(parent.into(), id.into()),
            _ => return None,
        })
    }
}
