//! Verdicts in words that a person can act on.

use std::fmt::Display;

use jiff::Timestamp;
use slotwise_core::decide::{Decision, Explained, Reason, Verdict};
use slotwise_core::model::{
    Campaign, Cap, CapLevel, Clause, EXPOSURES_PER_ADVERTISER_MAX, HOURS_OF_WEEK, Size, Targeting,
};
use slotwise_proto::v1::RequestContext;

use super::{Grounds, Placed};
use crate::hours::hour_of_week;

/// Values of a list that are told: a detail is a line, and a clause may have hundreds.
const VALUES_TOLD_MAX: usize = 8;

const MICROS: u64 = 1_000_000;
const DAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// What holds for a whole explanation.
pub(super) fn notes(grounds: Grounds<'_>) -> Vec<String> {
    let visit = grounds.visit;
    let mut notes = Vec::new();
    if visit.is_replay {
        let at = instant(visit.now_us);
        notes.push(format!(
            "decided as of {at}, over today's catalogue: budgets and pacing are left out"
        ));
    }
    if visit.limited {
        notes.push("a limited request: caps hold inside this answer only".to_owned());
    } else if visit.user_id.is_empty() {
        notes.push("the visitor is unknown: caps hold inside this answer only".to_owned());
    } else if grounds.settled.profile.is_none() {
        notes.push("what is stored of the visitor could not be had in time".to_owned());
    } else if grounds.settled.strict_withheld {
        notes.push("the store is away: caps go on from what this node remembers".to_owned());
    }
    notes
}

/// All that the details of one placement are made of.
pub(super) struct About<'a> {
    placed: &'a Placed,
    grounds: Grounds<'a>,
    /// Tier and score of the last ad of a full answer: what it takes to be in it.
    last: Option<(i32, f64)>,
}

impl<'a> About<'a> {
    pub(super) fn new(
        decision: &'a Decision,
        placement: usize,
        placed: &'a Placed,
        grounds: Grounds<'a>,
    ) -> Self {
        let winners = decision.winners().filter(|winner| winner.placement == placement);
        let last = winners.enumerate().last().filter(|(at, _)| at + 1 == placed.count);
        let worth = last.map(|(_, winner)| (placed.block.tier(winner.entry), winner.score));
        Self { placed, grounds, last: worth }
    }

    /// Why it is so, and what would have to change.
    pub(super) fn detail(&self, one: &Explained<'_>) -> String {
        let campaign =
            self.grounds.settled.campaigns.get(one.entry.campaign).map(|row| &row.campaign);
        match &one.reason {
            Reason::Chosen => "in the answer".to_owned(),
            Reason::Paused => "the campaign is paused".to_owned(),
            Reason::Gone => {
                "the campaign was stopped on this node, or has left the catalogue".to_owned()
            }
            Reason::FlightNotStarted { start_us } => format!("begins at {}", instant(*start_us)),
            Reason::FlightEnded { end_us } => format!("ended at {}", instant(*end_us)),
            Reason::Size { own } => self.size(*own),
            Reason::BelowFloor { ecpm_micros, floor_ecpm_micros } => {
                self.below_floor(*ecpm_micros, *floor_ecpm_micros)
            }
            Reason::Blocked { verdict, entry, by_site } => blocked(*verdict, entry, *by_site),
            Reason::ExcludedKeyword(word) => format!("must not stand beside the keyword {word:?}"),
            Reason::Targeting(clause) => self.off_target(*clause, campaign),
            Reason::UserRequired => match self.grounds.visit.limited {
                true => "is for known visitors only: the request is limited".to_owned(),
                false => "is for known visitors only: the request names none".to_owned(),
            },
            Reason::Capped { cap, seen, free_at_us } => capped(*cap, *seen, *free_at_us),
            Reason::ListFull => format!(
                "no room to remember one more showing of its advertiser: there are up to \
                 {EXPOSURES_PER_ADVERTISER_MAX}, and all still count"
            ),
            Reason::ProfileUnavailable => self.unknown(campaign),
            Reason::BudgetUnavailable => {
                "the campaign has a budget, and budgets are not kept by this version".to_owned()
            }
            Reason::AdOnPage => "is on the page already, in another placement".to_owned(),
            Reason::CampaignOnPage => {
                "the page has as many ads of the campaign as campaign_max_per_page allows"
                    .to_owned()
            }
            Reason::CompetitorOnPage(label) => {
                format!("another advertiser with the competitive label {label:?} is on the page")
            }
            Reason::Outranked => self.outranked(one),
        }
    }

