//! A server of our own: started for a run, watched, and stopped.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};

use crate::limits::{START_MAX, STOP_MAX};

/// A running server.
pub(crate) struct Server {
    child: Child,
    pub(crate) decisions: SocketAddr,
    pub(crate) events: SocketAddr,
    pub(crate) admin: SocketAddr,
}

/// How often it is looked whether it has stopped.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

impl Server {
    /// Starts `binary` on free ports, and returns when every door answers.
    ///
    /// # Errors
    /// When it cannot be started, ends, or does not say that it is ready.
    pub(crate) fn start(binary: &Path, data_dir: &Path, more: &[String]) -> anyhow::Result<Self> {
        let mut command = Command::new(binary);
        command.arg("serve").arg("--data-dir").arg(data_dir).args(["--log", "warn"]);
        for door in ["--decision-addr", "--event-addr", "--admin-addr"] {
            command.args([door, "127.0.0.1:0"]);
        }
        command.args(more).stdin(Stdio::null()).stdout(Stdio::piped());
        // The addresses are ours to choose, whatever this shell says.
        for door in ["DECISION", "EVENT", "ADMIN"] {
            command.env_remove(format!("SLOTWISE_{door}_ADDR"));
        }
        let mut child = command.spawn().with_context(|| binary.display().to_string())?;
        let stdout = child.stdout.take().context("the server has no output")?;
        let (said, ready) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if line.starts_with("ready") {
                    // Nobody waits any more where it came too late.
                    let _ = said.send(line);
                }
            }
        });
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        // From here on it is stopped whatever happens.
        let mut server = Self { child, decisions: nowhere, events: nowhere, admin: nowhere };
        let line = ready.recv_timeout(START_MAX).map_err(|_| {
            let ended = server.child.try_wait().ok().flatten();
            match ended {
                Some(status) => anyhow::anyhow!("the server has ended: {status}"),
                None => anyhow::anyhow!("the server was not ready within {START_MAX:?}"),
            }
        })?;
        server.decisions = addr(&line, "decisions")?;
        server.events = addr(&line, "events")?;
        server.admin = addr(&line, "admin")?;
        Ok(server)
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to stop, and waits until it has.
    pub(crate) fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let is_told = kill_process(Pid::from_child(&self.child), Signal::TERM).is_ok();
        let until = Instant::now() + STOP_MAX;
        while is_told && Instant::now() < until {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(LOOK_AGAIN),
                Ok(Some(_)) | Err(_) => return,
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.end();
        }
    }
}

/// One address of the line that begins with `ready`.
fn addr(line: &str, door: &str) -> anyhow::Result<SocketAddr> {
    let bad = || format!("not a line that says where {door} is asked for: {line}");
    let (_, after) = line.split_once(&format!("{door} ")).with_context(bad)?;
    let end = after.find([',', ';']).unwrap_or(after.len());
    after[..end].parse().with_context(bad)
}

/// The server's binary: the one that was named, or the one beside ours.
///
/// # Errors
/// When there is none.
pub(crate) fn binary(named: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(path) = named {
        return Ok(path.to_owned());
    }
    let beside = std::env::current_exe()?.with_file_name("slotwise");
    anyhow::ensure!(
        beside.exists(),
        "{} is not there: build it with `cargo build --release`, or name one with --server-bin",
        beside.display()
    );
    Ok(beside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_addresses_are_found_in_the_line_that_says_ready() {
        let line =
            "ready: decisions 127.0.0.1:1, events 127.0.0.1:2, admin [::1]:3; 4 ads, data in /d";
        let all: Vec<_> = ["decisions", "events", "admin"]
            .map(|door| addr(line, door).unwrap().to_string())
            .into();
        assert_eq!(all, ["127.0.0.1:1", "127.0.0.1:2", "[::1]:3"]);
        assert!(addr("ready: something else", "events").is_err());
    }
}
