//! One connection, as bytes that come and bytes that go. Each call on it ends in exactly one
//! [`End`], whatever the peer does.

mod incoming;

use super::frame::{self, flag, kind, setting};
use super::head::{Head, Heads};
use super::request::Requests;
use super::streams::{Stream, Streams};
use crate::limits::{INBOX_BYTES, OUTBOX_BYTES_MAX, STREAMS_SPREAD_MAX};

/// How a call has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// As it should, whatever the answer says.
    Whole,
    /// The peer has ended it, with this code.
    Reset(u32),
    /// The peer goes away and has not looked at it.
    NotTaken,
    /// The connection has broken.
    Broken,
    /// We have waited long enough.
    GivenUp,
}

/// Whoever wants to know what is answered.
pub(crate) trait Receiver<T> {
    /// Headers, or trailers.
    fn head(&mut self, call: &mut T, head: &Head);
    /// A part of the body.
    fn data(&mut self, call: &mut T, bytes: &[u8]);
    /// It is over.
    fn end(&mut self, call: T, end: End);
}

/// The peer does not keep to the rules, or says that we do not.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault(pub(crate) String);

impl Fault {
    fn of(what: &str) -> Self {
        Self(what.to_owned())
    }
}

/// Headers whose end has yet to come.
struct Unfinished {
    stream: u32,
    flags: u8,
    block: Vec<u8>,
}

/// The state of one connection; `T` is what is kept for each call.
pub(crate) struct Connection<T> {
    out: Vec<u8>,
    out_taken: usize,
    inbox: Vec<u8>,
    inbox_read: usize,
    inbox_filled: usize,
    requests: Requests,
    heads: Heads,
    streams: Streams<T>,
    unfinished: Option<Unfinished>,
    /// Bytes that may still be sent on all streams together, and on a new one.
    window: i64,
    stream_window: i64,
    streams_max: usize,
    frame_bytes_max: usize,
    received: u32,
    has_settings: bool,
    goes_away: bool,
}

impl<T> Connection<T> {
    /// One that begins; its first words wait in [`Self::output`].
    pub(crate) fn new(requests: Requests) -> Self {
        let mut out = frame::PREFACE.to_vec();
        let window = u32::try_from(frame::WINDOW_MAX).unwrap_or(u32::MAX);
        let own = [(setting::ENABLE_PUSH, 0), (setting::INITIAL_WINDOW_SIZE, window)];
        frame::put_settings(&mut out, &own);
        let more = u32::try_from(frame::WINDOW_MAX - frame::WINDOW_DEFAULT).unwrap_or_default();
        frame::put_window_update(&mut out, 0, more);
        Self {
            out,
            out_taken: 0,
            inbox: vec![0; INBOX_BYTES],
            inbox_read: 0,
            inbox_filled: 0,
            requests,
            heads: Heads::default(),
            streams: Streams::new(),
            unfinished: None,
            window: frame::WINDOW_DEFAULT,
            stream_window: frame::WINDOW_DEFAULT,
            streams_max: usize::MAX,
            frame_bytes_max: frame::FRAME_BYTES_DEFAULT,
            received: 0,
            has_settings: false,
            goes_away: false,
        }
    }

    /// Whether the peer has said what it allows.
    pub(crate) fn has_settings(&self) -> bool {
        self.has_settings
    }

    /// Calls that are not over, and that somebody waits for.
    #[inline]
    pub(crate) fn open(&self) -> usize {
        self.streams.awaited()
    }

