//! A real PostgreSQL for a test: on a unix socket in a directory of its own, and stopped with it;
//! to be killed and started again in between.

#![allow(dead_code, clippy::expect_used)]

use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// Nothing here takes so long, on however slow a machine.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// One server.
pub struct PostgresServer {
    dir: tempfile::TempDir,
    child: Option<Child>,
    databases: AtomicU64,
}

impl PostgresServer {
    /// One for all tests that run at the same time; the last of them stops it.
    pub fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<PostgresServer>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap();
        shared.upgrade().unwrap_or_else(|| {
            let server = Arc::new(Self::start());
            *shared = Arc::downgrade(&server);
            server
        })
    }

    /// Starts one.
    pub fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
        if let Some((uid, gid)) = somebody() {
            chown(dir.path(), Some(uid), Some(gid)).unwrap();
        }
        let data = dir.path().join("data");
        let mut initdb = command("initdb");
        initdb.args(["--no-sync", "--auth=trust", "--username=slotwise", "--encoding=UTF8"]);
        let output = initdb.args(["--locale=C", "-D"]).arg(&data).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut server = Self { dir, child: None, databases: AtomicU64::new(0) };
        server.restart();
        server
    }

    /// Starts it again, with what it kept.
    pub fn restart(&mut self) {
        assert!(self.child.is_none(), "it runs already");
        let mut postgres = command("postgres");
        postgres.arg("-D").arg(self.dir.path().join("data")).arg("-k").arg(self.dir.path());
        postgres.args(["-c", "listen_addresses=", "-c", "max_connections=400"]);
        let log = std::fs::File::create(self.dir.path().join("log")).unwrap();
        postgres.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.child = Some(postgres.spawn().unwrap());
        let began = Instant::now();
        while self.psql("postgres", "SELECT 1").is_err() {
            assert!(began.elapsed() < PATIENCE, "postgres does not answer");
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Stops it at once, as a crash does: what was committed is found in its log.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        let quit = format!("kill -QUIT {}", child.id());
        assert!(Command::new("sh").args(["-c", &quit]).status().unwrap().success());
        child.wait().unwrap();
    }

    /// A new, empty database: its URL.
    pub fn database(&self) -> String {
        let name = format!("test{}", self.databases.fetch_add(1, Ordering::SeqCst));
        self.psql("postgres", &format!("CREATE DATABASE {name}")).unwrap();
        let host = self.dir.path().display().to_string().replace('/', "%2F");
        format!("postgres://slotwise@{host}/{name}")
    }

    /// What one statement says.
    pub fn psql(&self, database: &str, sql: &str) -> Result<String, String> {
        let mut psql = command("psql");
        psql.args(["-U", "slotwise", "-d", database, "-tAc", sql, "-h"]).arg(self.dir.path());
        let output = psql.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        if self.child.is_some() {
            self.kill();
        }
    }
}

/// PostgreSQL does not run as root: who it runs as instead.
fn somebody() -> Option<(u32, u32)> {
    let ask = |what: &str, name: &str| -> Option<u32> {
        let output = Command::new("id").args([what, name]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().parse().ok()
    };
    let am_root = Command::new("id").arg("-u").output().unwrap().stdout.trim_ascii() == b"0";
    let of = |name| Some((ask("-u", name)?, ask("-g", name)?));
    am_root.then(|| of("postgres").or_else(|| of("nobody")).expect("a user who is not root"))
}

/// A program of PostgreSQL's, from wherever the system keeps it.
fn command(program: &str) -> Command {
    let mut command = Command::new(place_of(program));
    command.current_dir("/");
    if let Some((uid, gid)) = somebody() {
        command.uid(uid).gid(gid);
    }
    command
}

fn place_of(program: &str) -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut places: Vec<_> = versions.map(|version| version.path().join("bin")).collect();
    places.sort();
    let on_path = std::env::var("PATH").unwrap_or_default();
    let on_path = on_path.split(':').map(PathBuf::from);
    let mut places = places.into_iter().rev().chain(on_path).map(|dir| dir.join(program));
    places
        .find(|path: &PathBuf| Path::exists(path))
        .unwrap_or_else(|| panic!("{program} is missing: scripts/test installs postgresql"))
}
