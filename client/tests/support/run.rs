//! Runs the built `slotwisectl` as a shell would, and keeps what it said.

use std::net::SocketAddr;
use std::process::Stdio;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// How one run ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// The standard output of a run that must have gone well.
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.stdout
    }

    /// The standard error of a run that must have ended with `code`.
    pub(crate) fn failed(self, code: i32) -> String {
        assert_eq!(self.code, code, "{self:?}");
        self.stderr
    }
}

/// The doors to talk to.
#[derive(Clone, Copy)]
pub(crate) struct Doors {
    pub(crate) admin: SocketAddr,
    pub(crate) decision: SocketAddr,
}

impl Doors {
    /// The command, ready to run, with nothing from this process's own environment in its way.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_slotwisectl"));
        command.env_remove("SLOTWISE_ADMIN_ADDR").env_remove("SLOTWISE_DECISION_ADDR");
        command.env_remove("SLOTWISE_TOKEN");
        command.arg("--admin-addr").arg(self.admin.to_string());
        command.arg("--decision-addr").arg(format!("http://{}", self.decision));
        command.args(args).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs to the end.
    pub(crate) async fn run(&self, args: &[&str]) -> Ran {
        ran(self.command(args).output().await.unwrap())
    }

    /// Runs to the end with `text` on standard input.
    pub(crate) async fn run_with_input(&self, args: &[&str], text: &str) -> Ran {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(text.as_bytes()).await.unwrap();
        drop(stdin);
        ran(child.wait_with_output().await.unwrap())
    }
}

/// What a run that has ended said.
pub(crate) fn ran(output: std::process::Output) -> Ran {
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}
