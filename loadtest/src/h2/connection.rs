//! One connection, as bytes that come and bytes that go. Each call on it ends in exactly one
//! [`End`], whatever the peer does.

use super::frame::{self, Header, flag, kind, setting};
use super::head::{Head, Heads};
use super::request::Requests;
use super::streams::{Stream, Streams};
use crate::limits::{
    HEADER_TABLE_BYTES, INBOX_BYTES, OUTBOX_BYTES_MAX, STREAMS_SPREAD_MAX, WINDOW_GIVEN_BACK_BYTES,
};

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

    // ---- What goes ---------------------------------------------------------------------------

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

    // ---- What comes --------------------------------------------------------------------------

    /// Room for what comes.
    #[inline]
    pub(crate) fn inbox(&mut self) -> &mut [u8] {
        &mut self.inbox[self.inbox_filled..]
    }

    /// So many bytes have come: reads the frames that are whole.
    pub(crate) fn received(
        &mut self,
        bytes: usize,
        receiver: &mut impl Receiver<T>,
    ) -> Result<(), Fault> {
        self.inbox_filled += bytes;
        // Lent out of itself while its frames are read.
        let inbox = std::mem::take(&mut self.inbox);
        let read = self.read_frames(&inbox, receiver);
        self.inbox = inbox;
        if self.inbox_read > 0 {
            self.inbox.copy_within(self.inbox_read..self.inbox_filled, 0);
            self.inbox_filled -= self.inbox_read;
            self.inbox_read = 0;
        }
        read
    }

    fn read_frames(&mut self, inbox: &[u8], receiver: &mut impl Receiver<T>) -> Result<(), Fault> {
        loop {
            let rest = &inbox[self.inbox_read..self.inbox_filled];
            let Some(header) = Header::read(rest) else { return Ok(()) };
            if header.len > frame::FRAME_BYTES_DEFAULT {
                return Err(Fault::of("a larger frame than we allow"));
            }
            let Some(payload) = rest.get(frame::HEADER_BYTES..frame::HEADER_BYTES + header.len)
            else {
                return Ok(());
            };
            self.inbox_read += frame::HEADER_BYTES + header.len;
            self.frame(header, payload, receiver)?;
        }
    }

    #[inline]
    fn frame(
        &mut self,
        header: Header,
        payload: &[u8],
        receiver: &mut impl Receiver<T>,
    ) -> Result<(), Fault> {
        if self.unfinished.is_some() && header.kind != kind::CONTINUATION {
            return Err(Fault::of("headers that do not go on"));
        }
        match header.kind {
            kind::DATA => self.data(header, payload, receiver),
            kind::HEADERS => {
                let block = frame::unpadded(header, payload).ok_or(Fault::of("bad padding"))?;
                if header.has(flag::END_HEADERS) {
                    return self.headers(header.stream, header.flags, block, receiver);
                }
                let (stream, flags) = (header.stream, header.flags);
                self.unfinished = Some(Unfinished { stream, flags, block: block.to_vec() });
                Ok(())
            }
            kind::CONTINUATION => self.continuation(header, payload, receiver),
            kind::RST_STREAM => {
                let code = frame::number(payload).ok_or(Fault::of("a bad RST_STREAM"))?;
                self.end(header.stream, End::Reset(code), receiver);
                Ok(())
            }
            kind::SETTINGS => self.settings(header, payload),
            kind::PING => {
                if !header.has(flag::ACK) {
                    frame::put(&mut self.out, kind::PING, flag::ACK, 0, payload);
                }
                Ok(())
            }
            kind::GOAWAY => self.goaway(payload, receiver),
            kind::WINDOW_UPDATE => {
                let more = frame::number(payload).ok_or(Fault::of("a bad WINDOW_UPDATE"))?;
                if header.stream == 0 {
                    self.window += i64::from(more);
                } else if let Some(stream) = self.streams.get_mut(header.stream) {
                    stream.window += i64::from(more);
                }
                Ok(())
            }
            kind::PUSH_PROMISE => Err(Fault::of("a push, which we have forbidden")),
            // What is not known is to be ignored; a priority is no matter of ours.
            _ => Ok(()),
        }
    }

    #[inline]
    fn data(
        &mut self,
        header: Header,
        payload: &[u8],
        receiver: &mut impl Receiver<T>,
    ) -> Result<(), Fault> {
        let bytes = u32::try_from(header.len).unwrap_or(u32::MAX);
        self.received += bytes;
        if self.received >= WINDOW_GIVEN_BACK_BYTES {
            frame::put_window_update(&mut self.out, 0, self.received);
            self.received = 0;
        }
        let body = frame::unpadded(header, payload).ok_or(Fault::of("bad padding"))?;
        // On a stream that is over it only costs room.
        if let Some(Stream { call, received, .. }) = self.streams.get_mut(header.stream) {
            if let Some(call) = call {
                receiver.data(call, body);
            }
            *received += bytes;
            if *received >= WINDOW_GIVEN_BACK_BYTES {
                frame::put_window_update(&mut self.out, header.stream, *received);
                *received = 0;
            }
            if header.has(flag::END_STREAM) {
                self.end(header.stream, End::Whole, receiver);
            }
        }
        Ok(())
    }

    #[inline]
    fn headers(
        &mut self,
        stream: u32,
        flags: u8,
        block: &[u8],
        receiver: &mut impl Receiver<T>,
    ) -> Result<(), Fault> {
        // Read also where nobody waits: it may change what later blocks mean.
        let head = self.heads.read(block).map_err(|bad| Fault::of(bad.0))?;
        if let Some(open) = self.streams.get_mut(stream) {
            if let Some(call) = &mut open.call {
                receiver.head(call, head);
            }
            if flags & flag::END_STREAM != 0 {
                self.end(stream, End::Whole, receiver);
            }
        }
        Ok(())
    }

    fn continuation(
        &mut self,
        header: Header,
        payload: &[u8],
        receiver: &mut impl Receiver<T>,
    ) -> Result<(), Fault> {
        let is_ours = |unfinished: &Unfinished| unfinished.stream == header.stream;
        let Some(mut unfinished) = self.unfinished.take().filter(is_ours) else {
            return Err(Fault::of("headers that go on without a beginning"));
        };
        unfinished.block.extend_from_slice(payload);
        if unfinished.block.len() > INBOX_BYTES {
            return Err(Fault::of("headers without an end"));
        }
        if header.has(flag::END_HEADERS) {
            return self.headers(unfinished.stream, unfinished.flags, &unfinished.block, receiver);
        }
        self.unfinished = Some(unfinished);
        Ok(())
    }

    fn settings(&mut self, header: Header, payload: &[u8]) -> Result<(), Fault> {
        if header.has(flag::ACK) {
            return Ok(());
        }
        for (id, value) in frame::settings(payload) {
            match id {
                setting::HEADER_TABLE_SIZE if (value as usize) < HEADER_TABLE_BYTES => {
                    self.requests.send_in_full();
                }
                setting::MAX_CONCURRENT_STREAMS => self.streams_max = value as usize,
                setting::INITIAL_WINDOW_SIZE => {
                    let change = i64::from(value) - self.stream_window;
                    self.stream_window += change;
                    self.streams.iter_mut().for_each(|(_, stream)| stream.window += change);
                }
                setting::MAX_FRAME_SIZE => self.frame_bytes_max = value.max(1) as usize,
                _ => {}
            }
        }
        self.has_settings = true;
        frame::put(&mut self.out, kind::SETTINGS, flag::ACK, 0, &[]);
        Ok(())
    }

    fn goaway(&mut self, payload: &[u8], receiver: &mut impl Receiver<T>) -> Result<(), Fault> {
        let last = frame::number(payload).ok_or(Fault::of("a bad GOAWAY"))?;
        self.goes_away = true;
        let open = self.streams.iter_mut().map(|(id, _)| id);
        let not_taken: Vec<u32> = open.filter(|id| *id > last).collect();
        for id in not_taken {
            self.end(id, End::NotTaken, receiver);
        }
        Ok(())
    }

    /// Whether the peer goes away: what is open is still answered, and nothing more is taken.
    pub(crate) fn goes_away(&self) -> bool {
        self.goes_away
    }

    #[inline]
    fn end(&mut self, stream: u32, end: End, receiver: &mut impl Receiver<T>) {
        if let Some(call) = self.streams.remove(stream) {
            receiver.end(call, end);
        }
    }
}
