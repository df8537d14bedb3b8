//! What comes over a connection: frames, and what they change.

use super::{Connection, End, Fault, Receiver, Unfinished};
use crate::h2::frame::{self, Header, flag, kind, setting};
use crate::h2::streams::Stream;
use crate::limits::{HEADER_TABLE_BYTES, INBOX_BYTES, WINDOW_GIVEN_BACK_BYTES};

impl<T> Connection<T> {
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
    pub(super) fn end(&mut self, stream: u32, end: End, receiver: &mut impl Receiver<T>) {
        if let Some(call) = self.streams.remove(stream) {
            receiver.end(call, end);
        }
    }
}
