//! Every bound of the client, each with its reason.

use std::time::Duration;

// ---- Connections -----------------------------------------------------------------------------

/// Addresses of one door. Larger fleets stand behind a balancer, which is one address.
pub const ADDRESSES_MAX: usize = 32;
/// Connections to one address where the caller does not say. One HTTP/2 connection is one lock,
/// which passes about 98,000 calls a second at most; two also spread over two of the server's
/// decision threads.
pub const CONNECTIONS_DEFAULT: usize = 2;
/// Connections to one address at most: 16 pass more calls than one node answers.
pub const CONNECTIONS_MAX: usize = 16;
/// The pick of a connection looks at each of them: some hundred loads are still below 1 us.
const _: () = assert!(ADDRESSES_MAX * CONNECTIONS_MAX <= 512);
/// Longer than any healthy connect with TLS, also across an ocean; short enough for a person to
/// wait.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The wait before the first reconnect: a restarted process needs about that long to listen.
pub const RECONNECT_WAIT_MIN: Duration = Duration::from_millis(50);
/// The longest wait between attempts to reconnect: a node that is back is found within it, and a
/// dead address costs one packet in that time.
pub const RECONNECT_WAIT_MAX: Duration = Duration::from_secs(5);
/// A peer that is gone without a word is noticed after the sum of these two, also while idle.
pub const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// See [`KEEP_ALIVE_INTERVAL`].
pub const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(5);

// ---- Calls -----------------------------------------------------------------------------------

/// The deadline of a call on the decision door where the caller does not say. The server answers
/// within 100 ms; the rest is for a connection that must be made anew.
pub const DECISION_DEADLINE: Duration = Duration::from_secs(1);
/// The deadline of a call on the other doors where the caller does not say: a change may wait for
/// the disk and for an import that goes before.
pub const ADMIN_DEADLINE: Duration = Duration::from_secs(30);
/// The longest deadline; a longer one is taken for this. It is for ever to any call, and instants
/// can still be reckoned with.
pub const DEADLINE_MAX: Duration = Duration::from_secs(365 * 86_400);
/// Times that one call is sent at most. A third failure in a row is no accident.
pub const ATTEMPTS_MAX: u32 = 3;
/// Times that one call may find its connection gone before it was sent. When a node dies, each of
/// its connections can tell that once; whoever finds more than that is better told.
pub const UNSENT_MAX: u32 = 16;
const _: () = assert!(UNSENT_MAX as usize >= CONNECTIONS_MAX);
/// The wait before the first repeat, half of it at random: what overloads a server for a moment is
/// mostly over by then.
pub const REPEAT_WAIT_MIN: Duration = Duration::from_millis(10);
/// The longest wait before a repeat that the client chooses itself.
pub const REPEAT_WAIT_MAX: Duration = Duration::from_secs(1);
/// Bytes of one answer. A page holds up to 1,000 ads, each with 32 KiB of markup and 10,000 zones
/// at the very worst.
pub const ANSWER_BYTES_MAX: usize = 256 << 20;

// ---- Streams ---------------------------------------------------------------------------------

/// Requests of one stream that wait for their answers. More would only wait in the server's own
/// queue, and each is kept here until it is answered.
pub const STREAM_UNANSWERED_MAX: usize = 1_024;

// ---- Secrets ---------------------------------------------------------------------------------

/// Bytes of a token: proxies take headers of 8 KiB.
pub const TOKEN_BYTES_MAX: usize = 4 << 10;
