//! The connections of a run, as sockets that never block, and the wait for them.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::event::epoll;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::h2::connection::{Connection, Receiver};
use crate::h2::request::Template;
use crate::limits::{CONNECT_MAX, POLL_EVENTS, RECONNECT_MAX};

/// One connection.
pub(crate) struct Lane<T> {
    address: SocketAddr,
    template: Template,
    socket: Option<TcpStream>,
    pub(crate) connection: Connection<T>,
}

/// All connections of a run.
pub(crate) struct Lanes<T> {
    epoll: OwnedFd,
    /// Ends a wait: epoll's own time goes by whole milliseconds on older kernels.
    timer: OwnedFd,
    events: Vec<epoll::Event>,
    pub(crate) all: Vec<Lane<T>>,
    /// Why the last one broke.
    pub(crate) last_fault: Option<String>,
}

impl<T> Lanes<T> {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // Each time that it goes off is told once, and it need not be read.
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&epoll, &timer, epoll::EventData::new_u64(u64::MAX), flags)?;
        let events = Vec::with_capacity(POLL_EVENTS);
        Ok(Self { epoll, timer, events, all: Vec::new(), last_fault: None })
    }

    /// Connects, and returns when the peer has said its settings.
    ///
    /// # Errors
    /// When there is nobody, or nobody who speaks HTTP/2.
    pub(crate) fn connect(
        &mut self,
        address: SocketAddr,
        template: Template,
        receiver: &mut impl Receiver<T>,
    ) -> anyhow::Result<usize> {
        let at = self.all.len();
        let connection = Connection::new(template.requests());
        let mut lane = Lane { address, template, socket: None, connection };
        lane.open(&self.epoll, at, CONNECT_MAX, receiver)
            .with_context(|| format!("no HTTP/2 connection to {address}"))?;
        self.all.push(lane);
        Ok(at)
    }

    /// Sends what waits on all connections.
    pub(crate) fn flush(&mut self, receiver: &mut impl Receiver<T>) {
        for lane in &mut self.all {
            if !lane.connection.output().is_empty()
                && let Err(fault) = lane.flush()
            {
                self.last_fault = Some(lane.fall(&fault, receiver));
            }
        }
    }

    /// Waits until something has come, or for `pause`; and reads what has, calling `before` each
    /// time that something did.
    ///
    /// # Errors
    /// When the kernel will not wait.
    pub(crate) fn read<R: Receiver<T>>(
        &mut self,
        pause: Duration,
        receiver: &mut R,
        mut before: impl FnMut(&mut R),
    ) -> anyhow::Result<()> {
        self.events.clear();
        let nothing = Timespec { tv_sec: 0, tv_nsec: 0 };
        let pause = Timespec {
            tv_sec: i64::try_from(pause.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: pause.subsec_nanos().into(),
        };
        let is_patient = pause != nothing;
        if is_patient {
            let when = Itimerspec { it_interval: nothing, it_value: pause };
            timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &when)?;
        }
        let buffer = rustix::buffer::spare_capacity(&mut self.events);
        let limit = if is_patient { None } else { Some(&nothing) };
        match epoll::wait(&self.epoll, buffer, limit) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("epoll"),
        }
        for event in &self.events {
            let at = usize::try_from(event.data.u64()).unwrap_or(usize::MAX);
            let Some(lane) = self.all.get_mut(at) else { continue };
            let flags = event.flags;
            let broken = epoll::EventFlags::HUP | epoll::EventFlags::ERR | epoll::EventFlags::RDHUP;
            let mut done = Ok(());
            if flags.intersects(epoll::EventFlags::IN | broken) {
                done = lane.read(receiver, &mut before);
            }
            if done.is_ok() && flags.contains(epoll::EventFlags::OUT) {
                done = lane.flush();
            }
            if let Err(fault) = done {
                self.last_fault = Some(lane.fall(&fault, receiver));
            }
        }
        Ok(())
    }

    /// Gives up calls that are hopeless, and makes connections anew that are gone.
    pub(crate) fn look_round(
        &mut self,
        receiver: &mut impl Receiver<T>,
        is_hopeless: impl Fn(&T) -> bool,
    ) {
        for (at, lane) in self.all.iter_mut().enumerate() {
            lane.connection.give_up(receiver, &is_hopeless);
            let is_done = lane.connection.goes_away() && lane.connection.open() == 0;
            if is_done && lane.socket.is_some() {
                lane.fall("the server has ended the connection", receiver);
            }
            if lane.socket.is_none() {
                // Tried again at the next round where it fails.
                let _ = lane.open(&self.epoll, at, RECONNECT_MAX, receiver);
            }
        }
    }

    /// Calls that are not over.
    pub(crate) fn open(&self) -> usize {
        open(&self.all)
    }
}

/// Calls on `lanes` that are not over.
pub(crate) fn open<T>(lanes: &[Lane<T>]) -> usize {
    lanes.iter().map(|lane| lane.connection.open()).sum()
}

impl<T> Lane<T> {
    fn open(
        &mut self,
        epoll: &OwnedFd,
        at: usize,
        patience: Duration,
        receiver: &mut impl Receiver<T>,
    ) -> anyhow::Result<()> {
        self.connection = Connection::new(self.template.requests());
        let until = Instant::now() + patience;
        let mut socket = TcpStream::connect_timeout(&self.address, patience)?;
        socket.set_nodelay(true)?;
        let output = self.connection.output().to_vec();
        socket.write_all(&output)?;
        self.connection.sent(output.len());
        while !self.connection.has_settings() {
            let left = until.saturating_duration_since(Instant::now());
            socket.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
            let bytes = socket.read(self.connection.inbox())?;
            anyhow::ensure!(bytes > 0, "the peer has ended it");
            let read = self.connection.received(bytes, receiver);
            read.map_err(|fault| anyhow::anyhow!("{}", fault.0))?;
        }
        socket.set_nonblocking(true)?;
        // Told of each change once: what is read is read to its end.
        let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP;
        let flags = flags | epoll::EventFlags::ET;
        epoll::add(epoll, &socket, epoll::EventData::new_u64(at as u64), flags)?;
        self.socket = Some(socket);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), String> {
        let Some(socket) = &mut self.socket else { return Ok(()) };
        while !self.connection.output().is_empty() {
            match socket.write(self.connection.output()) {
                Ok(bytes) => self.connection.sent(bytes),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }

    fn read<R: Receiver<T>>(
        &mut self,
        receiver: &mut R,
        before: &mut impl FnMut(&mut R),
    ) -> Result<(), String> {
        let Some(socket) = &mut self.socket else { return Ok(()) };
        loop {
            let inbox = self.connection.inbox();
            let room = inbox.len();
            let bytes = match socket.read(inbox) {
                Ok(0) => return Err("the server has ended the connection".to_owned()),
                Ok(bytes) => bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.to_string()),
            };
            before(receiver);
            self.connection.received(bytes, receiver).map_err(|fault| fault.0)?;
            // Less than there was room for: the socket is empty, and says so when it is not.
            if bytes < room {
                return Ok(());
            }
        }
    }

    /// It is gone, with all its calls.
    fn fall(&mut self, fault: &str, receiver: &mut impl Receiver<T>) -> String {
        self.socket = None;
        self.connection.abandon(receiver);
        self.connection = Connection::new(self.template.requests());
        format!("{}: {fault}", self.address)
    }
}
