//! Stats: sums by day, site, zone, campaign and ad, in any combination. All come from one level,
//! zone x ad, so every cross section adds up to the same total.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use slotwise_core::model::{AccountSerial, AdSerial, ZoneSerial};

use super::{Day, UNKNOWN};
use crate::limits::STATS_ROWS_MAX;
use crate::ports::{CountReader, Counts, PairRow, StoreError};
use crate::serials::Serials;

/// What rows are told apart by. The order is that of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dimension {
    /// The day.
    Day,
    /// The site.
    Site,
    /// The site and the zone.
    Zone,
    /// The campaign.
    Campaign,
    /// The campaign and the ad.
    Ad,
}

/// What is summed; an empty name: all.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// A site.
    pub site: Arc<str>,
    /// A zone of that site.
    pub zone: Arc<str>,
    /// A campaign.
    pub campaign: Arc<str>,
    /// An ad of that campaign.
    pub unit: Arc<str>,
}

/// Which sums to make.
#[derive(Clone, Debug)]
pub struct StatsQuery {
    /// Whose.
    pub account: AccountSerial,
    /// Of what.
    pub filter: Filter,
    /// Over which days: at least one, each beginning where the one before ends.
    pub days: Vec<Day>,
    /// One row for each value of these.
    pub group_by: Vec<Dimension>,
}

/// A row. What it is not told apart by, and what the filter does not name, is empty.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Of {
    /// The day, as `2026-11-30`.
    pub day: Arc<str>,
    /// The site.
    pub site: Arc<str>,
    /// The zone.
    pub zone: Arc<str>,
    /// The campaign.
    pub campaign: Arc<str>,
    /// The ad.
    pub unit: Arc<str>,
}

/// A row with its sum.
pub type StatsRow = (Of, Counts);

/// The rows, in order, and their sum.
#[derive(Clone, Debug, Default)]
pub struct StatsTable {
    /// In order of day, site, zone, campaign and ad.
    pub rows: Vec<StatsRow>,
    /// Of all rows.
    pub total: Counts,
}

/// Why there are no stats.
#[derive(Debug, thiserror::Error)]
pub enum StatsError {
    /// They would be too many.
    #[error("would give more than {STATS_ROWS_MAX} rows; ask for fewer days, or group by less")]
    TooManyRows,
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Sums what `counts` has, under the names of `serials`.
///
/// Where the filter names all that rows are told apart by (beside days), a row is there for each
/// day even if nothing happened; so it is for each known ad of a campaign that the filter names.
///
/// # Errors
/// [`StatsError`].
pub async fn stats(
    counts: &dyn CountReader,
    serials: &Serials,
    query: &StatsQuery,
) -> Result<StatsTable, StatsError> {
    let mut sums = Sums { query, names: Names::new(serials), rows: BTreeMap::new() };
    sums.idle(serials)?;
    for (day, from_min, until_min) in query.spans() {
        if from_min >= until_min {
            // A day that a zone skipped.
            continue;
        }
        for pair in counts.pairs(query.account, from_min, until_min).await? {
            sums.add(&day, &pair)?;
        }
    }
    let mut table = StatsTable::default();
    table.total = sums.rows.values().fold(table.total, |total, counts| total.plus(*counts));
    table.rows = sums.rows.into_iter().collect();
    Ok(table)
}

impl StatsQuery {
    fn groups(&self, dimension: Dimension) -> bool {
        self.group_by.contains(&dimension)
    }

    /// What is read at once: a day, or all of them where days are not told apart.
    fn spans(&self) -> Vec<(Arc<str>, i64, i64)> {
        let (Some(first), Some(last)) = (self.days.first(), self.days.last()) else {
            return Vec::new();
        };
        if !self.groups(Dimension::Day) {
            return vec![("".into(), first.from_min, last.until_min)];
        }
        let days = self.days.iter();
        days.map(|day| (day.date.to_string().into(), day.from_min, day.until_min)).collect()
    }
}

struct Sums<'q> {
    query: &'q StatsQuery,
    names: Names<'q>,
    rows: BTreeMap<Of, Counts>,
}

