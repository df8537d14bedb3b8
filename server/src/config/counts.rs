//! Where counts are kept, and whether this process counts.

use std::fmt;

use super::layers::{ConfigError, Effective};
use super::store::StoreChoice;
use crate::events::PARTITIONS;

/// Where counts are kept.
#[derive(Clone, Debug)]
pub enum CountsChoice {
    /// In a file of the data directory.
    Embedded,
    /// On PostgreSQL: partition p on server p mod n.
    Postgres(Vec<PostgresAddress>),
}

/// One server and database, with what is needed to connect.
#[derive(Clone)]
pub struct PostgresAddress(pub(crate) tokio_postgres::Config);

/// Never shows the password.
impl fmt::Debug for PostgresAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(config) = self;
        write!(f, "{:?}/{}", config.get_hosts(), config.get_dbname().unwrap_or_default())
    }
}

/// What `counts` and `count` say: where, and whether to count there. It is not counted where
/// nothing was said and several nodes would each keep counts of their own of one log.
pub(super) fn counts(
    effective: &Effective,
    store: &StoreChoice,
) -> Result<(CountsChoice, bool), ConfigError> {
    let choice = effective.parse("counts", |text| match text {
        "" => Ok(CountsChoice::Embedded),
        urls => addresses(urls).map(CountsChoice::Postgres),
    })?;
    let is_wanted = effective.parse("count", |text| match text {
        "auto" => Ok(None),
        "on" => Ok(Some(true)),
        "off" => Ok(Some(false)),
        _ => Err("is none of auto, on and off"),
    })?;
    let is_shared = matches!(store, StoreChoice::Redis { .. });
    let is_private = is_shared && matches!(choice, CountsChoice::Embedded);
    if is_private && is_wanted == Some(true) {
        return Err(effective.refuse(
            "count",
            "needs counts that the nodes share, as they share the log in Redis: set counts to a \
             postgres:// URL",
        ));
    }
    Ok((choice, is_wanted.unwrap_or(!is_private)))
}

/// URLs between commas; a URL of several hosts has commas, too.
fn addresses(text: &str) -> Result<Vec<PostgresAddress>, &'static str> {
    const WANTS: &str = "is no postgres://user[:password]@host[:port]/database, nor up to 16 of \
                         them between commas";
    let mut urls: Vec<String> = Vec::new();
    for part in text.split(',') {
        match urls.last_mut() {
            Some(last) if !part.trim_start().starts_with("postgres") => {
                last.push(',');
                last.push_str(part);
            }
            _ => urls.push(part.trim().to_owned()),
        }
    }
    if urls.len() > usize::from(PARTITIONS) {
        return Err(WANTS);
    }
    let is_url = |url: &&String| url.starts_with("postgres://") || url.starts_with("postgresql://");
    let address = |url: &String| {
        let url = Some(url).filter(is_url).ok_or(WANTS)?;
        url.parse().map(PostgresAddress).map_err(|_| WANTS)
    };
    urls.iter().map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(values: &[(&'static str, &str)]) -> Result<(CountsChoice, bool), String> {
        let flags = values.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
        let effective = Effective::new(None, |_| None, flags).unwrap();
        let store = super::super::store::store(&effective).unwrap();
        counts(&effective, &store).map_err(|error| error.to_string())
    }

    #[test]
    fn servers_are_told_apart_from_the_hosts_of_one() {
        let shown = |text| {
            let (choice, is_counting) = choice(&[("counts", text)]).unwrap();
            assert!(is_counting);
            match choice {
                CountsChoice::Embedded => 0,
                CountsChoice::Postgres(servers) => servers.len(),
            }
        };
        assert_eq!(shown(""), 0);
        assert_eq!(shown("postgres://u@a/d"), 1);
        assert_eq!(shown("postgres://u@a:1,b:2/d"), 1);
        assert_eq!(shown("postgres://u@a,b/d, postgresql://u:p@c/d"), 2);
        let many = vec!["postgres://u@a/d"; 17].join(",");
        for bad in ["here", "mysql://a/b", "postgres://a:port/b", ",", &many] {
            let error = choice(&[("counts", bad)]).unwrap_err();
            assert!(error.contains("counts") && error.contains("postgres://"), "{error}");
        }
    }

    #[test]
    fn a_shared_log_is_not_counted_in_private() {
        let redis = ("store", "redis://127.0.0.1");
        let counting = |values: &[_]| choice(values).unwrap().1;
        assert!(!counting(&[redis]));
        assert!(counting(&[redis, ("counts", "postgres://u@a/d")]));
        assert!(!counting(&[redis, ("counts", "postgres://u@a/d"), ("count", "off")]));
        assert!(counting(&[("count", "on")]));
        assert!(!counting(&[("count", "off")]));
        let error = choice(&[redis, ("count", "on")]).unwrap_err();
        assert!(error.contains("count = \"on\"") && error.contains("postgres://"), "{error}");
    }

    #[test]
    fn a_password_is_never_shown() {
        let (choice, _) = choice(&[("counts", "postgres://ann:s3cret@a/d")]).unwrap();
        assert!(!format!("{choice:?}").contains("s3cret"), "{choice:?}");
    }
}
