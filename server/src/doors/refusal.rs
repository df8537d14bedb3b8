//! Every way in which a call is refused, once: as a status with the field in its details, and as
//! the error of one request in a batch.

use slotwise_proto::v1::RequestError;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, FieldViolation, StatusExt};

use crate::catalog::{CatalogError, Problem};
use crate::limits::REFUSED_FIELDS_MAX;
use crate::ports::StoreError;

/// A refused request.
#[derive(Clone, Debug)]
pub struct Refusal {
    code: Code,
    message: String,
    /// Each field with what is wrong with it.
    violations: Vec<(String, String)>,
}

impl Refusal {
    /// The value of `field` is wrong.
    pub fn invalid(field: &str, problem: impl Into<String>) -> Self {
        let problem = problem.into();
        Self {
            code: Code::InvalidArgument,
            message: format!("{field}: {problem}"),
            violations: vec![(field.to_owned(), problem)],
        }
    }

    /// The value of `field` is sound, and the rest of the catalogue or the request does not fit it.
    pub fn unfit(field: &str, problem: impl Into<String>) -> Self {
        Self { code: Code::FailedPrecondition, ..Self::invalid(field, problem) }
    }

    /// The service cannot answer now.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self { code: Code::Unavailable, message: message.into(), violations: Vec::new() }
    }

    /// What a caller of a batch or a stream gets in place of an answer.
    pub fn into_request_error(self) -> RequestError {
        let field = self.violations.into_iter().next().map(|(field, _)| field);
        RequestError {
            code: self.code.into(),
            message: self.message,
            field: field.unwrap_or_default(),
        }
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        if refusal.violations.is_empty() {
            return Self::new(refusal.code, refusal.message);
        }
        let violations = refusal.violations.into_iter();
        let violations = violations.map(|(field, problem)| FieldViolation::new(field, problem));
        let details = ErrorDetails::with_bad_request(violations.collect::<Vec<_>>());
        Self::with_error_details(refusal.code, refusal.message, details)
    }
}

impl From<CatalogError> for Refusal {
    fn from(error: CatalogError) -> Self {
        let message = error.to_string();
        let code = match &error {
            CatalogError::Refused(problems) if problems.iter().all(|p| p.is_precondition) => {
                Code::FailedPrecondition
            }
            CatalogError::Refused(_) => Code::InvalidArgument,
            CatalogError::NotFound { .. } => Code::NotFound,
            CatalogError::Aborted(_) => Code::Aborted,
            CatalogError::OutOfRange(_) => Code::OutOfRange,
            CatalogError::Store(StoreError::Conflict { .. }) => Code::Aborted,
            CatalogError::Store(StoreError::Gap { .. }) => Code::OutOfRange,
            CatalogError::Store(StoreError::Full(_)) => Code::ResourceExhausted,
            CatalogError::Store(StoreError::Unavailable(_)) => Code::Unavailable,
        };
        let violations = match error {
            CatalogError::Refused(problems) => {
                let pair = |Problem { field, message, .. }| (field, message);
                problems.into_iter().take(REFUSED_FIELDS_MAX).map(pair).collect()
            }
            _ => Vec::new(),
        };
        Self { code, message, violations }
    }
}

impl From<CatalogError> for Status {
    fn from(error: CatalogError) -> Self {
        Refusal::from(error).into()
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        CatalogError::from(error).into()
    }
}
