//! Whom a campaign is for: clauses that must all hold, the empty ones aside.

#[cfg(test)]
mod tests;

use super::context::{Context, Country, DeviceType, Names};
use super::expression::Expression;
use super::profile::Profile;

/// Hours of a week: 0 is Monday 00:00 in the account's time zone.
pub const HOURS_OF_WEEK: u8 = 7 * 24;

/// Whom a campaign is for.
#[derive(Clone, Debug, Default)]
pub struct Targeting {
    /// Countries, sorted: they are looked up by halves.
    pub countries: Box<[Country]>,
    /// Regions, whatever their country.
    pub regions: Names,
    /// Device types, as a set of bits; 0: any.
    devices: u8,
    /// Ranges of BCP 47 in lower case: "de" holds for "de-at" too, but not for "den".
    pub languages: Box<[Box<str>]>,
    /// The visitor must have one of these.
    pub segments_any: Names,
    /// The visitor must have none of these.
    pub segments_none: Names,
    /// Hours of the week, as a set of bits; none: always.
    hours: [u64; 3],
    /// What the page's own values must say.
    pub expression: Option<Expression>,
}

/// Names one clause of a [`Targeting`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clause {
    /// See [`Targeting::countries`].
    Countries,
    /// See [`Targeting::regions`].
    Regions,
    /// Device types.
    DeviceTypes,
    /// See [`Targeting::languages`].
    Languages,
    /// Hours of the week.
    HoursOfWeek,
    /// See [`Targeting::expression`].
    Expression,
    /// See [`Targeting::segments_any`].
    SegmentsAny,
    /// See [`Targeting::segments_none`].
    SegmentsNone,
}

/// What the clauses on segments say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segmented {
    /// They hold.
    Fits,
    /// This one does not.
    Fails(Clause),
    /// What is stored of the visitor decides, and is not known yet.
    AsksProfile,
}

impl Targeting {
    /// Holds for these device types only.
    pub fn set_devices(&mut self, devices: impl IntoIterator<Item = DeviceType>) {
        self.devices = devices.into_iter().fold(0, |bits, device| bits | device.bit());
    }

    /// Holds in these hours of the week only; those from [`HOURS_OF_WEEK`] on do not exist.
    pub fn set_hours(&mut self, hours: impl IntoIterator<Item = u8>) {
        self.hours = [0; 3];
        for hour in hours.into_iter().filter(|hour| *hour < HOURS_OF_WEEK) {
            self.hours[usize::from(hour / 64)] |= 1 << (hour % 64);
        }
    }

    /// Whether any clause says anything.
    pub fn is_empty(&self) -> bool {
        !self.asks_segments()
            && self.countries.is_empty()
            && self.regions.is_empty()
            && self.devices == 0
            && self.languages.is_empty()
            && self.hours == [0; 3]
            && self.expression.is_none()
    }

    /// Whether a clause asks for the visitor's segments.
    pub fn asks_segments(&self) -> bool {
        !self.segments_any.is_empty() || !self.segments_none.is_empty()
    }

    /// The [`Country::bit`]s of all its countries; all bits where any country will do.
    pub(crate) fn country_bits(&self) -> u64 {
        match &self.countries[..] {
            [] => u64::MAX,
            some => some.iter().fold(0, |bits, country| bits | country.bit()),
        }
    }

    /// The first clause that does not hold, those on segments aside. An `hour_of_week` from
    /// [`HOURS_OF_WEEK`] on is no hour at all, as where the time zone is not known.
    pub fn fails(&self, context: &Context, hour_of_week: u8) -> Option<Clause> {
        let is_in = |country| self.countries.binary_search(&country).is_ok();
        let (word, bit) = (usize::from(hour_of_week / 64), hour_of_week % 64);
        Some(if !self.countries.is_empty() && !context.country.is_some_and(is_in) {
            Clause::Countries
        } else if !self.regions.is_empty() && !self.regions.has(&context.region) {
            Clause::Regions
        } else if self.devices != 0
            && context.device.is_none_or(|device| self.devices & device.bit() == 0)
        {
            Clause::DeviceTypes
        } else if !self.languages.is_empty()
            && !self.languages.iter().any(|range| is_under(&context.language, range))
        {
            Clause::Languages
        } else if self.hours != [0; 3]
            && self.hours.get(word).is_none_or(|hours| hours >> bit & 1 == 0)
        {
            Clause::HoursOfWeek
        } else if self.expression.as_ref().is_some_and(|asked| !asked.holds_in(context)) {
            Clause::Expression
        } else {
            return None;
        })
    }

    /// What the clauses on segments say of a visitor who has those that `given` names and those
    /// that `profile` has at `now_us`. Without a profile that can be read, only what no stored
    /// segment could change is sure.
    pub fn segmented(&self, given: &Names, profile: Option<&Profile>, now_us: i64) -> Segmented {
        let stored = |wanted: &Names| {
            let live = profile.into_iter().flat_map(|profile| profile.segments());
            live.filter(|segment| segment.is_live(now_us)).any(|s| wanted.has(&s.name))
        };
        let has = |wanted: &Names| given.iter().any(|name| wanted.has(name)) || stored(wanted);
        if has(&self.segments_none) {
            Segmented::Fails(Clause::SegmentsNone)
        } else if !self.segments_any.is_empty() && !has(&self.segments_any) {
            match profile {
                Some(_) => Segmented::Fails(Clause::SegmentsAny),
                None => Segmented::AsksProfile,
            }
        } else if profile.is_none() && !self.segments_none.is_empty() {
            Segmented::AsksProfile
        } else {
            Segmented::Fits
        }
    }
}

/// Whether the language `tag` is `range` or lies under it (RFC 4647, basic filtering).
fn is_under(tag: &str, range: &str) -> bool {
    tag.strip_prefix(range).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}
