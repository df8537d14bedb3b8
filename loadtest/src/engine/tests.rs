//! The loop against a peer that stalls, refuses and hangs up.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use super::*;
use crate::check::Deep;
use crate::h2::frame::{self, Header, flag, kind, setting};
use crate::h2::request::Template;
use crate::load::common::{Checks, Common};
use crate::load::decide::{Decide, UNARY};
use crate::load::pace::{Beat, Pace};
use crate::load::probe::Probe;
use crate::meter::{Meter, Window};
use crate::schedule::{Arrivals, Schedule};
use crate::workload::tests::{asking, shape};
use crate::workload::{Catalogue, Pool, Visitors};

/// What the peer does with the request of a number, counted from 1 over all connections in turn.
type Manner = fn(&mut TcpStream, u32, u32);

/// A peer that takes connections one after the other.
fn peer(settings: &'static [(u16, u32)], manner: Manner) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut number = 0;
        while let Ok((mut stream, _)) = listener.accept() {
            number = serve(&mut stream, settings, manner, number);
        }
    });
    address
}

/// Serves one connection to its end; how many requests there have been.
fn serve(stream: &mut TcpStream, settings: &[(u16, u32)], manner: Manner, mut number: u32) -> u32 {
    let mut out = Vec::new();
    frame::put_settings(&mut out, settings);
    stream.write_all(&out).unwrap();
    let mut preface = [0; 24];
    stream.read_exact(&mut preface).unwrap();
    assert_eq!(preface, frame::PREFACE);
    let mut head = [0; frame::HEADER_BYTES];
    while stream.read_exact(&mut head).is_ok() {
        let header = Header::read(&head).unwrap();
        if stream.read_exact(&mut vec![0; header.len]).is_err() {
            break;
        }
        if header.kind == kind::DATA && header.has(flag::END_STREAM) {
            number += 1;
            manner(stream, header.stream, number);
        }
    }
    number
}

/// Status 200, an empty message, and `grpc-status: 0`.
fn answer(stream: &mut TcpStream, id: u32) {
    let mut out = Vec::new();
    frame::put(&mut out, kind::HEADERS, flag::END_HEADERS, id, b"\x88");
    frame::put(&mut out, kind::DATA, 0, id, &[0; 5]);
    let flags = flag::END_HEADERS | flag::END_STREAM;
    frame::put(&mut out, kind::HEADERS, flags, id, b"\x00\x0bgrpc-status\x010");
    // Where it has been hung up, nobody is there to be answered.
    let _ = stream.write_all(&out);
}

/// So many requests a second for two seconds.
fn load(rate: f64) -> Decide {
    let end_ns = 2_000_000_000;
    let window = Window { from_ns: 0, to_ns: end_ns };
    let schedule = Schedule::new(Arrivals::Constant, rate, end_ns, 1);
    let deep = Deep::new(Catalogue::new(&shape()).unwrap(), 0);
    let checks = Checks { count: 3, is_full: true, deep, is_noop: true };
    let requests = (Pool::new(&shape(), &asking()).unwrap(), Visitors::new(&asking(), 1).unwrap());
    let pace = Pace::new(Beat::Open(schedule), 1, crate::limits::PATIENCE);
    let meter = Meter::new(window, 100_000).unwrap();
    Decide::new(Common::new(pace, meter, Probe::off(), requests, checks), None)
}

/// What became of a run over one connection.
fn run_against(address: SocketAddr, mut load: Decide) -> Meter {
    let mut lanes = Lanes::new().unwrap();
    lanes.connect(address, Template::grpc("localhost", UNARY), &mut load).unwrap();
    let rhythm = Rhythm { tick: Duration::from_micros(500), gather: Duration::ZERO };
    run(&mut load, &mut lanes, Clock::start(), rhythm).unwrap();
    load.common.meter
}

const STALL: Duration = Duration::from_millis(500);

#[test]
fn a_stall_is_in_the_latency_of_every_request_that_should_have_been_sent_meanwhile() {
    // Only one call may be under way, so that a loop which waits for its answers would see the
    // stall once.
    let address = peer(&[(setting::MAX_CONCURRENT_STREAMS, 1)], |stream, id, number| {
        if number == 100 {
            std::thread::sleep(STALL);
        }
        answer(stream, id);
    });
    let meter = run_against(address, load(200.0));
    assert_eq!((meter.counts.intended, meter.counts.answered), (399, 399));
    // In the first half of the stall 50 should have been sent, and each has waited for the other.
    let stalled = meter.latency_us.count_between(250_000, 600_000_000);
    assert!(stalled >= 49, "{stalled}");
    assert!(meter.latency_us.value_at_quantile(0.9) >= 250_000, "it shows in the quantiles");
}

#[test]
fn what_is_refused_is_counted_by_its_reason() {
    let address = peer(&[], |stream, id, number| {
        let mut out = Vec::new();
        match number % 4 {
            0 => frame::put(&mut out, kind::RST_STREAM, 0, id, &[0, 0, 0, 7]),
            1 => {
                let flags = flag::END_HEADERS | flag::END_STREAM;
                frame::put(&mut out, kind::HEADERS, flags, id, b"\x88\x00\x0bgrpc-status\x018");
            }
            // HTTP's 429, and no status of gRPC.
            2 => frame::put(&mut out, kind::HEADERS, flag::END_HEADERS | 1, id, b"\x08\x03429"),
            _ => return answer(stream, id),
        }
        stream.write_all(&out).unwrap();
    });
    let meter = run_against(address, load(200.0));
    assert_eq!(meter.counts.intended, 399);
    assert_eq!((meter.counts.answered, meter.counts.refused), (100, 299));
    let reasons: Vec<_> = meter.refused.iter().map(|(how, count)| (how.as_str(), *count)).collect();
    assert_eq!(
        reasons,
        [("HTTP 429", 100), ("RESOURCE_EXHAUSTED: ", 100), ("the stream was reset: code 7", 99)]
    );
}

#[test]
fn a_connection_that_breaks_is_made_anew_and_its_calls_are_counted() {
    let address = peer(&[], |stream, id, number| {
        if number == 50 {
            stream.shutdown(std::net::Shutdown::Both).unwrap();
        } else {
            answer(stream, id);
        }
    });
    let meter = run_against(address, load(200.0));
    assert_eq!(meter.counts.intended, 399);
    assert!(meter.counts.broken >= 1);
    assert_eq!(meter.counts.answered + meter.counts.broken, 399, "each in exactly one way");
}
