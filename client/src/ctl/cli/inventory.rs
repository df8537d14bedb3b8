//! The command line of what ads are shown in, and to whom it belongs: zones, sites, accounts.

use clap::{Args, Subcommand};
use slotwise_proto::v1::Size;

use super::values::{self, Setting};
use super::{IfVersion, Limit};

const ZONE_LIST_HELP: &str = "\
Examples:
  slotwisectl zone list news
  slotwisectl zone list news --json | jq .zoneId";

const ZONE_SHOW_HELP: &str = "\
Examples:
  slotwisectl zone show news home-top
  slotwisectl zone show news home-top --limit 10";

const ZONE_PUT_HELP: &str = "\
Examples:
  slotwisectl zone put news home-top
  slotwisectl zone put news home-top --size 300x250 --size 728x90
  slotwisectl zone put news home-top --floor 0.50";

const SITE_LIST_HELP: &str = "\
Examples:
  slotwisectl site list
  slotwisectl site list --account demo";

const SITE_PUT_HELP: &str = "\
A repeated flag replaces its whole list; an empty value empties it.

Examples:
  slotwisectl site put news --account demo
  slotwisectl site put news --block-category IAB26 --block-domain x.example";

const ACCOUNT_LIST_HELP: &str = "\
Examples:
  slotwisectl account list
  slotwisectl account list --json | jq .timeZone";

const ACCOUNT_PUT_HELP: &str = "\
Time zone and currency never change once set.

Examples:
  slotwisectl account put acme --time-zone America/New_York --currency USD
  slotwisectl account put acme --name 'Acme Group'";

#[derive(Debug, Subcommand)]
pub(crate) enum ZoneCommand {
    /// List the zones of a site
    #[command(after_help = ZONE_LIST_HELP)]
    List {
        /// The site
        site: String,
        #[command(flatten)]
        limit: Limit,
    },
    /// Show a zone, and its ads in the order of their eCPM
    #[command(after_help = ZONE_SHOW_HELP)]
    Show {
        #[command(flatten)]
        name: ZoneName,
        #[command(flatten)]
        limit: Limit,
    },
    /// Create a zone, or change what is named
    #[command(after_help = ZONE_PUT_HELP)]
    Put(ZonePut),
}

/// The two ids that name a zone.
#[derive(Debug, Args)]
pub(crate) struct ZoneName {
    /// The site
    pub(crate) site: String,
    /// The zone's id on its site
    pub(crate) zone: String,
}

#[derive(Debug, Args)]
pub(crate) struct ZonePut {
    #[command(flatten)]
    pub(crate) name: ZoneName,
    /// A size that fits (repeatable), or none: any fits
    #[arg(long, value_name = "WxH", value_parser = size_setting)]
    pub(crate) size: Vec<Setting<Size>>,
    /// The least eCPM that is shown here, or none
    #[arg(long, value_name = "AMOUNT", value_parser = values::money_setting)]
    pub(crate) floor: Option<Setting<i64>>,
    #[command(flatten)]
    pub(crate) if_version: IfVersion,
}

fn size_setting(text: &str) -> Result<Setting<Size>, String> {
    match text {
        "none" => Ok(Setting::Remove),
        size => values::size(size).map(Setting::Set),
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum SiteCommand {
    /// List sites
    #[command(after_help = SITE_LIST_HELP)]
    List {
        /// Only this account's
        #[arg(long)]
        account: Option<String>,
        #[command(flatten)]
        limit: Limit,
    },
    /// Create a site, or change what is named
    #[command(after_help = SITE_PUT_HELP)]
    Put(SitePut),
}

#[derive(Debug, Args)]
pub(crate) struct SitePut {
    /// The site
    pub(crate) id: String,
    /// The account that it belongs to
    #[arg(long)]
    pub(crate) account: Option<String>,
    /// An advertiser that is never shown here (repeatable)
    #[arg(long, value_name = "ADVERTISER")]
    pub(crate) block_advertiser: Vec<String>,
    /// A category that is never shown here; IAB2 blocks IAB2-1 too (repeatable)
    #[arg(long, value_name = "CATEGORY")]
    pub(crate) block_category: Vec<String>,
    /// An advertiser domain that is never shown here (repeatable)
    #[arg(long, value_name = "DOMAIN")]
    pub(crate) block_domain: Vec<String>,
    #[command(flatten)]
    pub(crate) if_version: IfVersion,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AccountCommand {
    /// List accounts
    #[command(after_help = ACCOUNT_LIST_HELP)]
    List {
        #[command(flatten)]
        limit: Limit,
    },
    /// Create an account, or change what is named
    #[command(after_help = ACCOUNT_PUT_HELP)]
    Put(AccountPut),
}

#[derive(Debug, Args)]
pub(crate) struct AccountPut {
    /// The account
    pub(crate) id: String,
    /// What people call it
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// IANA name, such as America/New_York; UTC when never set
    #[arg(long, value_name = "ZONE")]
    pub(crate) time_zone: Option<String>,
    /// ISO 4217, such as USD
    #[arg(long)]
    pub(crate) currency: Option<String>,
    #[command(flatten)]
    pub(crate) if_version: IfVersion,
}
