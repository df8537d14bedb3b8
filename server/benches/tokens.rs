//! What a token costs: to make one for a chosen ad, and to check one that comes back.
//!
//! `cargo bench -p slotwise-server --bench tokens` prints a table in Markdown: nanoseconds of one
//! call on one core, as the median of rounds and the range of the middle 80 % of them. The keys
//! and the showings are fixed; nothing else runs in this process.

#![allow(
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    reason = "a benchmark stops where something is not as it must be"
)]

use std::hint::black_box;
use std::time::Instant;

use slotwise_core::model::{AccountSerial, AdSerial, ZoneSerial};
use slotwise_server::tokens::{PriceKind, Showing, TokenKeys};

const ROUNDS: usize = 200;
const CALLS: u32 = 10_000;

fn main() {
    let keys = TokenKeys::new(&[(2, [2; 32]), (1, [1; 32]), (0, [0; 32])]).unwrap();
    let mut showing = Showing {
        decision: 0x0123_4567_89ab_cdef,
        slot: 0,
        issued_at_ms: 1_796_000_000_123,
        price_nanos: 2_000_000,
        price_kind: PriceKind::Impression,
        on_impression: false,
        visitor: Some(7),
        account: AccountSerial(1),
        zone: ZoneSerial(2),
        ad: AdSerial(3),
    };
    println!("| what | ns a call, median | middle 80 % of {ROUNDS} rounds |\n|---|---|---|");
    row("make a token", || {
        showing.decision = showing.decision.wrapping_add(1);
        keys.seal(black_box(&showing)).len()
    });
    let token = keys.seal(&showing);
    row("check a good token", || usize::from(keys.open(black_box(token.as_bytes())).unwrap().slot));
    let mut forged = token.clone().into_bytes();
    // Still base64, of another seal.
    forged[95] = if forged[95] == b'A' { b'B' } else { b'A' };
    row("check a forged token", || usize::from(keys.open(black_box(&forged)).is_err()));
}

fn row(what: &str, mut call: impl FnMut() -> usize) {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let began = Instant::now();
            for _ in 0..CALLS {
                black_box(call());
            }
            began.elapsed().as_nanos() as f64 / f64::from(CALLS)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    let [low, median, high] = [1, 5, 9].map(|tenth| rounds[ROUNDS * tenth / 10]);
    println!("| {what} | {median:.0} | {low:.0} to {high:.0} |");
}