    fn size(&self, own: Option<Size>) -> String {
        let own = own.map_or("has no size".to_owned(), |size| format!("is {}", pixels(&size)));
        match &self.placed.sizes[..] {
            [] => format!(
                "{own}; the zone takes {}",
                some(self.placed.block.zone.sizes.iter().map(pixels))
            ),
            asked => format!("{own}; the request asks for {}", some(asked.iter().map(pixels))),
        }
    }

    fn below_floor(&self, ecpm_micros: i64, floor_micros: i64) -> String {
        let is_of_zone = floor_micros == self.placed.block.zone.floor_ecpm_micros;
        let whose = if is_of_zone { "zone" } else { "request" };
        let (worth, floor) = (money(ecpm_micros), money(floor_micros));
        format!("worth {worth}, below the floor of {floor} of this {whose}")
    }

    fn off_target(&self, clause: Clause, campaign: Option<&Campaign>) -> String {
        let context = self.grounds.visit.context;
        let said = |field: fn(&RequestContext) -> &String| {
            let value = context.map(field).filter(|value| !value.is_empty());
            value.map_or("the request does not say".to_owned(), |value| {
                format!("the visit has {value}")
            })
        };
        let targeting = campaign.and_then(|campaign| campaign.targeting.as_deref());
        let wanted = |values: fn(&Targeting) -> String| targeting.map(values).unwrap_or_default();
        let (name, why) = match clause {
            Clause::Countries => {
                let wanted = wanted(|t| some(t.countries.iter().map(|country| country.as_str())));
                ("countries", format!("it wants {wanted}, {}", said(|c| &c.country)))
            }
            Clause::Regions => {
                let wanted = wanted(|t| some(t.regions.iter()));
                ("regions", format!("it wants {wanted}, {}", said(|c| &c.region)))
            }
            Clause::DeviceTypes => ("device_types", said(|c| &c.device_type)),
            Clause::Languages => {
                let wanted = wanted(|t| some(t.languages.iter()));
                ("languages", format!("it wants {wanted}, {}", said(|c| &c.language)))
            }
            Clause::HoursOfWeek => ("hours_of_week", self.hour()),
            Clause::Expression => ("expression", "it is not true of this request".to_owned()),
            Clause::SegmentsAny => {
                let wanted = wanted(|t| some(t.segments_any.iter()));
                return format!("needs segment {wanted}: the clause segments_any does not hold");
            }
            Clause::SegmentsNone => {
                let unwanted = wanted(|t| some(t.segments_none.iter()));
                ("segments_none", format!("the visitor has {unwanted}"))
            }
        };
        format!("the clause {name} does not hold: {why}")
    }

    /// The hour that the account's hours of the week are held against.
    fn hour(&self) -> String {
        let zone = match &*self.placed.block.account.time_zone {
            "" => "UTC",
            name => name,
        };
        let hour = hour_of_week(zone, self.grounds.visit.now_us);
        if hour >= HOURS_OF_WEEK {
            return format!("this node does not know the time zone {zone}");
        }
        format!("in {zone} it is {}, hour {}", DAYS[usize::from(hour / 24)], hour % 24)
    }

    fn unknown(&self, campaign: Option<&Campaign>) -> String {
        let is_strict = campaign.is_some_and(Campaign::asks_the_store);
        match is_strict && self.grounds.settled.profile.is_some() {
            true => "its caps are strict, and the store could not say that they hold".to_owned(),
            false => "what is stored of the visitor decides, and could not be had".to_owned(),
        }
    }

