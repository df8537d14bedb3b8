//! Files that settings name: certificates, keys, identities.

use std::fmt;
use std::io::Read;
use std::path::PathBuf;

use super::layers::{ConfigError, Effective};
use crate::limits::NAMED_FILE_BYTES_MAX;

/// A file that a setting names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFile {
    /// The setting.
    pub key: &'static str,
    /// The file.
    pub path: PathBuf,
}

/// What a door needs to speak TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// Its certificate and those that lead to the authority, in PEM form.
    pub cert: NamedFile,
    /// The certificate's private key, in PEM form.
    pub key: NamedFile,
    /// The authorities whose client certificates it takes, in PEM form; nothing: it asks for none.
    pub client_ca: Option<NamedFile>,
}

/// Why a file will not do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file} {problem}")]
pub struct FileError {
    file: NamedFile,
    problem: String,
}

impl fmt::Display for NamedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {:?}", self.key, self.path)
    }
}

impl NamedFile {
    /// The file that `key` names, if it names one.
    pub(super) fn new(
        effective: &Effective,
        key: &'static str,
    ) -> Result<Option<Self>, ConfigError> {
        let path = effective.parse(key, |text| Ok(PathBuf::from(text)))?;
        Ok(Some(Self { key, path }).filter(|file| !file.path.as_os_str().is_empty()))
    }

    /// All of its bytes.
    ///
    /// # Errors
    /// When it cannot be read, or is longer than [`NAMED_FILE_BYTES_MAX`].
    pub fn read(&self) -> Result<Vec<u8>, FileError> {
        let mut bytes = Vec::new();
        std::fs::File::open(&self.path)
            .and_then(|file| file.take(NAMED_FILE_BYTES_MAX + 1).read_to_end(&mut bytes))
            .map_err(|error| self.refuse(format!("cannot be read: {error}")))?;
        if bytes.len() as u64 > NAMED_FILE_BYTES_MAX {
            return Err(self.refuse(format!("is longer than {NAMED_FILE_BYTES_MAX} bytes")));
        }
        Ok(bytes)
    }

    /// The error that says what is wrong with it.
    pub fn refuse(&self, problem: impl Into<String>) -> FileError {
        FileError { file: self.clone(), problem: problem.into() }
    }
}

/// The files of one door's TLS, from its three settings.
pub(super) fn tls(
    effective: &Effective,
    [cert, key, client_ca]: [&'static str; 3],
) -> Result<Option<TlsFiles>, ConfigError> {
    let missing = |key, for_what| {
        effective.refuse(key, &format!("is missing, and {for_what} is of no use without it"))
    };
    let named = |key| NamedFile::new(effective, key);
    match (named(cert)?, named(key)?, named(client_ca)?) {
        (Some(cert), Some(key), client_ca) => Ok(Some(TlsFiles { cert, key, client_ca })),
        (None, None, None) => Ok(None),
        (Some(_), None, _) => Err(missing(key, cert)),
        (None, Some(_), _) => Err(missing(cert, key)),
        (None, None, Some(_)) => Err(missing(cert, client_ca)),
    }
}
