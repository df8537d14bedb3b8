//! A connection against a peer that is written down frame by frame.

use super::connection::{Connection, End, Fault, Receiver};
use super::frame::{self, Header, flag, kind, setting};
use super::head::Head;
use super::request::Template;
use crate::limits::WINDOW_GIVEN_BACK_BYTES;

/// Writes down all it is told.
#[derive(Default)]
struct Diary(Vec<String>);

impl Receiver<&'static str> for Diary {
    fn head(&mut self, call: &mut &'static str, head: &Head) {
        let number = head.status.or(head.grpc_status).unwrap_or_default();
        self.0.push(format!("{call}: head {number}"));
    }

    fn data(&mut self, call: &mut &'static str, bytes: &[u8]) {
        self.0.push(format!("{call}: {}", String::from_utf8_lossy(bytes)));
    }

    fn end(&mut self, call: &'static str, end: End) {
        self.0.push(format!("{call}: {end:?}"));
    }
}

/// A client, and what it was told.
struct Bench {
    client: Connection<&'static str>,
    diary: Diary,
}

impl Bench {
    /// After the peer has said `settings`.
    fn new(settings: &[(u16, u32)]) -> Self {
        let requests = Template::grpc("localhost", "/a/B").requests();
        let mut bench = Bench { client: Connection::new(requests), diary: Diary::default() };
        assert!(!bench.client.has_room(0), "the peer has not said what it allows");
        let mut said = Vec::new();
        frame::put_settings(&mut said, settings);
        bench.says(&said).unwrap();
        bench.sent();
        bench
    }

    /// The peer says `bytes`, in two parts.
    fn says(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let (first, second) = bytes.split_at(bytes.len() / 2);
        for part in [first, second] {
            self.client.inbox()[..part.len()].copy_from_slice(part);
            self.client.received(part.len(), &mut self.diary)?;
        }
        Ok(())
    }

    fn says_frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let mut bytes = Vec::new();
        frame::put(&mut bytes, kind, flags, stream, payload);
        self.says(&bytes).unwrap();
    }

    /// The frames that have gone out since.
    fn sent(&mut self) -> Vec<(Header, Vec<u8>)> {
        let out = self.client.output().to_vec();
        self.client.sent(out.len());
        let mut rest = out.strip_prefix(frame::PREFACE).unwrap_or(&out);
        let mut frames = Vec::new();
        while let Some(header) = Header::read(rest) {
            frames.push((header, rest[9..9 + header.len].to_vec()));
            rest = &rest[9 + header.len..];
        }
        frames
    }

    fn told(&mut self) -> Vec<String> {
        std::mem::take(&mut self.diary.0)
    }
}

