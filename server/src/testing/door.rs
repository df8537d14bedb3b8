//! An admin door beside a running server's own: over the same catalogue, with a ledger of the
//! test's choice.

use std::net::SocketAddr;
use std::sync::Arc;

use slotwise_core::model::{AccountSerial, AdSerial, ZoneSerial};
use slotwise_proto::v1::catalog_record::Record;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::app::App;
use crate::catalog::{Catalog, record_from};
use crate::doors::{Admin, AdminDoor, Calls, Doorman, Drain, Ledger, Users, bind, reflect};
use crate::ports::{CatalogStore, Clock, CountReader};
use crate::refresh::Node;
use crate::serials::{NamedAccount, NamedAd, NamedZone, Serials};

use super::MemoryLedger;

/// The door; it closes when it is dropped.
pub struct LedgerDoor {
    /// Where it listens.
    pub addr: SocketAddr,
    /// What it counts in.
    pub ledger: Arc<MemoryLedger>,
    /// The names that it shows.
    pub serials: Arc<Serials>,
    /// Ends it as a stop would.
    pub drain: Drain,
    /// Ends once it is closed.
    pub serving: JoinHandle<()>,
    accepting: JoinHandle<()>,
}

impl Drop for LedgerDoor {
    fn drop(&mut self) {
        self.serving.abort();
        self.accepting.abort();
    }
}

impl LedgerDoor {
    /// Opens it over what `app` holds now; `clock` is the door's own.
    pub async fn open(app: &App, clock: Arc<dyn Clock>) -> Self {
        let ledger = MemoryLedger::new();
        let counts: Arc<dyn CountReader> = Arc::<MemoryLedger>::clone(&ledger);
        let store = Arc::clone(app.admin.catalog.store());
        let serials = serials_of(&*store).await;
        let admin = &app.admin;
        let node = Node {
            id: admin.fleet.node_id().to_owned(),
            index: Arc::clone(&admin.index),
            in_flight: Arc::clone(&admin.in_flight),
            kills: Arc::clone(&admin.kills),
            serials: Arc::clone(&serials),
        };
        let catalog = Catalog::new(store, Arc::clone(&admin.index), Arc::clone(&clock));
        let users =
            Users { profiles: Arc::clone(&admin.users.profiles), hash: admin.users.hash, clock };
        let own = Ledger::new(counts, Arc::clone(&serials), ledger.clone());
        let (served, fleet) = (admin.served.clone(), Arc::clone(&admin.fleet));
        let own = Admin::new(catalog, node, served, fleet, users, own);
        let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let addr = listener.local_addr().unwrap();
        let drain = Drain::default();
        let (doorman, connections) = Doorman::for_one(64);
        let accepting = tokio::spawn(doorman.accept(listener, drain.clone()));
        let (_, routes) = reflect(&[]).await.unwrap();
        let door = AdminDoor::new(Arc::new(own), None, Calls::default(), drain.clone());
        let serving = tokio::spawn(async move { door.serve(routes, connections).await });
        Self { addr, ledger, serials, drain, serving, accepting }
    }
}

/// The names of all that is in `store`.
async fn serials_of(store: &dyn CatalogStore) -> Arc<Serials> {
    let (parts, mut rows) = mpsc::channel(1_024);
    let serials = Arc::<Serials>::default();
    let (loaded, ()) = tokio::join!(store.load(parts), async {
        while let Some(part) = rows.recv().await {
            for row in part {
                let record = record_from(&row).unwrap();
                put(&serials, row.serial, record);
            }
        }
    });
    loaded.unwrap();
    serials
}

fn put(serials: &Serials, serial: u32, record: Record) {
    match record {
        Record::Account(account) => serials.put_account(NamedAccount {
            serial: AccountSerial(serial),
            id: account.account_id.as_str().into(),
            time_zone: account.time_zone.into(),
            currency: account.currency.into(),
        }),
        Record::Zone(zone) => serials.put_zone(NamedZone {
            serial: ZoneSerial(serial),
            site: zone.site_id.as_str().into(),
            id: zone.zone_id.as_str().into(),
        }),
        Record::Ad(ad) => serials.put_ad(NamedAd {
            serial: AdSerial(serial),
            campaign: ad.campaign_id.as_str().into(),
            unit: ad.ad_unit_id.as_str().into(),
            landing_url: ad.landing_url.into(),
            markup: ad.markup.into(),
        }),
        Record::Site(_) | Record::Campaign(_) => {}
    }
}
