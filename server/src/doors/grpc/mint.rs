//! What names each showing of an answer: its token, its addresses, its markup.

use std::fmt::Write as _;
use std::sync::Arc;

use rand_core::Rng as _;
use slotwise_core::decide::{Rng, Winner};
use slotwise_core::index::CampaignRow;
use slotwise_core::model::{Price, Size};
use slotwise_proto::v1::{self, ChosenAd, Creative, Detail};

use super::markup::Macros;
use crate::serials::Serials;
use crate::tokens::{CurrentKeys, KeysNow, PriceKind, Showing};

/// What answers are given names with.
pub struct Mint {
    /// The keys of tokens.
    pub keys: Arc<CurrentKeys>,
    /// What ads show and where clicks on them lead.
    pub serials: Arc<Serials>,
    /// What the addresses of events begin with, without a slash at the end.
    pub event_base_url: String,
    /// Whether only an impression is an exposure where a request does not say.
    pub on_impression: bool,
}

/// One decision, whose ads get names.
pub(super) struct Minting<'a> {
    pub(super) mint: &'a Mint,
    /// Nothing: a dry run, whose ads have no name.
    pub(super) keys: Option<KeysNow>,
    /// The decision's id, the first of all that is never seeded.
    pub(super) decision: u64,
    /// What else is never seeded.
    pub(super) rng: Rng,
    /// The machine's clock, also where another instant is decided for.
    pub(super) now_us: i64,
    pub(super) on_impression: bool,
    /// The visitor's hash, where a visitor is known.
    pub(super) visitor: Option<u128>,
    pub(super) detail: Detail,
    pub(super) request_id: &'a str,
}

/// Where the events of a showing are reported.
struct Urls {
    impression: String,
    click: String,
}

impl Minting<'_> {
    /// `winner` as the answer has it. `slot` is its number over all placements; `row` is its
    /// campaign in the table that the decision was settled on.
    pub(super) fn chosen(
        &mut self,
        slot: usize,
        winner: &Winner<'_>,
        row: Option<&CampaignRow>,
    ) -> ChosenAd {
        let entry = winner.entry;
        let keys = self.keys.as_ref();
        let token = keys.map(|keys| keys.seal(&self.showing(slot, winner, row)));
        let token = token.unwrap_or_default();
        let creative = match self.detail {
            Detail::Unspecified => None,
            Detail::Facts | Detail::Markup => Some(self.creative(winner, row, &token)),
        };
        ChosenAd {
            campaign_id: entry.ad.campaign.as_str().to_owned(),
            ad_unit_id: entry.ad.unit.as_str().to_owned(),
            ecpm_micros: winner.block.ecpm_micros(entry),
            score: winner.score,
            matched_keywords: winner.matched,
            token,
            creative,
        }
    }

    fn showing(&self, slot: usize, winner: &Winner<'_>, row: Option<&CampaignRow>) -> Showing {
        let (ad, zone) = (&winner.entry.ad, &winner.block.zone);
        let own_price = ad.price_in(&zone.site, &zone.id);
        let price = own_price.or_else(|| row.and_then(|row| row.campaign.price));
        Showing {
            decision: self.decision,
            // At most 64 placements of 100 ads.
            slot: u16::try_from(slot).unwrap_or(u16::MAX),
            issued_at_ms: self.now_us.div_euclid(1_000),
            price_nanos: price.map_or(0, Price::event_nanos),
            price_kind: match price {
                None => PriceKind::Free,
                Some(Price::ThousandImpressions(_)) => PriceKind::Impression,
                Some(Price::Click(_)) => PriceKind::Click,
                Some(Price::Conversion(_)) => PriceKind::Conversion,
            },
            on_impression: self.on_impression,
            visitor: self.visitor,
            account: winner.block.account.serial,
            zone: zone.serial,
            ad: ad.serial,
        }
    }

    fn creative(
        &mut self,
        winner: &Winner<'_>,
        row: Option<&CampaignRow>,
        token: &str,
    ) -> Creative {
        let ad = &winner.entry.ad;
        let campaign = row.map(|row| &row.campaign);
        let urls = self.urls(token);
        let markup = match self.detail {
            Detail::Markup => self.markup(winner, token, &urls),
            _ => String::new(),
        };
        Creative {
            size: ad.size.map(|Size { width, height }| v1::Size { width, height }),
            advertiser_domains: campaign.map(|c| c.advertiser_domains.clone()).unwrap_or_default(),
            categories: campaign.map(|c| c.categories.clone()).unwrap_or_default(),
            impression_url: urls.impression,
            click_url: urls.click,
            markup,
        }
    }

    /// Where events of this token are reported; empty without one.
    fn urls(&self, token: &str) -> Urls {
        let base = &self.mint.event_base_url;
        let url = |kind: &str| match token {
            "" => String::new(),
            token => [base, kind, token].concat(),
        };
        Urls { impression: url("/i/"), click: url("/c/") }
    }

    /// The ad's markup, as far as this node knows it. In a dry run whatever belongs to a showing
    /// is empty, so that the same is answered twice.
    fn markup(&mut self, winner: &Winner<'_>, token: &str, urls: &Urls) -> String {
        let Some(named) = self.mint.serials.ad(winner.entry.ad.serial) else {
            return String::new();
        };
        let mut cachebuster = String::new();
        if !token.is_empty() {
            // A string takes whatever is written.
            let _ = write!(cachebuster, "{:016x}", self.rng.next_u64());
        }
        let macros = Macros {
            click_url: &urls.click,
            impression_url: &urls.impression,
            landing_url: &named.landing_url,
            token,
            cachebuster: &cachebuster,
            request_id: self.request_id,
        };
        macros.fill(&named.markup)
    }
}
