//! The numbers of what replayed lines name, from the store.

use std::collections::{HashMap, HashSet};

use slotwise_core::index::Key;
use slotwise_core::model::{AccountSerial, AdSerial, ZoneSerial};
use slotwise_proto::v1::ReplayedEvent;

use super::Problem;
use crate::catalog::owner_of_row;
use crate::doors::admin::Admin;
use crate::doors::refusal::Refusal;
use crate::limits::REPLAY_NAMES_MAX;

/// What one replay has met so far. A name that was unknown is asked for again.
#[derive(Default)]
pub(super) struct Names {
    /// The serial and, of sites and campaigns, the account; of accounts only the serial.
    known: HashMap<Key, (u32, String)>,
}

impl Names {
    /// Asks for all that `events` name and that is not known yet.
    pub(super) async fn learn(
        &mut self,
        admin: &Admin,
        events: &[ReplayedEvent],
    ) -> Result<(), Refusal> {
        if self.known.len() > REPLAY_NAMES_MAX {
            self.known.clear();
        }
        let keys: HashSet<Key> = events.iter().flat_map(keys).collect();
        let found = self.ask(admin, keys).await?;
        let accounts = found.iter().filter_map(|key| self.known.get(key));
        let accounts = accounts.filter(|(_, owner)| !owner.is_empty());
        let accounts = accounts.map(|(_, owner)| Key::Account(owner.as_str().into())).collect();
        self.ask(admin, accounts).await?;
        Ok(())
    }

    async fn ask(&mut self, admin: &Admin, keys: HashSet<Key>) -> Result<Vec<Key>, Refusal> {
        let unknown: Vec<_> =
            keys.into_iter().filter(|key| !self.known.contains_key(key)).collect();
        if unknown.is_empty() {
            return Ok(unknown);
        }
        let (_, rows) = admin.catalog.store().get(&unknown).await?;
        for row in rows {
            let owner = owner_of_row(&row);
            self.known.insert(row.key, (row.serial, owner));
        }
        Ok(unknown)
    }

    /// The account, ad and zone of an event.
    pub(super) fn of(
        &self,
        event: &ReplayedEvent,
    ) -> Result<(AccountSerial, AdSerial, ZoneSerial), Problem> {
        let [campaign, ad, site, zone] = keys(event);
        let get = |key: &Key, field| {
            let found = self.known.get(key).filter(|(serial, _)| *serial > 0);
            found.ok_or_else(|| Problem::new(field, format!("there is no {} {key}", key.kind())))
        };
        let (_, account) = get(&campaign, "campaign_id")?;
        let (ad, _) = get(&ad, "ad_unit_id")?;
        let (_, account_of_site) = get(&site, "site_id")?;
        let (zone, _) = get(&zone, "zone_id")?;
        if account != account_of_site {
            let problem = format!("{campaign} and site {site} belong to different accounts");
            return Err(Problem::new("campaign_id", problem));
        }
        let (account, _) = get(&Key::Account(account.as_str().into()), "campaign_id")?;
        Ok((AccountSerial(*account), AdSerial(*ad), ZoneSerial(*zone)))
    }
}

fn keys(event: &ReplayedEvent) -> [Key; 4] {
    let (campaign, site) = (event.campaign_id.as_str(), event.site_id.as_str());
    [
        Key::Campaign(campaign.into()),
        Key::Ad(campaign.into(), event.ad_unit_id.as_str().into()),
        Key::Site(site.into()),
        Key::Zone(site.into(), event.zone_id.as_str().into()),
    ]
}
