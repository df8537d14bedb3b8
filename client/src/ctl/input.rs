//! What is read from files, or from standard input where the name is `-`.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use crate::ctl::error::Error;

/// One object in JSON, or one ad's markup: the largest ad has 10,000 zones of about 300 bytes.
const OBJECT_BYTES_MAX: u64 = 4 << 20;
/// Reads of an import file, few and large.
const BUFFER_BYTES: usize = 256 << 10;

/// Opens the file, or standard input.
pub(crate) fn open(path: &Path) -> Result<Box<dyn BufRead>, Error> {
    if path == Path::new("-") {
        return Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, io::stdin())));
    }
    let file = File::open(path).map_err(Error::io(path.display().to_string()))?;
    Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, file)))
}

/// The whole of a small text file.
pub(crate) fn read_text(path: &Path) -> Result<String, Error> {
    let mut text = String::new();
    open(path)?
        .take(OBJECT_BYTES_MAX + 1)
        .read_to_string(&mut text)
        .map_err(Error::io(path.display().to_string()))?;
    if text.len() as u64 > OBJECT_BYTES_MAX {
        let problem = format!("{}: longer than {OBJECT_BYTES_MAX} bytes", path.display());
        return Err(Error::Input(problem));
    }
    Ok(text)
}
