//! What files say, made anew when they change.

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::{ArcSwap, Guard};
use sha2::{Digest, Sha256};
use tokio::time::MissedTickBehavior;

use super::listener::Drain;
use crate::config::{FileError, NamedFile};
use crate::limits::RELOAD_INTERVAL;

/// What is made of the files' contents, which come in the files' order.
type Make<T> = Box<dyn Fn(&[Vec<u8>]) -> Result<T, FileError> + Send + Sync>;

/// A value that is made of files. Where a changed file will not do, what was made before stays.
pub struct Reloaded<T> {
    files: Vec<NamedFile>,
    make: Make<T>,
    current: ArcSwap<T>,
    /// What was tried last, so that a bad file is complained of once.
    tried: Mutex<Fingerprint>,
}

/// Tells two states of the files apart, without keeping what they say; or why one is unreadable.
type Fingerprint = Result<[u8; 32], FileError>;

impl<T: Send + Sync + 'static> Reloaded<T> {
    /// Reads `files` and makes the first value.
    ///
    /// # Errors
    /// When a file cannot be read, or `make` refuses it.
    pub fn load(
        files: Vec<NamedFile>,
        make: impl Fn(&[Vec<u8>]) -> Result<T, FileError> + Send + Sync + 'static,
    ) -> Result<Arc<Self>, FileError> {
        let contents = read(&files)?;
        let current = ArcSwap::from_pointee(make(&contents)?);
        let tried = Mutex::new(Ok(fingerprint(&contents)));
        Ok(Arc::new(Self { files, make: Box::new(make), current, tried }))
    }

    /// The newest value.
    pub fn current(&self) -> Arc<T> {
        self.current.load_full()
    }

    /// The same, borrowed for a moment.
    pub fn borrowed(&self) -> Guard<Arc<T>> {
        self.current.load()
    }

    /// Looks for changes until `drain` begins, and logs each.
    pub async fn follow(self: Arc<Self>, drain: Drain) {
        let mut turns = tokio::time::interval(RELOAD_INTERVAL);
        turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = turns.tick() => {}
                () = drain.begun() => return,
            }
            let this = Arc::clone(&self);
            match tokio::task::spawn_blocking(move || this.look()).await {
                Ok(None) => {}
                Ok(Some(Ok(()))) => {
                    let files: Vec<_> = self.files.iter().map(ToString::to_string).collect();
                    tracing::info!(?files, "changed files were read anew");
                }
                Ok(Some(Err(error))) => {
                    tracing::warn!(%error, "a changed file will not do; what it said before holds");
                }
                Err(error) => tracing::error!(%error, "files could not be looked at"),
            }
        }
    }

    /// Makes the value anew where the files have changed since the last look; nothing: they have
    /// not.
    fn look(&self) -> Option<Result<(), FileError>> {
        let contents = read(&self.files);
        let seen = contents.as_deref().map(fingerprint).map_err(FileError::clone);
        let mut tried = self.tried.lock().unwrap_or_else(PoisonError::into_inner);
        if *tried == seen {
            return None;
        }
        *tried = seen;
        let made = contents.and_then(|contents| (self.make)(&contents));
        Some(made.map(|made| self.current.store(Arc::new(made))))
    }
}

fn read(files: &[NamedFile]) -> Result<Vec<Vec<u8>>, FileError> {
    files.iter().map(NamedFile::read).collect()
}

fn fingerprint(contents: &[Vec<u8>]) -> [u8; 32] {
    let mut digest = Sha256::new();
    for bytes in contents {
        // With its length, no byte can move from one file to the next unseen.
        digest.update((bytes.len() as u64).to_le_bytes());
        digest.update(bytes);
    }
    digest.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_taken_once_and_a_bad_one_leaves_what_was() {
        let dir = tempfile::tempdir().unwrap();
        let [first, second] = ["first", "second"].map(|name| dir.path().join(name));
        let write = |one: &str, two: &str| {
            std::fs::write(&first, one).unwrap();
            std::fs::write(&second, two).unwrap();
        };
        let file = |path: &std::path::Path| NamedFile { key: "k", path: path.to_owned() };
        let bad = file(&second);
        let make = move |contents: &[Vec<u8>]| {
            let text = String::from_utf8(contents.concat()).unwrap();
            if text.contains('!') { Err(bad.refuse("is bad")) } else { Ok(text) }
        };
        write("a", "b!");
        let refused = Reloaded::load(vec![file(&first), file(&second)], make.clone()).err();
        assert_eq!(refused, Some(file(&second).refuse("is bad")));

        write("a", "b");
        let kept = Reloaded::load(vec![file(&first), file(&second)], make).unwrap();
        assert_eq!((kept.look(), &**kept.current()), (None, "ab"), "nothing has changed");
        write("a", "c");
        assert_eq!((kept.look(), &**kept.current()), (Some(Ok(())), "ac"));
        write("a", "d!");
        let complaint = Some(Err(file(&second).refuse("is bad")));
        assert_eq!((kept.look(), &**kept.current()), (complaint, "ac"));
        assert_eq!(kept.look(), None, "complained of once");
        std::fs::remove_file(&first).unwrap();
        let complaint = kept.look().unwrap().unwrap_err().to_string();
        assert!(complaint.contains("first") && complaint.contains("cannot be read"), "{complaint}");
        assert_eq!((kept.look(), &**kept.current()), (None, "ac"));
        // Back as it was before it went bad: read anew, so that the log says that all is well.
        write("a", "c");
        assert_eq!((kept.look(), &**kept.current()), (Some(Ok(())), "ac"));
        // A byte that moves from one file to the other is a change, too.
        write("ac", "");
        assert_eq!(kept.look(), Some(Ok(())));
    }
}
