//! The processes: nodes that are started, killed, stopped and frozen; some of them die by
//! themselves, at a named step of what they do.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Signal, getpid, kill_process};
use slotwise_server::config::SETTINGS;

use crate::child::{Doors, Ended, PATIENCE, Slotwise, serve_command};
use crate::sender::Sender;

const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// One that has not come to its step by then is killed where it is.
const FATE_MAX: Duration = Duration::from_secs(4);

/// What the process of a fate is told.
const ARGUMENTS: &str = "LEDGER_KILLS_ARGUMENTS";
const FATE: &str = "LEDGER_KILLS_FATE";

/// At which step a process dies or stands still, and what goes wrong before.
#[derive(Clone, Copy, Debug)]
pub struct Fate {
    /// Which, of those in the code; empty: none.
    pub step: &'static str,
    /// At which time that it comes there.
    pub hit: u64,
    /// Whether it stands still there rather than dying.
    pub freezes: bool,
    /// What happens at other steps, in the words of the crate `fail`: `step=action;step=action`.
    pub mood: &'static str,
}

/// A node, with a data directory that outlives its processes.
pub struct Node {
    at: usize,
    dir: tempfile::TempDir,
    arguments: Vec<String>,
    process: Option<Slotwise>,
    doors: Option<Doors>,
    sender: Arc<Sender>,
    /// What its processes have logged.
    pub log: String,
}

impl Node {
    pub fn new(at: usize, arguments: Vec<String>, sender: &Arc<Sender>) -> Self {
        let (dir, sender) = (tempfile::tempdir().unwrap(), Arc::clone(sender));
        Self { at, dir, arguments, process: None, doors: None, sender, log: String::new() }
    }

    /// Where it is, while it is there.
    pub fn doors(&self) -> Option<Doors> {
        self.doors
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Starts it, and tells the sender where it is; of its fate it may die, or freeze, before.
    pub fn start(&mut self, fate: Option<Fate>) {
        let arguments: Vec<_> = self.arguments.iter().map(String::as_str).collect();
        let serve = serve_command(self.dir.path(), &arguments);
        let command = match fate {
            Some(fate) => fated(&serve, fate),
            None => serve,
        };
        self.process = Some(Slotwise::spawn(command));
        until("it is not ready", || {
            self.is_ready() || self.process().has_ended() || self.is_frozen()
        });
        assert!(fate.is_some() || self.doors.is_some(), "{}", self.logged());
    }

    /// Starts it with what goes wrong or slowly in it, until somebody ends it; empty: nothing.
    pub fn start_in(&mut self, mood: &'static str) {
        let fate = Fate { step: "", hit: 0, freezes: false, mood };
        self.start((!mood.is_empty()).then_some(fate));
        assert!(self.doors.is_some(), "{}", self.logged());
    }

    fn process(&mut self) -> &mut Slotwise {
        self.process.as_mut().unwrap()
    }

    fn is_ready(&mut self) -> bool {
        self.is_at(self.process.as_ref().and_then(Slotwise::doors));
        self.doors.is_some()
    }

    fn is_at(&mut self, doors: Option<Doors>) {
        self.doors = doors;
        self.sender.knows(self.at, doors);
    }

    /// Ends it by `end`.
    fn end(&mut self, end: impl FnOnce(Slotwise) -> Ended) -> ExitStatus {
        let ended = end(self.process.take().unwrap());
        self.is_at(None);
        self.log += &format!("{}---- {}\n", ended.stderr, ended.status);
        ended.status
    }

    pub fn kill(&mut self) {
        self.end(Slotwise::kill);
    }

    /// Asks it to stop, while it is asked for more.
    pub fn stop(&mut self) {
        self.process().signal("TERM");
        let status = self.end(Slotwise::ended);
        assert!(status.success(), "{status}: {}", self.log);
    }

    /// Waits until it has died of its fate, or kills it; returns whether it came to that.
    pub fn meets_its_fate(&mut self) -> bool {
        let began = Instant::now();
        while !self.process().has_ended() {
            if began.elapsed() > FATE_MAX {
                self.kill();
                return false;
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        let status = self.end(Slotwise::ended);
        assert_eq!(status.signal(), Some(9), "it ended by itself: {}", self.log);
        true
    }

    /// Stops it where it is, for a while.
    pub fn freeze(&mut self) {
        self.process().signal("STOP");
        assert!(self.freezes());
    }

    /// Waits until it has frozen; returns whether it did in time.
    pub fn freezes(&mut self) -> bool {
        let began = Instant::now();
        while !self.is_frozen() {
            if began.elapsed() > FATE_MAX {
                return false;
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        true
    }

    fn is_frozen(&mut self) -> bool {
        let state = format!("/proc/{}/stat", self.process().id());
        std::fs::read_to_string(&state).unwrap().contains(") T ")
    }

    /// Lets it go on.
    pub fn wake(&mut self) {
        self.process().signal("CONT");
        until("it is not ready", || self.is_ready());
    }

    /// Its log so far.
    pub fn logged(&self) -> String {
        let now = self.process.as_ref().map(Slotwise::stderr).unwrap_or_default();
        format!("{}{now}", self.log)
    }
}

/// Waits until it is so.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// The same command line, in this test's own binary: only that can be told where to die.
fn fated(serve: &Command, fate: Fate) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "stand::the_process_of_a_fate", "--ignored", "--nocapture"]);
    for setting in SETTINGS {
        command.env_remove(setting.variable());
    }
    let arguments: Vec<_> = serve.get_args().map(|argument| argument.to_str().unwrap()).collect();
    command.env(ARGUMENTS, arguments.join("\n"));
    let Fate { step, hit, freezes, mood } = fate;
    command.env(FATE, format!("{step} {hit} {freezes} {mood}"));
    command
}

/// Not a test: `slotwise`, as its `main` starts it, but for its fate.
#[test]
#[ignore = "a process that the others start"]
fn the_process_of_a_fate() {
    let Ok(arguments) = std::env::var(ARGUMENTS) else { return };
    let fate = std::env::var(FATE).unwrap();
    let [step, hit, freezes, mood] = fate.splitn(4, ' ').collect::<Vec<_>>()[..] else {
        panic!("{fate}")
    };
    let left = AtomicU64::new(hit.parse().unwrap());
    let signal = if freezes == "true" { Signal::STOP } else { Signal::KILL };
    let die = move || {
        if left.fetch_sub(1, Ordering::SeqCst) == 1 {
            kill_process(getpid(), signal).unwrap();
        }
    };
    if !step.is_empty() {
        fail::cfg_callback(step, die).unwrap();
    }
    for mood in mood.split(';').filter(|mood| !mood.is_empty()) {
        let (step, action) = mood.split_once('=').unwrap();
        fail::cfg(step, action).unwrap();
    }
    // What the harness has begun to write ends here.
    println!();
    let arguments = std::iter::once("slotwise").chain(arguments.split('\n')).map(Into::into);
    let code = slotwise_server::cli::run(arguments);
    assert_eq!(code, std::process::ExitCode::SUCCESS);
}
