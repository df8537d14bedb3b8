//! A small market to decide in: one account with one zone, and what a test puts there.

use std::sync::Arc;

use proptest::prelude::ProptestConfig;
use rand_xoshiro::rand_core::SeedableRng;
use slotwise_core::decide::{self, Decision, Page, Rng, Strict};
use slotwise_core::index::{Builder, Change, Index, ZoneBlock};
use slotwise_core::model::{
    Account, AccountSerial, Ad, AdSerial, Blocks, Campaign, CampaignId, CampaignSerial, Cap,
    CapLevel, Context, Flight, Keywords, Names, Placement, Profile, Site, Size, Status, Zone,
    ZoneSerial,
};

pub(crate) const SECOND_US: i64 = 1_000_000;
pub(crate) const MINUTE_US: i64 = 60 * SECOND_US;
pub(crate) const HOUR_US: i64 = 60 * MINUTE_US;
pub(crate) const DAY_US: i64 = 24 * HOUR_US;
/// 2026-11-30T00:00:00Z: where the tests' clocks begin.
pub(crate) const START_US: i64 = 1_795_996_800 * SECOND_US;

pub(crate) const ACCOUNT: &str = "net";
pub(crate) const SITE: &str = "news";
pub(crate) const ZONE: &str = "top";

/// `cases`, unless PROPTEST_CASES asks for another number.
pub(crate) fn cases(cases: u32) -> ProptestConfig {
    let default = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { default.cases } else { cases };
    ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 4_096, ..default }
}

/// An active campaign without limits.
pub(crate) fn campaign(serial: u32, id: &str) -> Campaign {
    let id = CampaignId::from(id);
    Campaign {
        serial: CampaignSerial(serial),
        account: ACCOUNT.into(),
        advertiser: id.advertiser(),
        id,
        status: Status::Active,
        flight: Flight::OPEN,
        tier: 0,
        caps: [].into(),
        strict_caps: false,
        requires_user: false,
        has_budget: false,
        targeting: None,
        competitive_labels: Names::default(),
        price: None,
        categories: Vec::new(),
        advertiser_domains: Vec::new(),
    }
}

/// An active campaign with caps.
pub(crate) fn capped(serial: u32, id: &str, caps: &[(CapLevel, u32, i64)]) -> Campaign {
    let cap = |&(level, impressions_max, window_us)| Cap { level, impressions_max, window_us };
    Campaign { caps: caps.iter().map(cap).collect(), ..campaign(serial, id) }
}

/// An ad in the market's zone, worth so many whole units of currency per thousand.
pub(crate) fn ad(serial: u32, campaign: &str, unit: &str, ecpm: i64, keywords: &[&str]) -> Ad {
    Ad {
        serial: AdSerial(serial),
        campaign: campaign.into(),
        unit: unit.into(),
        placements: [Placement {
            site: SITE.into(),
            zone: ZONE.into(),
            ecpm_micros: Some(ecpm * 1_000_000),
        }]
        .into(),
        keywords: Keywords::new(keywords.iter().copied()),
        excluded_keywords: Keywords::default(),
        size: None,
        zone_prices: [].into(),
    }
}

/// The account, the site and the zone of every market.
pub(crate) fn ground() -> Vec<Change> {
    vec![
        Change::Account(Account {
            serial: AccountSerial(1),
            id: ACCOUNT.into(),
            time_zone: "".into(),
        }),
        Change::Site(Site { id: SITE.into(), account: ACCOUNT.into(), blocks: Blocks::default() }),
        Change::Zone(zone()),
    ]
}

pub(crate) fn zone() -> Zone {
    Zone {
        serial: ZoneSerial(1),
        site: SITE.into(),
        id: ZONE.into(),
        sizes: [].into(),
        floor_ecpm_micros: 0,
    }
}

/// A question for one placement.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(crate) now_us: i64,
    pub(crate) count: usize,
    pub(crate) keywords: Keywords,
    pub(crate) floor_ecpm_micros: i64,
    pub(crate) sizes: Vec<Size>,
    pub(crate) blocks: Blocks,
    pub(crate) hour_of_week: u8,
    pub(crate) context: Context,
    pub(crate) visitor_known: bool,
    pub(crate) without_budgets: bool,
}

impl Query {
    pub(crate) fn split(self) -> (Page, decide::Query) {
        let Self { now_us, hour_of_week, context, blocks, visitor_known, without_budgets, .. } =
            self;
        let page = Page {
            now_us,
            hour_of_week,
            context,
            blocks,
            visitor_known,
            without_budgets,
            ..Page::default()
        };
        let Self { count, keywords, floor_ecpm_micros, sizes, .. } = self;
        (page, decide::Query { count, keywords, floor_ecpm_micros, sizes })
    }
}

