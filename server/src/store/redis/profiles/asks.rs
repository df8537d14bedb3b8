//! Commands whose callers wait for the replies.

use redis::{Cmd, Value};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::lane::Errand;
use super::late;
use crate::ports::StoreError;

/// The command on its way.
pub(super) struct Asked {
    tag: Box<str>,
    command: Cmd,
    reply: oneshot::Sender<Result<Value, StoreError>>,
}

impl Asked {
    /// One on keys with this hash tag.
    pub(super) fn new(tag: &str, command: Cmd) -> (Self, Asking) {
        let (reply, asking) = oneshot::channel();
        (Self { tag: tag.into(), command, reply }, Asking(asking))
    }
}

impl Errand for Asked {
    fn tag(&self) -> &str {
        &self.tag
    }

    fn command(&mut self) -> Option<Cmd> {
        (!self.reply.is_closed()).then(|| self.command.clone())
    }

    fn done(self, reply: Result<Value, StoreError>) {
        // Nobody may wait any more.
        let _ = self.reply.send(reply);
    }
}

/// The caller's side.
pub(super) struct Asking(oneshot::Receiver<Result<Value, StoreError>>);

impl Asking {
    /// The reply, which may be an error of the server's.
    ///
    /// # Errors
    /// When there is none by then; nobody sends the command after that.
    pub(super) async fn by(self, deadline: Instant) -> Result<Value, StoreError> {
        match timeout_at(deadline, self.0).await {
            Ok(Ok(reply)) => reply,
            _ => Err(late()),
        }
    }
}
