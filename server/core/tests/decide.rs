//! The public face of the decision core, held against the faults of real systems and the rules
//! that decide them. Expected values come from the contract, from those rules
//! or from a naive oracle (`support/oracle.rs`).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test's helpers stop the test where something is not as it must be"
)]

#[path = "support/chance.rs"]
mod chance;
#[path = "support/changes.rs"]
mod changes;
#[path = "support/filling.rs"]
mod filling;
#[path = "support/market.rs"]
mod market;
#[path = "support/oracle.rs"]
mod oracle;
#[path = "support/world.rs"]
mod world;

mod decide {
    mod asked;
    mod caps;
    mod changed;
    mod choosing;
    mod clauses;
    mod exact;
    mod explain;
    mod granted;
    mod index;
    mod looking;
    mod page;
    mod random;
    mod strict;
    mod ties;
    mod verdicts;
}
