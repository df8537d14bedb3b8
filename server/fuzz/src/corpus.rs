//! The files that are kept of each target.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

/// Fewer would mean that the test does not see them.
const FILES_MIN: usize = 20;

/// Has `check` look at every file of `target`, in the order of their names. The name of the one
/// that fails is printed.
pub fn each(target: &str, check: impl Fn(&[u8])) {
    // Both the server's tests and the client's include this file.
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dir = package.parent().unwrap().join("server/fuzz/corpus").join(target);
    let files = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.collect();
    files.sort();
    assert!(files.len() >= FILES_MIN, "{} files in {}", files.len(), dir.display());
    for file in files {
        let data = std::fs::read(&file).unwrap();
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| check(&data))) {
            eprintln!("it was {}", file.display());
            resume_unwind(panic);
        }
    }
}
