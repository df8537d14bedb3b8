//! Which store: the embedded one, or Redis.

use std::path::PathBuf;

use super::layers::{ConfigError, Effective};
use super::redis::RedisAddress;

/// Where the catalogue and the profiles are kept.
#[derive(Clone, Debug)]
pub enum StoreChoice {
    /// In files of the data directory.
    Embedded,
    /// In Redis, for several nodes.
    Redis {
        /// Where it is, and what is needed to connect.
        address: RedisAddress,
        /// What its keys begin with.
        prefix: String,
    },
}

pub(super) fn store(effective: &Effective) -> Result<StoreChoice, ConfigError> {
    let file = |key| {
        effective.parse(key, |text| Ok(Some(PathBuf::from(text)).filter(|_| !text.is_empty())))
    };
    let (password_file, authorities) = (file("redis_password_file")?, file("redis_ca")?);
    let prefix = effective.parse("redis_prefix", |text| {
        let is_sound = !text.is_empty() && text.len() <= 64;
        let is_plain =
            text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        (is_sound && is_plain)
            .then(|| text.to_owned())
            .ok_or("is no prefix: 1 to 64 letters, digits, dots, hyphens or underscores would do")
    })?;
    let address = effective.parse("store", |text| match text {
        "embedded" => Ok(None),
        url => url.parse::<RedisAddress>().map(Some),
    })?;
    Ok(match address {
        None => StoreChoice::Embedded,
        Some(address) => {
            let address = address.with_password_file(password_file).with_authorities(authorities);
            StoreChoice::Redis { address, prefix }
        }
    })
}
