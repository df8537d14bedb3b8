//! How a call can fail: a closed set.

use std::time::Duration;

use tonic::{Code, Status};

use crate::fate::Fate;

/// Why there is no answer. Where it matters, it says whether the server can have done the call.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The client was set up with something that cannot work; the text names it.
    #[error("{0}")]
    Options(String),
    /// No node could be reached within the deadline, or each refused the call unread: it was not
    /// done.
    #[error("not reached: {0}")]
    Unreachable(String),
    /// The deadline was over first: the call may have been done, or may still be.
    #[error("no answer within {0:?}")]
    Deadline(Duration),
    /// The connection broke before the answer came: the call may have been done.
    #[error("the connection broke before an answer came: {0}")]
    Broken(String),
    /// The server answered, and refused. Code, message and details are its own.
    #[error("refused: {}", words(.0))]
    Refused(Box<Status>),
}

impl Error {
    /// The server's code, where it has answered.
    ///
    /// ```
    /// use slotwise_client::{Code, Error, Status};
    ///
    /// let error = Error::Refused(Box::new(Status::not_found("no campaign 7:x")));
    /// assert_eq!(error.code(), Some(Code::NotFound));
    /// assert_eq!(Error::Broken("reset".into()).code(), None);
    /// ```
    pub fn code(&self) -> Option<Code> {
        match self {
            Error::Refused(status) => Some(status.code()),
            _ => None,
        }
    }

    /// Whether the same call may do later, as far as one can know: the node or the network were at
    /// fault, not the call. It may have been done already, unless it is [`Error::Unreachable`].
    pub fn is_passing(&self) -> bool {
        match self {
            Error::Options(_) => false,
            Error::Unreachable(_) | Error::Deadline(_) | Error::Broken(_) => true,
            Error::Refused(status) => status.code() == Code::Unavailable,
        }
    }

    /// The error of a call that ended with `status` and is not sent again.
    pub(crate) fn of(status: Status, deadline: Duration) -> Self {
        match Fate::of(&status) {
            Fate::Late => Error::Deadline(deadline),
            Fate::Unsent => Error::Unreachable(root_cause(&status)),
            Fate::Unread => Error::Unreachable(format!("refused unread ({})", root_cause(&status))),
            Fate::Broken => Error::Broken(root_cause(&status)),
            Fate::Answered => match status.code() {
                // Nobody cancels here: tonic's server says so when the deadline is over there.
                Code::DeadlineExceeded | Code::Cancelled => Error::Deadline(deadline),
                _ => Error::Refused(Box::new(status)),
            },
        }
    }
}

fn words(status: &Status) -> String {
    match status.message() {
        "" => format!("{:?}", status.code()),
        message => format!("{:?}: {message}", status.code()),
    }
}

/// The innermost cause, which says most: "connection refused" and not "transport error".
pub(crate) fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    match cause.downcast_ref::<Status>() {
        Some(status) => status.message().to_owned(),
        None => cause.to_string(),
    }
}
