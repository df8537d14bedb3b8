//! What is wrong with what somebody wants to write, field by field, and the closed set of ways
//! in which a call on the catalogue ends badly.

use crate::limits::REFUSED_FIELDS_MAX;
use crate::ports::StoreError;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The field, as a path: `zones[3].zone_id`.
    pub field: String,
    /// What is wrong with its value, and what would do.
    pub message: String,
    /// Whether the value itself is sound, and only the rest of the catalogue does not fit it.
    pub is_precondition: bool,
}

impl Problem {
    /// The value itself is wrong.
    pub fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into(), is_precondition: false }
    }

    /// The catalogue as it is does not allow the value.
    pub fn precondition(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into(), is_precondition: true }
    }
}

/// Why a call on the catalogue did nothing.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// What was asked does not hold; each problem names a field.
    #[error("{}", summary(.0))]
    Refused(Vec<Problem>),
    /// The object that the call is about is not there.
    #[error("there is no {kind} {id}")]
    NotFound {
        /// The kind of object.
        kind: &'static str,
        /// The id that was asked for.
        id: String,
    },
    /// `if_version` is not the object's version, or another change kept coming first.
    #[error("{0}")]
    Aborted(String),
    /// The version that was asked for is not kept.
    #[error("{0}")]
    OutOfRange(String),
    /// The store did not do its part.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl CatalogError {
    /// One refused field.
    pub fn refused(problem: Problem) -> Self {
        Self::Refused(vec![problem])
    }
}

fn summary(problems: &[Problem]) -> String {
    let told = problems.iter().take(REFUSED_FIELDS_MAX);
    let mut lines: Vec<_> = told.map(|p| format!("{}: {}", p.field, p.message)).collect();
    if problems.len() > REFUSED_FIELDS_MAX {
        lines.push(format!("and {} more", problems.len() - REFUSED_FIELDS_MAX));
    }
    lines.join("; ")
}
