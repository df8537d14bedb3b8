//! The last good catalogue on this node's disk, for a start while the store is away and for a
//! store that came back empty.
//!
//! One file of frames, each with its length and checksum: the whole catalogue first, then each
//! change as it comes. A frame with a head completes a version; whatever stands behind the last
//! good one (cut off, or flipped by the disk) is as if it had never been written. Once the
//! changes outweigh the catalogue, a thread writes the file anew.

mod frame;

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use frame::{MAGIC, frame_of, read};

pub use frame::Stored;

use crate::limits::{
    ADMIN_MESSAGE_BYTES_MAX, ID_BYTES_MAX, SNAPSHOT_CHANGES_BYTES_MIN, SNAPSHOT_FRAME_BYTES_MAX,
};
use crate::ports::{Delta, Head, Row};

/// Bytes of the rows of one frame, unless one row alone is larger.
const FRAME_BYTES: usize = 1 << 20;
/// Bytes of a row beside its body: two ids of full length, and numbers.
const ROW_BYTES: usize = 2 * ID_BYTES_MAX + 64;
/// Names of one frame.
const FRAME_NAMES: usize = 1_000;
const _: () = assert!(FRAME_NAMES * ROW_BYTES < SNAPSHOT_FRAME_BYTES_MAX);
const _: () = assert!(FRAME_BYTES + ROW_BYTES + ADMIN_MESSAGE_BYTES_MAX < SNAPSHOT_FRAME_BYTES_MAX);

/// The file.
pub struct Snapshot {
    path: PathBuf,
    secrets: Vec<(String, [u8; 32])>,
    /// Open for appending behind the last good frame; nothing: there is no catalogue in it yet.
    file: Option<File>,
    /// The version that it is complete at; 0: there is none.
    version: u64,
    len: u64,
    /// How much of that is the whole catalogue.
    whole_len: u64,
    tidying: Option<JoinHandle<io::Result<Tidied>>>,
}

/// A file written anew of the first `from` bytes of the other.
struct Tidied {
    file: File,
    from: u64,
    len: u64,
}

/// A file that is being written, to take the place of the other.
pub struct Fresh {
    writer: BufWriter<File>,
    path: PathBuf,
    len: u64,
}

impl Snapshot {
    /// The file at `path`, with what it holds as far as it is sound; nothing where it holds no
    /// catalogue. One that cannot be read is told, and hinders nobody: the store has it all.
    pub fn open(path: &Path) -> (Self, Option<Stored>) {
        let mut snapshot = Self {
            path: path.to_owned(),
            secrets: Vec::new(),
            file: None,
            version: 0,
            len: 0,
            whole_len: 0,
            tidying: None,
        };
        match snapshot.read() {
            Ok(stored) => (snapshot, stored),
            Err(error) => {
                let at = path.display();
                tracing::error!(%error, %at, "the snapshot cannot be read, and is written anew");
                (snapshot, None)
            }
        }
    }

