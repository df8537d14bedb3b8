//! The sender's own book: what there is to send, what was acknowledged, and what it comes to.

use std::collections::BTreeMap;
use std::sync::Arc;

use slotwise_proto::v1::EventKind;

use crate::random::Random;
use crate::world::{Cell, price_nanos};

const MINUTE_US: i64 = 60_000_000;

/// Something that happens once, however often it is told.
#[derive(Debug)]
pub struct Event {
    pub kind: EventKind,
    pub cell: Cell,
    /// Of the showing; empty: a line of a replayed file.
    pub token: String,
    /// A conversion's own id.
    pub id: String,
    /// When it happened, in microseconds; nothing: when the server heard of it first.
    pub at_us: Option<i64>,
}

/// What was counted, or should be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    pub impressions: u64,
    pub clicks: u64,
    pub conversions: u64,
    pub spend_nanos: i64,
}

impl Sum {
    pub fn plus(self, other: Self) -> Self {
        Self {
            impressions: self.impressions + other.impressions,
            clicks: self.clicks + other.clicks,
            conversions: self.conversions + other.conversions,
            spend_nanos: self.spend_nanos + other.spend_nanos,
        }
    }

    pub fn events(self) -> u64 {
        self.impressions + self.clicks + self.conversions
    }

    /// Whether any of it is more than `other` has.
    pub fn exceeds(self, other: Self) -> bool {
        self.impressions > other.impressions
            || self.clicks > other.clicks
            || self.conversions > other.conversions
            || self.spend_nanos > other.spend_nanos
    }

    fn of(event: &Event) -> Self {
        let one = |kind| u64::from(event.kind == kind);
        Self {
            impressions: one(EventKind::Impression),
            clicks: one(EventKind::Click),
            conversions: one(EventKind::Conversion),
            // A replay was paid for where it happened.
            spend_nanos: if event.token.is_empty() {
                0
            } else {
                price_nanos(&event.cell, event.kind)
            },
        }
    }
}

/// What a round came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Events that were told, as often as they were.
    pub sent: u64,
    /// Of these, those that had an answer which says that they are safe.
    pub acknowledged: u64,
    /// Of these, those of which nobody knows: no answer came, or one that refuses.
    pub unknown: u64,
    /// Of those sent, those that had been sent before.
    pub repeated: u64,
}

impl Tally {
    pub fn plus(self, other: Self) -> Self {
        Self {
            sent: self.sent + other.sent,
            acknowledged: self.acknowledged + other.acknowledged,
            unknown: self.unknown + other.unknown,
            repeated: self.repeated + other.repeated,
        }
    }
}

#[derive(Default)]
pub struct Book {
    events: Vec<Arc<Event>>,
    /// Which were sent at least once.
    is_sent: Vec<bool>,
    /// Which have not been acknowledged yet.
    open: Vec<usize>,
    /// Lines of replayed files.
    replayed: Vec<Event>,
    pub tally: Tally,
}

impl Book {
    pub fn add(&mut self, event: Event) {
        self.open.push(self.events.len());
        self.events.push(Arc::new(event));
        self.is_sent.push(false);
    }

    pub fn add_replayed(&mut self, event: Event) {
        self.replayed.push(event);
    }

    /// How many have not been acknowledged.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// Whether nothing has been shown yet.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Events that there are, lines of files included.
    pub fn len(&self) -> u64 {
        (self.events.len() + self.replayed.len()) as u64
    }

    /// Some to send: open ones, or any, one of them perhaps twice.
    pub fn pick(&self, random: &mut Random, of_open: bool, count: usize) -> Vec<usize> {
        let one = |random: &mut Random| match of_open {
            true => random.pick(&self.open),
            false => random.place(self.events.len()),
        };
        (0..count).map(|_| one(random)).collect()
    }

    /// All but lines of files, in the order in which they were added.
    pub fn events(&self) -> impl Iterator<Item = &Arc<Event>> {
        self.events.iter()
    }

    pub fn event(&self, at: usize) -> Arc<Event> {
        Arc::clone(&self.events[at])
    }

    pub fn sends(&mut self, all: &[usize]) {
        self.tally.sent += all.len() as u64;
        for at in all {
            self.tally.repeated += u64::from(std::mem::replace(&mut self.is_sent[*at], true));
        }
    }

    pub fn answered(&mut self, all: &[usize], is_acknowledged: bool) {
        if is_acknowledged {
            self.tally.acknowledged += all.len() as u64;
            self.open.retain(|at| !all.contains(at));
        } else {
            self.tally.unknown += all.len() as u64;
        }
    }

    fn all(&self) -> impl Iterator<Item = &Event> {
        self.events.iter().map(|event| &**event).chain(&self.replayed)
    }

    /// What each ad in each zone should have.
    pub fn cells(&self) -> BTreeMap<Cell, Sum> {
        let mut cells = BTreeMap::<Cell, Sum>::new();
        for event in self.all() {
            let sum = cells.entry(event.cell.clone()).or_default();
            *sum = sum.plus(Sum::of(event));
        }
        cells
    }

    /// What each minute should have, in minutes of Unix time; nothing where some event's time is
    /// the server's.
    pub fn minutes(&self) -> Option<BTreeMap<i64, Sum>> {
        let mut minutes = BTreeMap::<i64, Sum>::new();
        for event in self.all() {
            let sum = minutes.entry(event.at_us?.div_euclid(MINUTE_US)).or_default();
            *sum = sum.plus(Sum::of(event));
        }
        Some(minutes)
    }
}
