//! A process that records events until it is killed: this test binary, run once more. It says
//! what was acknowledged to it, on standard output.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Signal, getpid, kill_process};
use slotwise_server::events::Recorder;
use slotwise_server::telemetry::{Counters, Metric};

use crate::{embedded, event_of, recorder};

const CALLERS: u64 = 4;

/// What a life is like.
#[derive(Clone, Debug)]
pub struct Life {
    /// The number of the first event.
    pub first: u64,
    /// Events that it sends at most.
    pub events: u64,
    /// Events of one call.
    pub at_once: u64,
    /// The failpoint at which it dies, and at which time that it comes there.
    pub death: Option<(&'static str, u64)>,
    /// What the log does when it is appended to, in the words of the crate `fail`.
    pub log: &'static str,
}

/// What is known of a life when it is over.
#[derive(Debug, Default)]
pub struct Ended {
    pub acknowledged: BTreeSet<u64>,
    pub lost: BTreeSet<u64>,
    /// Recorded, spilled, lost; where it came to count them.
    pub counts: Option<[u64; 3]>,
    pub status: ExitStatus,
}

impl Ended {
    pub fn was_killed(&self) -> bool {
        self.status.signal() == Some(9)
    }
}

/// Lives `life` in `dir`; `wrapper` is a shell's words before the process.
pub fn live(dir: &Path, life: &Life, wrapper: &str) -> Ended {
    let shell = format!("{wrapper} exec \"$0\" \"$@\"");
    let binary = std::env::current_exe().unwrap();
    let (point, time) = life.death.unwrap_or_default();
    let output = Command::new("sh")
        .args(["-c", &shell])
        .arg(binary)
        .args(["--exact", "child::life", "--ignored", "--nocapture"])
        .env("EVENT_LOG_DIR", dir)
        .env("EVENT_LOG_NUMBERS", format!("{} {} {}", life.first, life.events, life.at_once))
        .env("EVENT_LOG_DEATH", format!("{point} {time}"))
        .env("EVENT_LOG_MOOD", life.log)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let mut ended = Ended { status: output.status, ..Ended::default() };
    let text = String::from_utf8(output.stdout).unwrap();
    // A last line that was cut short says nothing.
    let (whole, _) = text.rsplit_once('\n').unwrap_or_default();
    for line in whole.lines() {
        let mut words = line.split(' ');
        let of = words.next().unwrap();
        let mut numbers = words.map_while(|word| word.parse::<u64>().ok());
        match of {
            "ack" => ended.acknowledged.extend(numbers),
            "lost" => ended.lost.extend(numbers),
            "counts" => ended.counts = Some(std::array::from_fn(|_| numbers.next().unwrap())),
            _ => {}
        }
    }
    ended
}

#[test]
#[ignore = "is run by the other tests, as a process of its own"]
fn life() {
    let Ok(dir) = std::env::var("EVENT_LOG_DIR") else { return };
    let word = |name: &str| std::env::var(name).unwrap();
    let numbers: Vec<u64> =
        word("EVENT_LOG_NUMBERS").split(' ').map(|word| word.parse().unwrap()).collect();
    let &[first, events, at_once] = &numbers[..] else { panic!("{numbers:?}") };
    let death = word("EVENT_LOG_DEATH");
    let (point, time) = death.split_once(' ').unwrap();
    let left = AtomicU64::new(time.parse().unwrap());
    if !point.is_empty() {
        let die = move || {
            if left.fetch_sub(1, Ordering::SeqCst) == 1 {
                kill_process(getpid(), Signal::KILL).unwrap();
            }
        };
        fail::cfg_callback(point, die).unwrap();
    }
    fail::cfg("log-append", &word("EVENT_LOG_MOOD")).unwrap();
    // What the harness has begun to write ends here.
    println!();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let counters = Arc::<Counters>::default();
    runtime.block_on(async {
        let dir = Path::new(&dir);
        let recorder = Arc::new(recorder(dir, embedded(dir), &counters));
        let next = Arc::new(AtomicU64::new(first));
        let calling = |_| {
            let (recorder, next) = (Arc::clone(&recorder), Arc::clone(&next));
            async move {
                loop {
                    let from = next.fetch_add(at_once, Ordering::SeqCst);
                    if from >= first + events {
                        return;
                    }
                    let numbers = from..from + at_once;
                    let outcome = recorder.record(numbers.clone().map(event_of).collect()).await;
                    let words: Vec<_> = numbers.map(|number| number.to_string()).collect();
                    let words = words.join(" ");
                    println!("{} {words}", if outcome.is_ok() { "ack" } else { "lost" });
                }
            }
        };
        (0..CALLERS).map(calling).collect::<tokio::task::JoinSet<_>>().join_all().await;
    });
    let counts = [Metric::EventsRecorded, Metric::EventsSpilled, Metric::EventsLost];
    let [recorded, spilled, lost] = counts.map(|metric| counters.get(metric));
    println!("counts {recorded} {spilled} {lost}");
}
