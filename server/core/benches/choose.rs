//! Choosing ads in zones of a hundred to a million, and what it costs to keep such a zone.
//!
//! `cargo bench -p slotwise-core --bench choose` prints tables in Markdown; `-- --quick` stops at
//! 10,000 ads and asks less. One thread, one zone in memory, everything from fixed seeds: two
//! runs ask the same. Units stand at every figure; what a time holds is said above the tables.
//! Each kind of question is also put to tantivy, and the run stops where the scores differ.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    clippy::disallowed_methods,
    reason = "a benchmark stops where something is not as it must be, and has a clock"
)]

#[path = "choose/data.rs"]
mod data;
#[path = "choose/measure.rs"]
mod measure;
#[path = "choose/ours.rs"]
mod ours;
#[path = "choose/report.rs"]
mod report;
#[path = "choose/writer.rs"]
mod writer;
#[path = "choose/yardstick.rs"]
mod yardstick;

use std::time::Instant;

use data::{Aim, Ask, Kind, Worth, ZoneFacts};
use measure::{Effort, measure, timer_us};
use ours::Market;
use report::Line;
use yardstick::Yardstick;

const SIZES: [usize; 5] = [100, 1_000, 10_000, 100_000, 1_000_000];
const SIZES_QUICK: usize = 3;

/// A thousand words, ten to an ad: each is on 1 % of the ads.
const PLAIN: Kind = Kind { worth: Worth::Lognormal, aim: Aim::Everybody, vocabulary: 1_000 };
const BY_COUNTRY: Kind = Kind { aim: Aim::OneOfTen, ..PLAIN };
const EQUAL: Kind = Kind { worth: Worth::Equal, ..PLAIN };
const UNIFORM: Kind = Kind { worth: Worth::Uniform, ..PLAIN };
/// Twenty words, ten to an ad.
const COMMON: Kind = Kind { vocabulary: 20, ..PLAIN };
const HANDFUL: Kind = Kind { aim: Aim::Handful, ..PLAIN };

const FIVE: Ask = Ask { count: 3, words: 5, foreign: false };
const FOREIGN: Ask = Ask { foreign: true, ..FIVE };
const TWENTY: Ask = Ask { words: 20, ..FIVE };
const HUNDRED: Ask = Ask { count: 100, ..FIVE };

type Row = (&'static str, Kind, Ask, Option<&'static [f64]>);

/// What is asked, with the microseconds that the median may take at each size.
const ROWS: [Row; 9] = [
    (
        "lognormal eCPM (sigma 1), each keyword on 1 % of the ads",
        PLAIN,
        FIVE,
        Some(&[0.2, 0.5, 0.6, 0.8, 1.2]),
    ),
    (
        "the same, 90 % of the ads failing a country clause",
        BY_COUNTRY,
        FIVE,
        Some(&[0.5, 1.5, 3.0, 4.0, 6.0]),
    ),
    ("all eCPM equal, no match", EQUAL, FOREIGN, Some(&[0.2, 0.2, 0.2, 0.2, 0.3])),
    ("uniform eCPM, 1 % matches", UNIFORM, FIVE, Some(&[0.2, 1.0, 4.0, 20.0, 150.0])),
    ("all eCPM equal, 1 % matches", EQUAL, FIVE, Some(&[0.2, 1.5, 8.0, 60.0, 400.0])),
    ("lognormal, each keyword on 50 % of the ads", COMMON, FIVE, None),
    ("lognormal, one campaign passes the country clause", HANDFUL, FIVE, None),
    ("lognormal, 20 keywords", PLAIN, TWENTY, None),
    ("lognormal, count 100", PLAIN, HUNDRED, None),
];

fn main() {
    let mut is_quick = false;
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--quick" => is_quick = true,
            "--bench" => {} // said by Cargo
            other => panic!("{other:?} is not known; --quick is"),
        }
    }
    let (sizes, effort) = match is_quick {
        true => (&SIZES[..SIZES_QUICK], Effort::QUICK),
        false => (&SIZES[..], Effort::FULL),
    };
    report::heading(timer_us().median());
    let mut lines = ROWS.map(|(name, _, _, bars_us)| Line { name, bars_us, cells: Vec::new() });
    let mut largest = None;
    for &size in sizes {
        for kind in [PLAIN, BY_COUNTRY, EQUAL, UNIFORM, COMMON, HANDFUL] {
            let began = Instant::now();
            let facts = ZoneFacts::new(kind, size);
            let (market, built_us) = Market::new(&facts);
            let yardstick = Yardstick::new(&facts);
            for (line, (_, of, ask, _)) in lines.iter_mut().zip(ROWS) {
                if of == kind {
                    line.cells.push(measure(&market, &yardstick, kind, ask, effort));
                }
            }
            eprintln!("{size} ads, {kind:?}: {:.1} s", began.elapsed().as_secs_f64());
            if kind == PLAIN {
                largest = Some((market, facts, built_us));
            }
        }
    }
    report::ours(sizes, &lines);
    report::yardstick(sizes, &lines);
    if let Some((mut market, facts, built_us)) = largest {
        writer::report(&mut market, &facts, built_us);
    }
}