/// A question of a known visitor at the start, without keywords.
pub(crate) fn query(count: usize) -> Query {
    Query {
        now_us: START_US,
        count,
        keywords: Keywords::default(),
        floor_ecpm_micros: 0,
        sizes: Vec::new(),
        blocks: Blocks::default(),
        hour_of_week: 0,
        context: Context::default(),
        visitor_known: true,
        without_budgets: false,
    }
}

/// The same question with keywords.
pub(crate) fn query_for(count: usize, keywords: &[&str]) -> Query {
    Query { keywords: Keywords::new(keywords.iter().copied()), ..query(count) }
}

/// A chosen ad.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Chosen {
    pub(crate) campaign: String,
    pub(crate) unit: String,
    pub(crate) score: f64,
    pub(crate) matched: u32,
}

/// A published catalogue with its writer.
#[derive(Default)]
pub(crate) struct Market {
    pub(crate) index: Index,
    pub(crate) builder: Builder,
    version: u64,
    decisions: u64,
}

impl Market {
    pub(crate) fn new(campaigns: Vec<Campaign>, ads: Vec<Ad>) -> Self {
        let mut market = Self::default();
        let changes = ground().into_iter().chain(campaigns.into_iter().map(Change::Campaign));
        market.apply(changes.chain(ads.into_iter().map(Change::Ad)).collect());
        market
    }

    /// Publishes `changes`, none of which may be rejected.
    pub(crate) fn apply(&mut self, changes: Vec<Change>) {
        self.version += 1;
        let rejected = self.builder.apply(changes, self.version, &self.index);
        assert_eq!(rejected, []);
    }

    pub(crate) fn block(&self) -> Arc<ZoneBlock> {
        self.index.zone(SITE, ZONE).expect("the market has its zone")
    }

    pub(crate) fn decision(&self, query: Query, seed: u64) -> Decision {
        let (page, query) = query.split();
        Decision::new(page, [(self.block(), query)], Rng::seed_from_u64(seed))
    }

    /// One whole decision.
    pub(crate) fn choose(&mut self, query: Query, profile: &mut Profile, seed: u64) -> Vec<Chosen> {
        let mut decision = self.decision(query, seed);
        let asks_profile = decision.look(&self.index.campaigns());
        let looked = chosen(&decision);
        let answer = self.admit(&mut decision, profile);
        assert!(asks_profile || looked == answer, "nobody asks the profile: this is the answer");
        answer
    }

    /// The second half of one, over the campaigns as they are now.
    pub(crate) fn admit(&mut self, decision: &mut Decision, profile: &mut Profile) -> Vec<Chosen> {
        self.decisions += 1;
        let campaigns = self.index.campaigns();
        decision.admit(&campaigns, profile, self.decisions, Strict::Local).unwrap();
        chosen(decision)
    }

    /// One decision for a visitor at an instant: the units that were chosen.
    pub(crate) fn show(&mut self, count: usize, profile: &mut Profile, now_us: i64) -> Vec<String> {
        let query = Query { now_us, ..query(count) };
        let seed = self.decisions;
        units(&self.choose(query, profile, seed))
    }
}

fn chosen(decision: &Decision) -> Vec<Chosen> {
    let chosen = |winner: decide::Winner<'_>| Chosen {
        campaign: winner.entry.ad.campaign.to_string(),
        unit: winner.entry.ad.unit.to_string(),
        score: winner.score,
        matched: winner.matched,
    };
    decision.winners().map(chosen).collect()
}

/// The units of an answer, in its order.
pub(crate) fn units(answer: &[Chosen]) -> Vec<String> {
    answer.iter().map(|chosen| chosen.unit.clone()).collect()
}

/// What an index decides for an unknown visitor: who wins, as (campaign/unit, score, matched), with
/// scores as bits.
pub(crate) fn decided<'k>(
    index: &Index,
    (site, zone): (&str, &str),
    keywords: impl IntoIterator<Item = &'k str>,
    count: usize,
    seed: u64,
) -> Vec<(String, u64, u32)> {
    let Some(block) = index.zone(site, zone) else { return Vec::new() };
    let (mut page, mut query) = query(count).split();
    page.visitor_known = false;
    query.keywords = Keywords::new(keywords);
    let mut decision = Decision::new(page, [(block, query)], Rng::seed_from_u64(seed));
    decision.look(&index.campaigns());
    let campaigns = index.campaigns();
    decision.admit(&campaigns, &mut Profile::default(), 1, Strict::Local).unwrap();
    let named = |winner: decide::Winner<'_>| {
        let Ad { campaign, unit, .. } = &*winner.entry.ad;
        (format!("{campaign}/{unit}"), winner.score.to_bits(), winner.matched)
    };
    decision.winners().map(named).collect()
}
