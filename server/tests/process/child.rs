//! `slotwise` as a child process: started on free ports, watched, and killed when dropped.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use slotwise_server::config::SETTINGS;

/// Nothing here takes so long, on however slow a machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How often a condition is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Where the three doors are, as the line that begins with `ready` says.
#[derive(Clone, Copy, Debug)]
pub struct Doors {
    pub decisions: SocketAddr,
    pub events: SocketAddr,
    pub admin: SocketAddr,
}

/// A process that has ended.
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

/// A running process.
pub struct Slotwise {
    child: Child,
    stdout: Output,
    stderr: Output,
}

/// What a process has written so far.
struct Output {
    text: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl Slotwise {
    /// Serves from `data_dir` with further `arguments`; every door answers when this returns.
    pub fn serve(data_dir: &Path, arguments: &[&str]) -> (Self, Doors) {
        Self::serve_by(serve_command(data_dir, arguments))
    }

    /// Serves as `command` does; every door answers when this returns.
    pub fn serve_by(command: Command) -> (Self, Doors) {
        let mut slotwise = Self::spawn(command);
        let doors = slotwise.wait_until_ready();
        (slotwise, doors)
    }

    /// Starts `command`.
    pub fn spawn(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdout = Output::of(child.stdout.take().unwrap());
        let stderr = Output::of(child.stderr.take().unwrap());
        Self { child, stdout, stderr }
    }

    fn wait_until_ready(&mut self) -> Doors {
        let began = Instant::now();
        loop {
            if let Some(doors) = self.doors() {
                return doors;
            }
            let has_ended = self.has_ended();
            assert!(
                !has_ended && began.elapsed() < PATIENCE,
                "not ready (ended: {has_ended}):\n{}{}",
                self.stdout(),
                self.stderr()
            );
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Where its doors are, once every one of them answers.
    pub fn doors(&self) -> Option<Doors> {
        let stdout = self.stdout();
        // The line with its end: it is whole.
        let (whole, _) = stdout.rsplit_once('\n')?;
        whole.lines().find(|line| line.starts_with("ready")).map(doors_in)
    }

    /// The process's number.
    #[allow(dead_code, reason = "only some of the tests that share this file ask for it")]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended by now.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// What it has written to standard output so far.
    pub fn stdout(&self) -> String {
        self.stdout.text.lock().unwrap().clone()
    }

    /// What it has written to standard error so far.
    pub fn stderr(&self) -> String {
        self.stderr.text.lock().unwrap().clone()
    }

    /// Sends a signal by its name, such as `TERM`.
    pub fn signal(&self, name: &str) {
        // The shell has its own kill: nothing has to be installed.
        let kill = format!("kill -{name} {}", self.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success(), "{kill}");
    }

    /// Kills it, as SIGKILL does.
    pub fn kill(mut self) -> Ended {
        self.child.kill().unwrap();
        self.ended()
    }

    /// Asks it to stop, and waits until it has.
    pub fn stop(self) -> Ended {
        self.signal("TERM");
        let ended = self.ended();
        assert!(ended.status.success(), "{}:\n{}", ended.status, ended.stderr);
        ended
    }

    /// Waits until it has ended by itself.
    pub fn ended(mut self) -> Ended {
        let began = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(began.elapsed() < PATIENCE, "still running:\n{}", self.stderr());
            std::thread::sleep(LOOK_AGAIN);
        };
        Ended { status, stdout: self.stdout.all(), stderr: self.stderr.all() }
    }
}

impl Drop for Slotwise {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Output {
    fn of(from: impl Read + Send + 'static) -> Self {
        let text = Arc::<Mutex<String>>::default();
        let into = Arc::clone(&text);
        let reader = std::thread::spawn(move || {
            let mut from = BufReader::new(from);
            let mut line = Vec::new();
            while from.read_until(b'\n', &mut line).is_ok_and(|len| len > 0) {
                into.lock().unwrap().push_str(&String::from_utf8_lossy(&line));
                line.clear();
            }
        });
        Self { text, reader: Some(reader) }
    }

    /// Everything; the process has ended.
    fn all(&mut self) -> String {
        self.reader.take().unwrap().join().unwrap();
        std::mem::take(&mut *self.text.lock().unwrap())
    }
}

/// `slotwise` with `arguments`, and nothing of this process's own settings.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slotwise"));
    command.args(arguments);
    for setting in SETTINGS {
        command.env_remove(setting.variable());
    }
    command
}

/// `slotwise serve` on free ports.
pub fn serve_command(data_dir: &Path, arguments: &[&str]) -> Command {
    let mut command = command(&["serve", "--data-dir"]);
    command.arg(data_dir);
    for door in ["--decision-addr", "--event-addr", "--admin-addr"] {
        // A setting is given once.
        if !arguments.contains(&door) {
            command.args([door, "127.0.0.1:0"]);
        }
    }
    command.args(arguments);
    command
}

/// Runs `command`, which must fail; what it said on standard error.
pub fn refused(command: Command) -> String {
    let ended = Slotwise::spawn(command).ended();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    assert_eq!(ended.stdout, "", "a start that fails prints nothing else");
    ended.stderr
}

/// `ready: decisions 127.0.0.1:1, events 127.0.0.1:2, admin 127.0.0.1:3; ...`
fn doors_in(line: &str) -> Doors {
    let addr = |name: &str| {
        let (_, after) = line.split_once(&format!("{name} ")).unwrap_or_else(|| panic!("{line}"));
        let end = after.find([',', ';']).unwrap_or(after.len());
        after[..end].parse().unwrap_or_else(|error| panic!("{line}: {error}"))
    };
    Doors { decisions: addr("decisions"), events: addr("events"), admin: addr("admin") }
}