    /// Whether a call with a body of so many bytes may begin now.
    #[inline]
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.has_settings
            && !self.goes_away
            && self.streams.open() < self.streams_max
            && self.streams.spread() < STREAMS_SPREAD_MAX
            && self.streams.next().is_some()
            && bytes <= self.window
            && bytes <= self.stream_window
            && self.output().len() < OUTBOX_BYTES_MAX
    }

    /// The largest body that one call may ever have.
    pub(crate) fn body_bytes_max(&self) -> i64 {
        self.stream_window
    }

    /// Begins a call, for which [`Self::has_room`]; the number of its stream. It `ends` with this
    /// body, or more follows.
    #[inline]
    pub(crate) fn begin(&mut self, call: T, path: Option<&[u8]>, body: &[u8], ends: bool) -> u32 {
        let stream = self.streams.next().unwrap_or(u32::MAX);
        self.streams.push(call, self.stream_window);
        let at = self.out.len();
        let is_over = ends && body.is_empty();
        let flags = flag::END_HEADERS | if is_over { flag::END_STREAM } else { 0 };
        frame::put_header(&mut self.out, 0, kind::HEADERS, flags, stream);
        self.requests.put(&mut self.out, path);
        let len = self.out.len() - at - frame::HEADER_BYTES;
        let [_, high, middle, low] = u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes();
        self.out[at..at + 3].copy_from_slice(&[high, middle, low]);
        if !body.is_empty() {
            self.send(stream, body, ends);
        }
        stream
    }

    /// Bytes that may be sent on an open stream now.
    pub(crate) fn room_on(&mut self, stream: u32) -> i64 {
        if self.output().len() >= OUTBOX_BYTES_MAX {
            return 0;
        }
        let window = self.window;
        self.streams.get_mut(stream).map_or(0, |stream| stream.window.min(window))
    }

    /// What is kept of an open stream.
    pub(crate) fn call_mut(&mut self, stream: u32) -> Option<&mut T> {
        self.streams.get_mut(stream)?.call.as_mut()
    }

    /// Sends `body` on an open stream that has room for it.
    #[inline]
    pub(crate) fn send(&mut self, stream: u32, body: &[u8], ends: bool) {
        let mut parts = body.chunks(self.frame_bytes_max).peekable();
        while let Some(part) = parts.next() {
            let is_last = ends && parts.peek().is_none();
            let flags = if is_last { flag::END_STREAM } else { 0 };
            frame::put(&mut self.out, kind::DATA, flags, stream, part);
        }
        let bytes = i64::try_from(body.len()).unwrap_or(i64::MAX);
        self.window -= bytes;
        if let Some(stream) = self.streams.get_mut(stream) {
            stream.window -= bytes;
        }
    }

    /// Says that nothing more comes on a stream.
    pub(crate) fn finish(&mut self, stream: u32) {
        frame::put(&mut self.out, kind::DATA, flag::END_STREAM, stream, &[]);
    }

    /// Gives up the calls that `is_hopeless`. The peer is not told, and their streams stay open until
    /// it has answered: whoever resets many streams is taken for an attacker.
    pub(crate) fn give_up(
        &mut self,
        receiver: &mut impl Receiver<T>,
        is_hopeless: impl Fn(&T) -> bool,
    ) {
        let is_it = |stream: &Stream<T>| stream.call.as_ref().is_some_and(&is_hopeless);
        let open = self.streams.iter_mut().filter(|(_, stream)| is_it(stream));
        let hopeless: Vec<u32> = open.map(|(id, _)| id).collect();
        for id in hopeless {
            if let Some(call) = self.streams.forsake(id) {
                receiver.end(call, End::GivenUp);
            }
        }
    }

    /// All calls end: the connection is gone.
    pub(crate) fn abandon(&mut self, receiver: &mut impl Receiver<T>) {
        let open: Vec<u32> = self.streams.iter_mut().map(|(id, _)| id).collect();
        for id in open {
            self.end(id, End::Broken, receiver);
        }
    }

    /// Bytes on their way to the peer.
    #[inline]
    pub(crate) fn output(&self) -> &[u8] {
        &self.out[self.out_taken..]
    }

    /// So many of them have gone.
    #[inline]
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.out_taken += bytes;
        if self.out_taken >= self.out.len() {
            self.out.clear();
            self.out_taken = 0;
        }
    }
}
