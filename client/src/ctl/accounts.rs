//! The time zone and currency of accounts, each asked for once.

use std::collections::HashMap;

use jiff::tz::TimeZone;
use slotwise_proto::v1::catalog_service_client::CatalogServiceClient;
use slotwise_proto::v1::{Account, GetAccountRequest};
use tonic::Code;

use crate::ctl::connect::Catalog;
use crate::ctl::error::Error;
use crate::ctl::money::{format_micros, format_nanos};
use crate::ctl::time;

/// How an account writes money and times.
#[derive(Clone, Debug)]
pub(crate) struct Locale {
    pub(crate) zone: TimeZone,
    currency: String,
}

impl Locale {
    fn of(account: &Account) -> Result<Self, String> {
        Ok(Locale { zone: time::zone(&account.time_zone)?, currency: account.currency.clone() })
    }

    /// An amount with its currency, where the account names one.
    pub(crate) fn money(&self, micros: i64) -> String {
        format!("{} {}", format_micros(micros), self.currency).trim_end().to_owned()
    }

    /// The same of the ledger's nanos.
    pub(crate) fn nanos(&self, nanos: i64) -> String {
        format!("{} {}", format_nanos(nanos), self.currency).trim_end().to_owned()
    }

    /// An instant of the wire in the account's time zone; empty when absent.
    pub(crate) fn instant(&self, wire: Option<&prost_types::Timestamp>) -> String {
        match wire {
            None => String::new(),
            Some(wire) => match time::from_wire(wire) {
                Some(instant) => time::format_in(&self.zone, instant),
                None => format!("{} s after 1970", wire.seconds),
            },
        }
    }
}

/// The accounts that were met so far.
#[derive(Default)]
pub(crate) struct Accounts {
    known: HashMap<String, Locale>,
}

impl Accounts {
    /// The locale of `account_id`, which must exist and have a time zone that is known here.
    pub(crate) async fn get(
        &mut self,
        catalog: &Catalog,
        account_id: &str,
    ) -> Result<Locale, Error> {
        if let Some(locale) = self.known.get(account_id) {
            return Ok(locale.clone());
        }
        let request = GetAccountRequest { account_id: account_id.to_owned() };
        let account = catalog.call(request, CatalogServiceClient::get_account).await?;
        let locale = Locale::of(&account)
            .map_err(|problem| Error::Input(format!("account {account_id}: {problem}")))?;
        self.known.insert(account_id.to_owned(), locale.clone());
        Ok(locale)
    }

    /// As [`Accounts::get`], for showing: UTC and no currency where the account says nothing.
    pub(crate) async fn get_or_utc(
        &mut self,
        catalog: &Catalog,
        account_id: &str,
    ) -> Result<Locale, Error> {
        match self.get(catalog, account_id).await {
            Err(e) if e.is_refusal(Code::NotFound) || matches!(e, Error::Input(_)) => {
                let plain = Locale { zone: TimeZone::UTC, currency: String::new() };
                self.known.insert(account_id.to_owned(), plain.clone());
                Ok(plain)
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_and_flights_read_as_the_account_writes_them() {
        let account = Account {
            time_zone: "America/New_York".into(),
            currency: "USD".into(),
            ..Account::default()
        };
        let locale = Locale::of(&account).unwrap();
        assert_eq!(locale.money(123_450_000), "123.45 USD");
        let start = "2015-11-01T04:00:00Z".parse().unwrap();
        assert_eq!(locale.instant(Some(&time::to_wire(start))), "2015-11-01");
        assert_eq!(locale.instant(None), "");
    }
}
