//! The one error of the tool: each kind knows its words and its exit code.

use std::io;
use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::ctl::connect::Door;
use crate::ctl::text;

/// Why a command was not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A file or a value that does not do; the text names it.
    #[error("{0}")]
    Input(String),
    /// Flags that do not go together, beyond what the parser of the command line can see.
    #[error("{0}")]
    Usage(String),
    /// The server answered, and refused.
    #[error("{}", refusal(.0))]
    Refused(Box<Status>),
    /// Done and stored, but not on every node.
    #[error("{0}")]
    NotApplied(String),
    /// Nobody answers at the address, or the connection broke.
    #[error(
        "cannot reach the {} door at {}: {cause} (is slotwise running there? {} takes another \
         address)", door.name, door.address, door.flag
    )]
    Unreachable {
        /// Where the call went.
        door: Box<Door>,
        /// What the transport said.
        cause: String,
    },
    /// The server answered that it cannot do it now.
    #[error("{why} (says the {} door at {})", door.name, door.address)]
    NotNow {
        /// Where the call went.
        door: Box<Door>,
        /// What it said.
        why: String,
    },
    /// The answer took longer than the deadline.
    #[error(
        "no answer from the {} door at {} within {timeout:?} (--timeout takes another bound)",
        door.name, door.address
    )]
    Deadline {
        /// Where the call went.
        door: Box<Door>,
        /// The bound that was over.
        timeout: Duration,
    },
    /// A file could not be read or written.
    #[error("{what}: {source}")]
    Io {
        /// The file.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// The reader of our output went away: no failure.
    #[error("the output was closed")]
    ClosedPipe,
}

impl Error {
    /// 1 refused or bad input, 2 bad command line, 3 not applied everywhere, 4 unreachable or late.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Error::ClosedPipe => 0,
            Error::Input(_) | Error::Refused(_) | Error::Io { .. } => 1,
            Error::Usage(_) => 2,
            Error::NotApplied(_) => 3,
            Error::Unreachable { .. } | Error::NotNow { .. } | Error::Deadline { .. } => 4,
        }
    }

    /// Whether trying again later, unchanged, may do.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self, Error::Unreachable { .. } | Error::NotNow { .. } | Error::Deadline { .. })
    }

    /// Whether the server refused with `code`.
    pub(crate) fn is_refusal(&self, code: Code) -> bool {
        matches!(self, Error::Refused(status) if status.code() == code)
    }

    /// The error of a failed call to `door`.
    pub(crate) fn of(error: crate::Error, door: &Door) -> Self {
        let unreachable = |cause: String| {
            // The address is said already.
            let cause = match cause.strip_prefix(&format!("{}: ", door.address)) {
                Some(rest) => rest.to_owned(),
                None => cause,
            };
            Error::Unreachable { door: Box::new(door.clone()), cause }
        };
        match error {
            crate::Error::Options(why) => Error::Usage(why),
            crate::Error::Deadline(timeout) => {
                Error::Deadline { door: Box::new(door.clone()), timeout }
            }
            crate::Error::Refused(status) => match status.code() {
                Code::Unimplemented => Error::Input(format!(
                    "{} does not serve this call: is it the {} door of a slotwise that has it? \
                     ({})",
                    door.address,
                    door.name,
                    status.message()
                )),
                Code::Unavailable => {
                    Error::NotNow { door: Box::new(door.clone()), why: status.message().to_owned() }
                }
                _ => Error::Refused(status),
            },
            crate::Error::Unreachable(cause) => unreachable(cause),
            crate::Error::Broken(cause) => {
                unreachable(format!("the connection broke before an answer came: {cause}"))
            }
        }
    }

    /// The error of a failed write to standard output.
    pub(crate) fn output(source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::BrokenPipe => Error::ClosedPipe,
            _ => Error::Io { what: "standard output".to_owned(), source },
        }
    }

    /// The error of a failed read or write of the file `what`.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |source| Error::Io { what: what.into(), source }
    }
}

/// A refusal in one line: the server's message, then each field violation that it does not hold.
fn refusal(status: &Status) -> String {
    let mut line = match status.message() {
        "" => text::words(&format!("{:?}", status.code()), ""),
        message => message.to_owned(),
    };
    let violations = status.get_details_bad_request().map(|details| details.field_violations);
    for violation in violations.unwrap_or_default() {
        if !(line.contains(&violation.field) && line.contains(&violation.description)) {
            line.push_str("; ");
            line.push_str(&format!("{}: {}", violation.field, violation.description));
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic_types::ErrorDetails;

    #[test]
    fn a_refusal_names_each_field_once() {
        let details = ErrorDetails::with_bad_request(vec![
            tonic_types::FieldViolation::new("count", "at most 100"),
            tonic_types::FieldViolation::new("caps[0].window", "missing"),
        ]);
        let status =
            Status::with_error_details(Code::InvalidArgument, "count: at most 100", details);
        assert_eq!(refusal(&status), "count: at most 100; caps[0].window: missing");
        assert_eq!(refusal(&Status::not_found("no campaign \"7:x\"")), "no campaign \"7:x\"");
        assert_eq!(refusal(&Status::new(Code::Internal, "")), "internal");
    }

    #[test]
    fn each_kind_has_its_exit_code() {
        let door = Door::admin("127.0.0.1:7072".parse().unwrap(), Duration::from_secs(30));
        let refused = |status| Error::of(crate::Error::Refused(Box::new(status)), &door);
        let code = |status| refused(status).exit_code();
        assert_eq!(code(Status::not_found("x")), 1);
        assert_eq!(code(Status::aborted("x")), 1);
        assert_eq!(code(Status::unavailable("x")), 4);
        let late = crate::Error::Deadline(door.timeout);
        assert_eq!(Error::of(late, &door).exit_code(), 4);
        assert_eq!(Error::of(crate::Error::Broken("x".into()), &door).exit_code(), 4);
        assert_eq!(Error::of(crate::Error::Options("x".into()), &door).exit_code(), 2);
        assert_eq!(Error::NotApplied(String::new()).exit_code(), 3);
        assert_eq!(Error::Usage(String::new()).exit_code(), 2);
        assert_eq!(Error::output(io::ErrorKind::BrokenPipe.into()).exit_code(), 0);
        let unreachable = Error::of(crate::Error::Unreachable("refused".into()), &door).to_string();
        assert!(unreachable.contains("127.0.0.1:7072"), "{unreachable}");
        assert!(unreachable.contains("--admin-addr"), "{unreachable}");
    }
}
