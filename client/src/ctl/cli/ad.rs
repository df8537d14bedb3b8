//! The command line of ads.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use slotwise_proto::v1::{AdZone, Size};

use super::values::{self, Setting};
use super::{IfVersion, Limit};

const LIST_HELP: &str = "\
Examples:
  slotwisectl ad list alpina:roadster
  slotwisectl ad list alpina:roadster --json | jq .landingUrl";

const SHOW_HELP: &str = "\
Examples:
  slotwisectl ad show alpina:roadster banner
  slotwisectl ad show alpina:roadster banner --json | jq -r .markup";

const PUT_HELP: &str = "\
Only what is named changes. A repeated flag (--zone, --keyword, ...) replaces
its whole list; an empty --keyword= empties it. With --from, the fields that
the file names change.

Examples:
  slotwisectl ad put alpina:roadster banner --zone news/home-top \\
      --zone news/side=2.50 --ecpm 2 --size 300x250 \\
      --landing-url 'https://shop.example/?t={click_token}'
  slotwisectl ad put alpina:roadster banner --keyword car --keyword style
  slotwisectl ad put alpina:roadster banner --markup-file banner.html
  slotwisectl ad put alpina:roadster banner --from banner.json";

const DELETE_HELP: &str = "\
Examples:
  slotwisectl ad delete alpina:roadster banner
  slotwisectl ad delete alpina:roadster banner --if-version 41";

#[derive(Debug, Subcommand)]
pub(crate) enum AdCommand {
    /// List the ads of a campaign
    #[command(after_help = LIST_HELP)]
    List {
        /// ADVERTISER:CAMPAIGN
        campaign: String,
        #[command(flatten)]
        limit: Limit,
    },
    /// Show one ad
    #[command(after_help = SHOW_HELP)]
    Show(AdName),
    /// Create an ad, or change what is named
    #[command(after_help = PUT_HELP)]
    Put(Box<AdPut>),
    /// Delete an ad
    #[command(after_help = DELETE_HELP)]
    Delete {
        #[command(flatten)]
        name: AdName,
        #[command(flatten)]
        if_version: IfVersion,
    },
}

/// The two ids that name an ad.
#[derive(Debug, Args)]
pub(crate) struct AdName {
    /// ADVERTISER:CAMPAIGN
    pub(crate) campaign: String,
    /// The ad's id in its campaign
    pub(crate) ad: String,
}

#[derive(Debug, Args)]
pub(crate) struct AdPut {
    #[command(flatten)]
    pub(crate) name: AdName,
    #[command(flatten)]
    pub(crate) fields: AdFields,
    /// One ad in JSON, as `show --json` prints it; `-` for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "AdFields")]
    pub(crate) from: Option<PathBuf>,
    /// With --from: what the file does not name goes back to its default
    #[arg(long, requires = "from")]
    pub(crate) replace: bool,
    #[command(flatten)]
    pub(crate) if_version: IfVersion,
}

#[derive(Debug, Args)]
#[group(multiple = true)]
pub(crate) struct AdFields {
    /// A zone that it may serve in, with its own eCPM there if given (repeatable)
    #[arg(long, value_name = "SITE/ZONE[=ECPM]", value_parser = values::ad_zone)]
    pub(crate) zone: Vec<AdZone>,
    /// What it is ranked by, an amount per 1,000 impressions; none: the campaign's CPM
    #[arg(long, value_name = "AMOUNT", value_parser = values::money_setting)]
    pub(crate) ecpm: Option<Setting<i64>>,
    /// A keyword that it matches (repeatable)
    #[arg(long)]
    pub(crate) keyword: Vec<String>,
    /// A keyword that it must not be shown with (repeatable)
    #[arg(long)]
    pub(crate) excluded_keyword: Vec<String>,
    /// Where a click leads; may hold {click_token}
    #[arg(long, value_name = "URL")]
    pub(crate) landing_url: Option<String>,
    /// A file with its markup; `-` for standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) markup_file: Option<PathBuf>,
    /// Its size
    #[arg(long, value_name = "WxH", value_parser = values::size)]
    pub(crate) size: Option<Size>,
}
