//! A real Redis for a test: started on a free port, in a directory of its own, and stopped with
//! it; to be killed, frozen, filled, emptied and restarted in between.

#![allow(dead_code, clippy::expect_used)]

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use redis::{Connection, FromRedisValue};

/// Nothing here takes so long, on however slow a machine.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// One server.
pub struct RedisServer {
    pub port: u16,
    dir: tempfile::TempDir,
    options: Vec<String>,
    password: Option<String>,
    child: Option<Child>,
}

impl RedisServer {
    /// Starts one that keeps nothing on disk.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts one that survives a kill with all that it acknowledged.
    pub fn start_durable() -> Self {
        Self::start_with(&["--appendonly", "yes", "--appendfsync", "always"])
    }

    /// Starts one with further options of its own.
    pub fn start_with(options: &[&str]) -> Self {
        let mut server = Self {
            port: free_port(),
            dir: tempfile::tempdir().unwrap(),
            options: options.iter().map(ToString::to_string).collect(),
            password: None,
            child: None,
        };
        server.restart();
        server
    }

    /// Starts it again on the same port, with what it kept on disk.
    pub fn restart(&mut self) {
        self.launch();
        self.wait();
    }

    /// Starts it, and does not wait until it answers.
    pub fn launch(&mut self) {
        assert!(self.child.is_none(), "it runs already");
        let child = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--port", &self.port.to_string(), "--save", ""])
            .args(["--dir", &self.dir.path().display().to_string()])
            .args(["--unixsocket", &self.socket(), "--logfile", "redis.log"])
            .args(&self.options)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.child = Some(child.expect("redis-server is missing: scripts/test installs it"));
    }

