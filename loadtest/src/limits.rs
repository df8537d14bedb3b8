//! Every bound of the generator, each with its reason.

use std::time::Duration;

// ---- HTTP/2 ----------------------------------------------------------------------------------

/// Bytes of the table of headers that a peer may keep with us: the standard's, which we do not
/// change.
pub(crate) const HEADER_TABLE_BYTES: usize = 4_096;
/// Bytes of one header as it is sent: a landing URL may have 2,048, its token another 96.
pub(crate) const HEADER_STRING_BYTES_MAX: usize = 8 << 10;
/// Header blocks of one connection that are known again: those of headers and trailers, with and
/// without what changes each second, and a refusal or two.
pub(crate) const BLOCKS_REMEMBERED: usize = 8;
/// Bytes that are read at once: some 500 answers of three ads. A whole frame always fits.
pub(crate) const INBOX_BYTES: usize = 256 << 10;
const _: () = assert!(INBOX_BYTES >= 2 * (crate::h2::frame::FRAME_BYTES_DEFAULT + 9));
/// Bytes that may wait for a peer that does not read, on one connection; then its calls wait in the
/// queue, where their number is bounded.
pub(crate) const OUTBOX_BYTES_MAX: usize = 1 << 20;
/// Room is given back to the peer in such portions: rarely, and long before its 2^31 - 1 bytes are
/// used up.
pub(crate) const WINDOW_GIVEN_BACK_BYTES: u32 = 256 << 20;
/// How far a connection's newest stream may be ahead of its oldest: at 10,000 calls a second that a
/// connection bears, ten times as long as a call is waited for.
pub(crate) const STREAMS_SPREAD_MAX: usize = 1 << 18;

// ---- The workload ----------------------------------------------------------------------------

/// Different requests, but for their visitors: a second of the highest rate that is asked for, in
/// some 4 MB, which stay in the processor's cache in part. A power of two.
pub(crate) const POOL_REQUESTS: usize = 1 << 16;
const _: () = assert!(POOL_REQUESTS.is_power_of_two());

// ---- Measuring -------------------------------------------------------------------------------

/// The longest latency that is told apart: what takes longer has long been given up.
pub(crate) const LATENCY_US_MAX: u64 = 600_000_000;
/// Digits that a latency is kept with.
pub(crate) const LATENCY_DIGITS: u8 = 3;
/// Requests that wait for a stream or for room in a window: four seconds of the highest rate of
/// unary requests that is asked for. What does not fit is counted as not sent.
pub(crate) const QUEUE_MAX: usize = 1 << 18;
/// A request without an answer so long after it should have been sent is given up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is looked for such requests, and for broken connections to make anew.
pub(crate) const LOOK_ROUND: Duration = Duration::from_millis(100);
/// The generator's thread had no more to give when it was busy for this share of the time.
pub(crate) const OWN_CPU_SHARE_MAX: f64 = 0.9;
/// Nor did it keep its own schedule where one send of a hundred was later than this: a tenth of
/// what the service may take by default.
pub(crate) const OWN_LATENESS_P99_US_MAX: u64 = 10_000;
/// And where that is more than so much of what answers took: where they take far longer, it is the
/// server, or the machine, that was asked for too much.
pub(crate) const OWN_LATENESS_SHARE_MAX: f64 = 0.25;

// ---- Connections -----------------------------------------------------------------------------

/// How long a connection may take until both ends have said their settings.
pub(crate) const CONNECT_MAX: Duration = Duration::from_secs(5);
/// The same for one that has broken during a run: a server that is gone must not hold up the others.
pub(crate) const RECONNECT_MAX: Duration = Duration::from_millis(100);
/// Events that are taken from the kernel at once.
pub(crate) const POLL_EVENTS: usize = 256;
/// Connections that what is due together goes out on: enough to reach all of the server's threads,
/// and few enough that one write carries many requests.
pub(crate) const LANES_AT_ONCE: usize = 4;
/// Characters of a status's words that are shown.
pub(crate) const STATUS_WORDS_MAX: usize = 120;
/// Bytes that a visitor's name takes in a request: two names of 20 digits at most, and its length.
pub(crate) const VISITOR_BYTES_MAX: usize = 48;

// ---- Preparing -------------------------------------------------------------------------------

/// How long a catalogue that is stored may take until it is served: a million ads take seconds.
pub(crate) const SERVED_MAX: Duration = Duration::from_secs(120);
/// Streams that what is due together goes out on: as [`LANES_AT_ONCE`].
pub(crate) const STREAMS_AT_ONCE: usize = 4;
/// Requests on one stream that wait for their answers: a tenth of a second of the highest rate
/// that is asked for, over one stream. Further ones wait in the queue.
pub(crate) const STREAM_AHEAD_MAX: usize = 40_000;

// ---- Events ----------------------------------------------------------------------------------

/// Impressions in one call: what an exchange gathers in a few milliseconds.
pub(crate) const EVENTS_IN_CALL: usize = 100;
/// The longest that an impression waits for others to go with.
pub(crate) const EVENTS_WAIT_MAX: Duration = Duration::from_millis(20);
/// How long events may take until they are counted: the service says two seconds.
pub(crate) const COUNTED_MAX: Duration = Duration::from_secs(60);
/// Tokens that are got beforehand: some 100 MB of them.
pub(crate) const STOCK_MAX: usize = 500_000;
/// Decisions of one call, and calls under way, while tokens are got.
pub(crate) const STOCK_BATCH: usize = 100;
pub(crate) const STOCK_IN_FLIGHT: usize = 16;

// ---- Servers of our own ----------------------------------------------------------------------

/// How long a server may take until it is ready: one with a million ads takes some ten seconds.
pub(crate) const START_MAX: Duration = Duration::from_secs(120);
/// How long it may take to stop: its own deadline, and some more.
pub(crate) const STOP_MAX: Duration = Duration::from_secs(15);

// ---- Overload --------------------------------------------------------------------------------

/// Milliseconds within which an answer is of use where nothing else is said: what exchanges give
/// their bidders.
pub(crate) const DEADLINE_MS_DEFAULT: u64 = 100;

// ---- Ramps -----------------------------------------------------------------------------------

/// Rates that a ramp tries: from one a second to ten million in steps of a half there are 40, and
/// halving what lies between takes some six more.
pub(crate) const RAMP_STEPS_MAX: usize = 50;
