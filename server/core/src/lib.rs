//! The decision core of Slotwise: what may be shown where ([`model`]), found fast ([`index`]),
//! and which of it is best ([`decide`]).
//!
//! Pure: no I/O, no clock, no ambient randomness. Time and random numbers come as arguments, so
//! that the same inputs always choose the same ads. Imports go one way: `model` <- `index` <-
//! `decide`.

pub mod decide;
pub mod index;
pub mod model;
