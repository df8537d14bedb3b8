//! A TCP proxy between a client and its server: counts what passes, and delays, cuts, garbles or
//! swallows it.

#![allow(dead_code)]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What becomes of what the server says. What the client says passes, but for the black hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Pass,
    /// It is held up for so long.
    Delay(Duration),
    /// After so many more bytes the connection is cut, and the next ones pass.
    CutAfter(usize),
    /// Something else is said in its place.
    Garbage,
    /// Nothing arrives, in neither direction, and nothing is cut.
    Blackhole,
}

/// Runs until it is dropped.
pub struct Proxy {
    addr: SocketAddr,
    state: Arc<State>,
}

struct State {
    mode: Mutex<Mode>,
    streams: Mutex<Vec<TcpStream>>,
    /// Pieces in which the client's words arrived, each one or more commands.
    asks: AtomicU64,
    connections: AtomicU64,
    stop: AtomicBool,
}

impl Proxy {
    /// In front of what listens at `port`.
    pub fn start(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let state = Arc::new(State {
            mode: Mutex::new(Mode::Pass),
            streams: Mutex::default(),
            asks: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&state);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if accepting.stop.load(Ordering::SeqCst) {
                    return;
                }
                // Where the server is gone the client sees its connection closed.
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                accepting.connect(client, server);
            }
        });
        Self { addr, state }
    }

    /// `redis://127.0.0.1:port`
    pub fn url(&self) -> String {
        format!("redis://{}", self.addr)
    }

    /// From now on.
    pub fn set(&self, mode: Mode) {
        *self.state.mode.lock().unwrap() = mode;
    }

    /// Cuts every connection.
    pub fn cut(&self) {
        for stream in self.state.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Pieces that the client has sent so far.
    pub fn asks(&self) -> u64 {
        self.state.asks.load(Ordering::SeqCst)
    }

    /// Connections that there have been so far.
    pub fn connections(&self) -> u64 {
        self.state.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.stop.store(true, Ordering::SeqCst);
        self.cut();
        let _ = TcpStream::connect(self.addr);
    }
}

impl State {
    fn connect(self: &Arc<Self>, client: TcpStream, server: TcpStream) {
        self.connections.fetch_add(1, Ordering::SeqCst);
        for stream in [&client, &server] {
            stream.set_nodelay(true).unwrap();
            self.streams.lock().unwrap().push(stream.try_clone().unwrap());
        }
        let (client_too, server_too) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        let (asking, replying) = (Arc::clone(self), Arc::clone(self));
        std::thread::spawn(move || asking.pump(client_too, server_too, Self::ask));
        std::thread::spawn(move || replying.pump(server, client, Self::reply));
    }

    /// Until `pass` says that it is over.
    fn pump(
        &self,
        mut from: TcpStream,
        mut to: TcpStream,
        pass: fn(&Self, &mut [u8], &mut TcpStream) -> bool,
    ) {
        let mut piece = [0; 65_536];
        while let Ok(bytes @ 1..) = from.read(&mut piece)
            && pass(self, &mut piece[..bytes], &mut to)
        {}
        for stream in [from, to] {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn mode(&self) -> Mode {
        *self.mode.lock().unwrap()
    }

    fn ask(&self, piece: &mut [u8], server: &mut TcpStream) -> bool {
        self.asks.fetch_add(1, Ordering::SeqCst);
        self.mode() == Mode::Blackhole || server.write_all(piece).is_ok()
    }

    fn reply(&self, piece: &mut [u8], client: &mut TcpStream) -> bool {
        if let Mode::Delay(by) = self.mode() {
            std::thread::sleep(by);
        }
        let mut mode = self.mode.lock().unwrap();
        match *mode {
            Mode::Blackhole => return true,
            Mode::Garbage => piece.fill(b'!'),
            Mode::CutAfter(left) if left <= piece.len() => {
                *mode = Mode::Pass;
                let _ = client.write_all(&piece[..left]);
                return false;
            }
            Mode::CutAfter(left) => *mode = Mode::CutAfter(left - piece.len()),
            Mode::Pass | Mode::Delay(_) => {}
        }
        drop(mode);
        client.write_all(piece).is_ok()
    }
}