impl Sums<'_> {
    fn add(&mut self, day: &Arc<str>, pair: &PairRow) -> Result<(), StatsError> {
        let filter = &self.query.filter;
        let [site, zone] = self.names.zone(pair.zone);
        let [campaign, unit] = self.names.ad(pair.ad);
        let fits = |wanted: &Arc<str>, name: &Arc<str>| wanted.is_empty() || wanted == name;
        if fits(&filter.site, &site)
            && fits(&filter.zone, &zone)
            && fits(&filter.campaign, &campaign)
            && fits(&filter.unit, &unit)
        {
            let of = self.of(day, [site, zone, campaign, unit]);
            let sum = self.row(of)?;
            *sum = sum.plus(pair.counts);
        }
        Ok(())
    }

    /// The row that these names belong to.
    fn of(&self, day: &Arc<str>, [site, zone, campaign, unit]: [Arc<str>; 4]) -> Of {
        let (query, filter) = (self.query, &self.query.filter);
        let shown = |is_grouped: bool, name: Arc<str>, filter: &Arc<str>| {
            if is_grouped { name } else { Arc::clone(filter) }
        };
        let (by_zone, by_ad) = (query.groups(Dimension::Zone), query.groups(Dimension::Ad));
        Of {
            day: Arc::clone(day),
            site: shown(by_zone || query.groups(Dimension::Site), site, &filter.site),
            zone: shown(by_zone, zone, &filter.zone),
            campaign: shown(by_ad || query.groups(Dimension::Campaign), campaign, &filter.campaign),
            unit: shown(by_ad, unit, &filter.unit),
        }
    }

    fn row(&mut self, of: Of) -> Result<&mut Counts, StatsError> {
        if self.rows.len() >= STATS_ROWS_MAX && !self.rows.contains_key(&of) {
            return Err(StatsError::TooManyRows);
        }
        Ok(self.rows.entry(of).or_default())
    }

    /// The rows that are there even if nothing happened.
    fn idle(&mut self, serials: &Serials) -> Result<(), StatsError> {
        let (query, filter) = (self.query, &self.query.filter);
        let is_open = |dimension, name: &str| query.groups(dimension) && name.is_empty();
        if is_open(Dimension::Site, &filter.site)
            || is_open(Dimension::Zone, &filter.zone)
            || is_open(Dimension::Campaign, &filter.campaign)
            || is_open(Dimension::Ad, &filter.campaign)
        {
            return Ok(());
        }
        let units: Vec<Arc<str>> = if is_open(Dimension::Ad, &filter.unit) {
            let ads = serials.ads_of(&(&*filter.campaign).into(), None);
            ads.iter().map(|ad| ad.unit.as_str().into()).collect()
        } else {
            vec![Arc::clone(&filter.unit)]
        };
        for (day, ..) in query.spans() {
            for unit in &units {
                let of = self.of(
                    &day,
                    [
                        Arc::clone(&filter.site),
                        Arc::clone(&filter.zone),
                        Arc::clone(&filter.campaign),
                        Arc::clone(unit),
                    ],
                );
                self.row(of)?;
            }
        }
        Ok(())
    }
}

/// Names of serials, each looked up once.
struct Names<'s> {
    serials: &'s Serials,
    zones: HashMap<ZoneSerial, [Arc<str>; 2]>,
    ads: HashMap<AdSerial, [Arc<str>; 2]>,
}

impl<'s> Names<'s> {
    fn new(serials: &'s Serials) -> Self {
        Self { serials, zones: HashMap::new(), ads: HashMap::new() }
    }

    fn zone(&mut self, serial: ZoneSerial) -> [Arc<str>; 2] {
        let named = || match self.serials.zone(serial) {
            Some(zone) => [zone.site.as_str().into(), zone.id.as_str().into()],
            None => unknown(serial.0),
        };
        self.zones.entry(serial).or_insert_with(named).clone()
    }

    fn ad(&mut self, serial: AdSerial) -> [Arc<str>; 2] {
        let named = || match self.serials.ad(serial) {
            Some(ad) => [ad.campaign.as_str().into(), ad.unit.as_str().into()],
            None => unknown(serial.0),
        };
        self.ads.entry(serial).or_insert_with(named).clone()
    }
}

pub(super) fn unknown(serial: u32) -> [Arc<str>; 2] {
    [UNKNOWN.into(), format!("{UNKNOWN}{serial}").into()]
}