    /// Waits until it answers.
    pub fn wait(&mut self) {
        let began = Instant::now();
        loop {
            let pong = self
                .client()
                .get_connection()
                .and_then(|mut connection| redis::cmd("PING").query::<String>(&mut connection));
            match pong {
                Ok(_) => return,
                Err(error) => {
                    let status = self.child.as_mut().unwrap().try_wait().unwrap();
                    assert!(
                        status.is_none() && began.elapsed() < PATIENCE,
                        "redis-server: {status:?}, {error}"
                    );
                }
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Kills it, as SIGKILL does.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Forgets what it kept on disk; it must not run.
    pub fn empty_disk(&self) {
        assert!(self.child.is_none(), "it runs");
        for entry in std::fs::read_dir(self.dir.path()).unwrap() {
            let path = entry.unwrap().path();
            let _ = std::fs::remove_dir_all(&path).or_else(|_| std::fs::remove_file(&path));
        }
    }

    /// Sends it a signal by name, such as `STOP`.
    pub fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.as_ref().expect("it runs").id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success(), "{kill}");
    }

    /// From now on the password that this server wants, for our own commands.
    pub fn set_password(&mut self, password: Option<&str>) {
        let wanted = password.unwrap_or_default().to_owned();
        self.run::<()>(&["CONFIG", "SET", "requirepass", &wanted]);
        self.password = password.map(ToOwned::to_owned);
    }

    /// `redis://127.0.0.1:port`
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The unix socket's path.
    pub fn socket(&self) -> String {
        self.dir.path().join("redis.sock").display().to_string()
    }

    /// A connection of our own.
    pub fn connection(&self) -> Connection {
        self.client().get_connection().unwrap()
    }

    /// One command.
    pub fn run<T: FromRedisValue>(&self, command: &[&str]) -> T {
        let mut cmd = redis::cmd(command[0]);
        cmd.arg(&command[1..]).query(&mut self.connection()).unwrap()
    }

    /// How often each of these commands has run so far, in all.
    pub fn calls(&self, commands: &[&str]) -> u64 {
        let stats: String = self.run(&["INFO", "commandstats"]);
        let of = |command: &&str| {
            let name = format!("cmdstat_{command}:calls=");
            let line = stats.lines().find_map(|line| line.strip_prefix(&name));
            line.and_then(|rest| rest.split(',').next()?.parse::<u64>().ok()).unwrap_or(0)
        };
        commands.iter().map(of).sum()
    }

    /// Listens to every command from now on.
    pub fn monitor(&self) -> Monitor {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(b"MONITOR\r\n").unwrap();
        let mut lines = BufReader::new(stream);
        assert_eq!(next_line(&mut lines), "+OK");
        Monitor { lines, end: self.connection(), ends: 0 }
    }

    fn client(&self) -> redis::Client {
        let auth = self.password.as_ref().map(|p| format!(":{p}@")).unwrap_or_default();
        redis::Client::open(format!("redis://{auth}127.0.0.1:{}", self.port)).unwrap()
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Hears every command of a server.
pub struct Monitor {
    lines: BufReader<TcpStream>,
    end: Connection,
    ends: u32,
}

impl Monitor {
    /// What clients have sent since the last call, in order, each as `"NAME" "argument" ...`;
    /// without what scripts do.
    pub fn commands(&mut self) -> Vec<String> {
        self.ends += 1;
        let end = format!("\"ECHO\" \"end {}\"", self.ends);
        let _: String =
            redis::cmd("ECHO").arg(format!("end {}", self.ends)).query(&mut self.end).unwrap();
        let mut commands = Vec::new();
        loop {
            let line = next_line(&mut self.lines);
            let (origin, command) = line.split_once("] ").unwrap();
            if command == end {
                return commands;
            }
            if !origin.ends_with(" lua") {
                commands.push(command.to_owned());
            }
        }
    }
}

fn next_line(lines: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

/// A cluster of three masters.
pub struct RedisCluster {
    pub nodes: Vec<RedisServer>,
    given: AtomicU64,
}

impl RedisCluster {
    /// One for all tests that run at the same time; the last of them stops it.
    pub fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<RedisCluster>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap();
        shared.upgrade().unwrap_or_else(|| {
            let cluster = Arc::new(Self::start());
            *shared = Arc::downgrade(&cluster);
            cluster
        })
    }

    /// A number that no other user of this cluster has.
    pub fn next(&self) -> u64 {
        self.given.fetch_add(1, Ordering::SeqCst)
    }

    pub fn start() -> Self {
        let options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"];
        let more = ["--cluster-require-full-coverage", "no"];
        let options = [&options[..], &more[..]].concat();
        let nodes: Vec<_> = (0..3).map(|_| RedisServer::start_with(&options)).collect();
        for (at, node) in nodes.iter().enumerate() {
            let (first, last) = (at * 16_384 / 3, (at + 1) * 16_384 / 3 - 1);
            node.run::<()>(&["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &last.to_string()]);
            let port = nodes[0].port.to_string();
            node.run::<()>(&["CLUSTER", "MEET", "127.0.0.1", &port]);
        }
        let is_ready = |node: &RedisServer| {
            let info: String = node.run(&["CLUSTER", "INFO"]);
            info.contains("cluster_state:ok")
                && info.contains("cluster_slots_assigned:16384")
                && info.contains("cluster_known_nodes:3")
        };
        let began = Instant::now();
        while !nodes.iter().all(is_ready) {
            assert!(began.elapsed() < PATIENCE, "the cluster does not come together");
            std::thread::sleep(LOOK_AGAIN);
        }
        Self { nodes, given: AtomicU64::new(0) }
    }

    /// `redis://127.0.0.1:a,127.0.0.1:b,127.0.0.1:c`
    pub fn url(&self) -> String {
        let hosts: Vec<_> =
            self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
        format!("redis://{}", hosts.join(","))
    }
}

/// A port that nobody listens on, nor will when it is free for a while: it is below those that the
/// system gives to whoever asks for any, and so is a cluster's bus, 10,000 above it.
pub fn free_port() -> u16 {
    loop {
        let mut random = [0; 2];
        getrandom::fill(&mut random).unwrap();
        let port = 12_000 + u16::from_le_bytes(random) % 10_000;
        let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
        if is_free(port) && is_free(port + 10_000) {
            return port;
        }
    }
}