    fn read(&mut self) -> io::Result<Option<Stored>> {
        let path = &self.path;
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let damaged = "it is damaged before its first version is complete";
        let (stored, len) =
            read(file)?.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, damaged))?;
        let file = OpenOptions::new().write(true).open(path)?;
        let found = file.metadata()?.len();
        if found > len {
            tracing::warn!(bytes = found - len, "the end of the snapshot is damaged and left out");
            file.set_len(len)?;
        }
        self.secrets.clone_from(&stored.secrets);
        (self.len, self.whole_len, self.version) = (len, len, stored.head.version);
        self.file = Some(file);
        Ok(Some(stored))
    }

    /// The version that the file is complete at; 0: it holds no catalogue.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Keeps these secrets from the next whole catalogue on.
    pub fn keep_secrets(&mut self, secrets: Vec<(String, [u8; 32])>) {
        self.secrets = secrets;
    }

    /// Begins a whole catalogue, beside what is there.
    ///
    /// # Errors
    /// When the disk refuses it; so for every call below.
    pub fn begin(&self) -> io::Result<Fresh> {
        Fresh::create(&self.path.with_extension("new"), &self.secrets)
    }

    /// Puts a whole catalogue, which is at `head` now, in the place of what was there.
    pub fn replace(&mut self, mut fresh: Fresh, head: Head) -> io::Result<()> {
        fresh.end(head)?;
        // What is being tidied up is the old one's.
        self.tidying = None;
        let file = fresh.writer.into_inner().map_err(io::IntoInnerError::into_error)?;
        self.put_in_place(&fresh.path, file, fresh.len)?;
        self.version = head.version;
        Ok(())
    }

    /// Appends a change. It survives this process at once, and the machine after
    /// [`Snapshot::sync`].
    pub fn append(&mut self, delta: &Delta) -> io::Result<()> {
        self.finish_tidying()?;
        let Some(file) = &mut self.file else { return Ok(()) };
        let mut frames = Vec::new();
        for part in parts(&delta.rows) {
            frame_of(part, &[], None, &[]).write(&mut frames)?;
        }
        for part in delta.removed.chunks(FRAME_NAMES) {
            frame_of(&[], part, None, &[]).write(&mut frames)?;
        }
        frame_of(&[], &[], Some(delta.head), &[]).write(&mut frames)?;
        // A part of a frame that was written before is written over.
        file.seek(SeekFrom::Start(self.len))?;
        file.write_all(&frames)?;
        self.len += frames.len() as u64;
        self.version = delta.head.version;
        self.tidy_if_due()
    }

    /// Makes all that was appended survive the machine.
    pub fn sync(&self) -> io::Result<()> {
        self.file.as_ref().map_or(Ok(()), File::sync_data)
    }

    /// All that the file holds; it counts as empty where that cannot be read.
    pub fn stored(&mut self) -> io::Result<Option<Stored>> {
        let whole = File::open(&self.path).and_then(read);
        if !matches!(whole, Ok(Some(_))) {
            self.version = 0;
        }
        Ok(whole?.map(|(stored, _)| stored))
    }

    fn tidy_if_due(&mut self) -> io::Result<()> {
        let changes = self.len - self.whole_len;
        let is_due = changes > self.whole_len.max(SNAPSHOT_CHANGES_BYTES_MIN);
        if !is_due || self.tidying.is_some() {
            return Ok(());
        }
        let (path, from) = (self.path.clone(), self.len);
        let work = move || {
            let file = File::open(&path)?.take(from);
            let (stored, _) = read(file)?.ok_or(io::ErrorKind::InvalidData)?;
            let mut fresh = Fresh::create(&path.with_extension("tidy"), &stored.secrets)?;
            let rows: Vec<Row> = stored.rows.into_values().collect();
            fresh.rows(&rows)?;
            fresh.end(stored.head)?;
            let file = fresh.writer.into_inner().map_err(io::IntoInnerError::into_error)?;
            Ok(Tidied { file, from, len: fresh.len })
        };
        self.tidying = Some(std::thread::Builder::new().name("snapshot".to_owned()).spawn(work)?);
        Ok(())
    }

    /// Takes the tidied file over, with what was appended meanwhile.
    fn finish_tidying(&mut self) -> io::Result<()> {
        let Some(tidying) = self.tidying.take_if(|tidying| tidying.is_finished()) else {
            return Ok(());
        };
        let panicked = |_| io::Error::other("the snapshot's thread has panicked");
        let mut tidied = tidying.join().map_err(panicked)??;
        let mut old = File::open(&self.path)?;
        old.seek(SeekFrom::Start(tidied.from))?;
        let more = io::copy(&mut old.take(self.len - tidied.from), &mut tidied.file)?;
        let whole_len = tidied.len;
        self.put_in_place(&self.path.with_extension("tidy"), tidied.file, tidied.len + more)?;
        self.whole_len = whole_len;
        Ok(())
    }

    fn put_in_place(&mut self, path: &Path, file: File, len: u64) -> io::Result<()> {
        file.sync_all()?;
        std::fs::rename(path, &self.path)?;
        if let Some(dir) = self.path.parent() {
            File::open(dir)?.sync_all()?;
        }
        (self.file, self.len, self.whole_len) = (Some(file), len, len);
        Ok(())
    }
}

impl Fresh {
    fn create(path: &Path, secrets: &[(String, [u8; 32])]) -> io::Result<Self> {
        // It holds secrets: for this user's eyes only.
        let file =
            OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(path)?;
        let mut writer = BufWriter::new(file);
        writer.write_all(MAGIC)?;
        let len = frame_of(&[], &[], None, secrets).write(&mut writer)?;
        Ok(Self { writer, path: path.to_owned(), len: MAGIC.len() as u64 + len })
    }

    /// Adds objects.
    pub fn rows(&mut self, rows: &[Row]) -> io::Result<()> {
        for part in parts(rows) {
            self.len += frame_of(part, &[], None, &[]).write(&mut self.writer)?;
        }
        Ok(())
    }

    fn end(&mut self, head: Head) -> io::Result<()> {
        self.len += frame_of(&[], &[], Some(head), &[]).write(&mut self.writer)?;
        self.writer.flush()
    }
}