#[test]
fn a_connection_begins_with_the_preface_and_a_wide_window() {
    let connection = Connection::<()>::new(Template::grpc("localhost", "/a/B").requests());
    let rest = connection.output().strip_prefix(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    assert_eq!(rest[..9], [0, 0, 12, 4, 0, 0, 0, 0, 0]);
    // No push; 2^31 - 1 bytes on each stream; and as many on the connection, above 65,535.
    assert_eq!(rest[9..21], [0, 2, 0, 0, 0, 0, 0, 4, 0x7f, 0xff, 0xff, 0xff]);
    assert_eq!(rest[21..], [0, 0, 4, 8, 0, 0, 0, 0, 0, 0x7f, 0xff, 0, 0]);
}

#[test]
fn calls_go_out_on_odd_streams_and_are_answered_in_any_order() {
    let mut bench = Bench::new(&[]);
    for (call, stream) in [("a", 1), ("b", 3)] {
        assert!(bench.client.has_room(2));
        assert_eq!(bench.client.begin(call, None, call.as_bytes(), true), stream);
    }
    let sent = bench.sent();
    let kinds: Vec<_> = sent.iter().map(|(h, _)| (h.stream, h.kind, h.flags)).collect();
    let [headers, data] = [(kind::HEADERS, flag::END_HEADERS), (kind::DATA, flag::END_STREAM)];
    assert_eq!(
        kinds,
        [
            (1, headers.0, headers.1),
            (1, data.0, data.1),
            (3, headers.0, headers.1),
            (3, data.0, data.1)
        ]
    );
    assert_eq!(sent[3].1, b"b");
    bench.says_frame(kind::HEADERS, flag::END_HEADERS, 3, b"\x88");
    bench.says_frame(kind::DATA, 0, 3, b"two");
    // Trailers in two parts: `grpc-status: 7`, written out.
    bench.says_frame(kind::HEADERS, flag::END_STREAM, 3, b"\x00\x0bgrpc-st");
    bench.says_frame(kind::CONTINUATION, flag::END_HEADERS, 3, b"atus\x017");
    bench.says_frame(kind::HEADERS, flag::END_HEADERS, 1, b"\x88");
    bench.says_frame(kind::DATA, flag::END_STREAM | flag::PADDED, 1, b"\x02one\0\0");
    assert_eq!(
        bench.told(),
        ["b: head 200", "b: two", "b: head 7", "b: Whole", "a: head 200", "a: one", "a: Whole"]
    );
    assert_eq!(bench.client.open(), 0);
}

#[test]
fn no_more_calls_are_begun_than_the_peer_allows() {
    let mut bench = Bench::new(&[(setting::MAX_CONCURRENT_STREAMS, 2)]);
    bench.client.begin("a", None, b"a", true);
    assert!(bench.client.has_room(1));
    bench.client.begin("b", None, b"b", true);
    assert!(!bench.client.has_room(1));
    bench.says_frame(kind::RST_STREAM, 0, 1, &[0, 0, 0, 7]);
    assert!(bench.client.has_room(1));
    // What the peer says of a call that is over changes nothing.
    bench.says_frame(kind::RST_STREAM, 0, 1, &[0, 0, 0, 8]);
    bench.says_frame(kind::DATA, flag::END_STREAM, 1, b"late");
    assert_eq!(bench.told(), ["a: Reset(7)"]);
    assert_eq!(bench.client.open(), 1);
}

#[test]
fn no_more_is_sent_than_the_peer_has_room_for() {
    let mut bench = Bench::new(&[(setting::INITIAL_WINDOW_SIZE, 100_000)]);
    assert!(!bench.client.has_room(65_536), "the connection's window is 65,535 from the start");
    bench.says_frame(kind::WINDOW_UPDATE, 0, 0, &65_536_u32.to_be_bytes());
    assert!(bench.client.has_room(100_000) && !bench.client.has_room(100_001));
    let stream = bench.client.begin("a", None, &[b'x'; 60_000], false);
    assert_eq!(bench.client.room_on(stream), 40_000);
    let sizes: Vec<_> = bench.sent().iter().skip(1).map(|(header, _)| header.len).collect();
    assert_eq!(sizes, [16_384, 16_384, 16_384, 10_848], "in frames of the usual largest size");
    bench.says_frame(kind::WINDOW_UPDATE, 0, stream, &5_u32.to_be_bytes());
    assert_eq!(bench.client.room_on(stream), 40_005);
    let mut smaller = Vec::new();
    frame::put_settings(&mut smaller, &[(setting::INITIAL_WINDOW_SIZE, 50_000)]);
    bench.says(&smaller).unwrap();
    assert_eq!(bench.client.room_on(stream), -9_995, "it counts for streams that are open, too");
    assert!(!bench.client.has_room(50_001));
}

#[test]
fn room_for_answers_is_given_back_as_they_come() {
    let mut bench = Bench::new(&[]);
    bench.client.begin("a", None, b"a", false);
    bench.sent();
    let frames = WINDOW_GIVEN_BACK_BYTES / 16_384;
    for _ in 0..frames {
        bench.says_frame(kind::DATA, 0, 1, &[0; 16_384]);
    }
    let updates = bench.sent();
    let given: Vec<_> =
        updates.iter().map(|(header, bytes)| (header.stream, frame::number(bytes))).collect();
    assert_eq!(given, [(0, Some(frames * 16_384)), (1, Some(frames * 16_384))]);
}

#[test]
fn settings_and_pings_are_acknowledged() {
    let mut bench = Bench::new(&[]);
    let mut said = Vec::new();
    frame::put_settings(&mut said, &[]);
    bench.says(&said).unwrap();
    bench.says_frame(kind::PING, 0, 0, b"12345678");
    bench.says_frame(kind::PING, flag::ACK, 0, b"87654321");
    let sent = bench.sent();
    let acks: Vec<_> = sent.iter().map(|(h, bytes)| (h.kind, h.flags, bytes.clone())).collect();
    assert_eq!(
        acks,
        [(kind::SETTINGS, flag::ACK, vec![]), (kind::PING, flag::ACK, b"12345678".to_vec())]
    );
}

#[test]
fn a_peer_that_goes_away_has_not_taken_what_is_above_its_last() {
    let mut bench = Bench::new(&[]);
    bench.client.begin("a", None, b"a", true);
    bench.client.begin("b", None, b"b", true);
    bench.says_frame(kind::GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0]);
    assert_eq!(bench.told(), ["b: NotTaken"]);
    assert!(bench.client.goes_away() && !bench.client.has_room(1));
    bench.client.abandon(&mut bench.diary);
    assert_eq!(bench.told(), ["a: Broken"]);
}

#[test]
fn whoever_waits_too_long_is_given_up_and_takes_room_until_it_is_answered() {
    let mut bench = Bench::new(&[(setting::MAX_CONCURRENT_STREAMS, 2)]);
    bench.client.begin("a", None, b"a", true);
    bench.client.begin("b", None, b"b", true);
    bench.sent();
    bench.client.give_up(&mut bench.diary, |call| *call == "b");
    assert_eq!(bench.told(), ["b: GivenUp"]);
    assert_eq!((bench.client.open(), bench.client.has_room(1)), (1, false));
    assert!(bench.sent().is_empty(), "the peer is not told");
    bench.says_frame(kind::HEADERS, flag::END_HEADERS, 3, b"\x88");
    bench.says_frame(kind::DATA, flag::END_STREAM, 3, b"late");
    assert_eq!(bench.told(), [""; 0], "nobody waits for it");
    assert!(bench.client.has_room(1));
}

#[test]
fn a_peer_that_breaks_the_rules_is_found_out() {
    let too_large = [0, 0x40, 1, 0, 0, 0, 0, 0, 1];
    let no_beginning = [0, 0, 0, kind::CONTINUATION, flag::END_HEADERS, 0, 0, 0, 1];
    let push = [0, 0, 0, kind::PUSH_PROMISE, 0, 0, 0, 0, 1];
    let bad_block = [0, 0, 1, kind::HEADERS, flag::END_HEADERS, 0, 0, 0, 1, 0x80];
    let all: [&[u8]; 4] = [&too_large, &no_beginning, &push, &bad_block];
    for bytes in all {
        let mut bench = Bench::new(&[]);
        bench.client.begin("a", None, b"a", true);
        assert!(bench.says(bytes).is_err(), "{bytes:?}");
    }
}