    fn outranked(&self, one: &Explained<'_>) -> String {
        let tier = self.placed.block.tier(one.entry);
        match self.last {
            Some((last, _)) if tier < last => "others are of a higher tier".to_owned(),
            Some((last, score)) if tier == last && one.score.total_cmp(&score).is_eq() => {
                "others are worth as much, and came out first at random".to_owned()
            }
            Some(_) => "others are worth more".to_owned(),
            // There would be room: only what the store did not admit is left out then.
            None => "its caps are strict, and the store did not admit it".to_owned(),
        }
    }
}

fn blocked(verdict: Verdict, entry: &str, by_site: bool) -> String {
    let who = if by_site { "site" } else { "request" };
    let what = match verdict {
        Verdict::BlockedAdvertiser => "advertiser",
        Verdict::BlockedCategory => "category",
        _ => "domain",
    };
    format!("the {who} blocks {what} {entry}")
}

fn capped(cap: Cap, seen: usize, free_at_us: i64) -> String {
    let whose = match cap.level {
        CapLevel::Ad => "ad",
        CapLevel::Campaign => "campaign",
        CapLevel::Advertiser => "advertiser",
    };
    let (max, window, next) = (cap.impressions_max, span(cap.window_us), instant(free_at_us));
    format!("seen {seen} of {max} in {window}, next at {next}: the cap on its {whose}")
}

/// `values`, the first of them where there are many.
fn some<T: Display>(values: impl Iterator<Item = T>) -> String {
    let mut told = String::new();
    let mut left_out = 0;
    for (at, value) in values.enumerate() {
        match at {
            0 => told += &value.to_string(),
            at if at < VALUES_TOLD_MAX => told += &format!(" or {value}"),
            _ => left_out += 1,
        }
    }
    if left_out > 0 {
        told += &format!(" or one of {left_out} more");
    }
    told
}

fn pixels(size: &Size) -> String {
    format!("{}x{}", size.width, size.height)
}

/// An amount with at least two decimals, and no zeros beyond them.
fn money(micros: i64) -> String {
    let (sign, size) = (if micros < 0 { "-" } else { "" }, micros.unsigned_abs());
    let decimals = format!("{:06}", size % MICROS);
    let (cents, rest) = decimals.split_at(2);
    format!("{sign}{}.{cents}{}", size / MICROS, rest.trim_end_matches('0'))
}

/// A length of time in its largest whole unit; a day is 24h, as in a cap's own words.
fn span(us: i64) -> String {
    let seconds = us / 1_000_000;
    match seconds {
        s if s >= 2 * 86_400 && s % 86_400 == 0 => format!("{}d", s / 86_400),
        s if s >= 3_600 && s % 3_600 == 0 => format!("{}h", s / 3_600),
        s if s >= 60 && s % 60 == 0 => format!("{}m", s / 60),
        s => format!("{s}s"),
    }
}

/// An instant in RFC 3339.
fn instant(us: i64) -> String {
    Timestamp::from_microsecond(us).map_or_else(|_| "no instant".to_owned(), |at| at.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cap_is_told_as_the_contract_does() {
        let cap = Cap { level: CapLevel::Ad, impressions_max: 1, window_us: 86_400_000_000 };
        let told = capped(cap, 1, 1_796_117_400_000_000);
        assert_eq!(told, "seen 1 of 1 in 24h, next at 2026-12-01T09:30:00Z: the cap on its ad");
    }

    #[test]
    fn money_and_spans_are_short_and_exact() {
        let amounts = [(1_200_000, "1.20"), (2, "0.000002"), (1_234_500, "1.2345"), (0, "0.00")];
        for (micros, text) in amounts {
            assert_eq!(money(micros), text);
        }
        for (seconds, text) in
            [(1, "1s"), (90, "90s"), (120, "2m"), (3_600, "1h"), (86_400, "24h"), (604_800, "7d")]
        {
            assert_eq!(span(seconds * 1_000_000), text);
        }
    }

    #[test]
    fn a_long_list_is_cut() {
        assert_eq!(some(["a", "b"].iter()), "a or b");
        assert_eq!(some(1..=10), "1 or 2 or 3 or 4 or 5 or 6 or 7 or 8 or one of 2 more");
    }
}