/// The rows of each frame: many small ones, or one large one.
fn parts(rows: &[Row]) -> impl Iterator<Item = &[Row]> {
    let mut left = rows;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let mut fits = |row: &Row| {
            bytes += ROW_BYTES + row.body.len();
            bytes <= FRAME_BYTES
        };
        let len = left.iter().take_while(|row| fits(row)).count().max(1).min(left.len());
        let (part, rest) = left.split_at(len);
        left = rest;
        (!part.is_empty()).then_some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use slotwise_core::index::Key;
    use slotwise_core::model::Status;

    fn row(id: &str, version: u64) -> Row {
        let status = Some(Status::Paused);
        let body = id.as_bytes().to_vec();
        Row { key: Key::Campaign(id.into()), serial: 7, version, status, body }
    }

    fn head(version: u64) -> Head {
        Head { version, mark: version * 10, ads: 1, forced_version: 2, serials: [1, 2, 3, 4, 5] }
    }

    fn filled(path: &Path) -> Snapshot {
        let (mut snapshot, stored) = Snapshot::open(path);
        assert!(stored.is_none());
        snapshot.keep_secrets(vec![("visitors".to_owned(), [9; 32])]);
        let mut fresh = snapshot.begin().unwrap();
        fresh.rows(&(0..2_500).map(|n| row(&n.to_string(), 1)).collect::<Vec<_>>()).unwrap();
        snapshot.replace(fresh, head(3)).unwrap();
        snapshot
    }

    fn change(version: u64) -> Delta {
        let removed = vec![Key::Campaign((version - 1).to_string().as_str().into())];
        Delta { head: head(version), rows: vec![row("new", version)], removed }
    }

    #[test]
    fn what_was_written_reads_back_with_its_changes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("catalog.snapshot");
        let mut snapshot = filled(&path);
        snapshot.append(&change(4)).unwrap();
        let delta = Delta { rows: vec![], ..change(5) };
        snapshot.append(&delta).unwrap();
        snapshot.sync().unwrap();
        let (_, stored) = Snapshot::open(&path);
        let stored = stored.unwrap();
        assert_eq!((stored.head, stored.rows.len()), (head(5), 2_499));
        assert_eq!(stored.rows[&Key::Campaign("new".into())], row("new", 4));
        assert!(!stored.rows.contains_key(&Key::Campaign("3".into())));
        assert_eq!(stored.secrets, [("visitors".to_owned(), [9; 32])]);
    }

    #[test]
    fn a_file_that_is_cut_or_flipped_is_read_as_far_as_it_is_sound() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("catalog.snapshot");
        let mut snapshot = filled(&path);
        let whole = snapshot.len;
        snapshot.append(&change(4)).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.len() as u64, snapshot.len);
        let whole = usize::try_from(whole).unwrap();
        let version_of = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            Snapshot::open(&path).1.map(|stored| stored.head.version)
        };
        for cut in whole..bytes.len() {
            assert_eq!(version_of(&bytes[..cut]), Some(3), "cut at {cut}");
        }
        for flipped in whole..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[flipped] ^= 0x10;
            assert_eq!(version_of(&damaged), Some(3), "flipped at {flipped}");
        }
        assert_eq!(version_of(&bytes), Some(4));
        assert_eq!(version_of(&bytes[..whole - 1]), None, "no version is complete");
        assert_eq!(version_of(&bytes[..5]), None);
        // Behind the sound part it goes on.
        std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        let (mut snapshot, _) = Snapshot::open(&path);
        snapshot.append(&change(6)).unwrap();
        assert_eq!(version_of(&std::fs::read(&path).unwrap()), Some(6));
    }

    #[test]
    fn changes_that_outweigh_the_catalogue_are_folded_into_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("catalog.snapshot");
        let mut snapshot = filled(&path);
        let whole = snapshot.len;
        let large = Row { body: vec![b'x'; 1 << 20], ..row("large", 1) };
        let (mut version, mut largest) = (4, 0);
        while snapshot.len >= largest {
            largest = snapshot.len;
            let delta = Delta { rows: vec![large.clone()], ..change(version) };
            snapshot.append(&delta).unwrap();
            if let Some(tidying) = &snapshot.tidying {
                while !tidying.is_finished() {
                    std::thread::yield_now();
                }
            }
            version += 1;
            assert!(version < 200, "it is never tidied up");
        }
        assert!(snapshot.whole_len < whole + (2 << 20));
        let stored = Snapshot::open(&path).1.unwrap();
        assert_eq!(stored.head, head(version - 1));
        assert_eq!(stored.secrets.len(), 1);
        assert_eq!(stored.rows[&large.key], large);
    }
}
