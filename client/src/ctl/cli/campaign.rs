//! The command line of campaigns.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use slotwise_proto::v1::{FrequencyCap, Pacing};

use super::values::{self, Setting};
use super::{IfVersion, Limit};
use crate::ctl::money::parse_micros;
use crate::ctl::time::{When, parse_span};

const LIST_HELP: &str = "\
Examples:
  slotwisectl campaign list --account demo
  slotwisectl campaign list --advertiser 7
  slotwisectl campaign list --json | jq .campaignId";

const SHOW_HELP: &str = "\
Examples:
  slotwisectl campaign show alpina:roadster
  slotwisectl campaign show alpina:roadster --json > summer.json";

const PUT_HELP: &str = "\
Only what is named changes: one new daily budget leaves the total budget, the
caps and the status as they are. A repeated flag (--cap, --category, ...)
replaces its whole list; an empty value empties it. With --from, the fields
that the file names change; a file can pause a campaign, but only `campaign
activate` wakes one.

Days and times without an offset are in the account's time zone; a day is its
first instant.

Examples:
  slotwisectl campaign put alpina:roadster --account demo --cpm 2.50 \\
      --start 2026-06-01 --end 2026-09-01
  slotwisectl campaign put alpina:roadster --daily 5.25
  slotwisectl campaign put alpina:roadster --total none --cap campaign:3/24h
  slotwisectl campaign put alpina:roadster --from summer.json --if-version 41";

const PAUSE_HELP: &str = "\
Answers when every live node has stopped showing it. Exit code 3: it may still
be shown somewhere, which is named; asked again, it waits again.

Examples:
  slotwisectl campaign pause alpina:roadster
  slotwisectl campaign pause alpina:roadster --wait 5s || slotwisectl nodes";

const ACTIVATE_HELP: &str = "\
Examples:
  slotwisectl campaign activate alpina:roadster
  slotwisectl campaign activate alpina:roadster --wait 5s";

const DELETE_HELP: &str = "\
Examples:
  slotwisectl campaign delete alpina:roadster
  slotwisectl campaign delete alpina:roadster --if-version 41";

#[derive(Debug, Subcommand)]
pub(crate) enum CampaignCommand {
    /// List campaigns
    #[command(after_help = LIST_HELP)]
    List {
        /// Only this account's
        #[arg(long)]
        account: Option<String>,
        /// Only this advertiser's: what stands before the first colon of the id
        #[arg(long)]
        advertiser: Option<String>,
        #[command(flatten)]
        limit: Limit,
    },
    /// Show one campaign
    #[command(after_help = SHOW_HELP)]
    Show {
        /// ADVERTISER:CAMPAIGN
        id: String,
    },
    /// Create a campaign, or change what is named
    #[command(after_help = PUT_HELP)]
    Put(Box<CampaignPut>),
    /// Stop showing it, on every node, now
    #[command(after_help = PAUSE_HELP)]
    Pause(Switch),
    /// Let a paused campaign run again
    #[command(after_help = ACTIVATE_HELP)]
    Activate(Switch),
    /// Delete a campaign
    #[command(after_help = DELETE_HELP)]
    Delete {
        /// ADVERTISER:CAMPAIGN
        id: String,
        #[command(flatten)]
        if_version: IfVersion,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Switch {
    /// ADVERTISER:CAMPAIGN
    pub(crate) id: String,
    /// How long to wait for the nodes (1s when left out)
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    pub(crate) wait: Option<Duration>,
}

#[derive(Debug, Args)]
pub(crate) struct CampaignPut {
    /// ADVERTISER:CAMPAIGN
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) fields: CampaignFields,
    /// One campaign in JSON, as `show --json` prints it; `-` for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "CampaignFields")]
    pub(crate) from: Option<PathBuf>,
    /// With --from: what the file does not name goes back to its default, but for the status
    #[arg(long, requires = "from")]
    pub(crate) replace: bool,
    #[command(flatten)]
    pub(crate) if_version: IfVersion,
}

#[derive(Debug, Args)]
#[group(multiple = true)]
pub(crate) struct CampaignFields {
    /// The account that it belongs to
    #[arg(long)]
    pub(crate) account: Option<String>,
    /// Shown from here on: an instant, a local day or time, or none
    #[arg(long, value_name = "WHEN", value_parser = values::when_setting)]
    pub(crate) start: Option<Setting<When>>,
    /// Shown up to here, this instant not included
    #[arg(long, value_name = "WHEN", value_parser = values::when_setting)]
    pub(crate) end: Option<Setting<When>>,
    /// Higher tiers are exhausted first
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) tier: Option<i32>,
    /// The budget of a day, or none
    #[arg(long, value_name = "AMOUNT", value_parser = values::money_setting)]
    pub(crate) daily: Option<Setting<i64>>,
    /// The budget in all, or none
    #[arg(long, value_name = "AMOUNT", value_parser = values::money_setting)]
    pub(crate) total: Option<Setting<i64>>,
    /// How a day's budget is spent
    #[arg(long)]
    pub(crate) pacing: Option<PacingName>,
    /// The price of 1,000 impressions
    #[arg(
        long, value_name = "AMOUNT", value_parser = parse_micros,
        conflicts_with_all = ["cpc", "cpa"]
    )]
    pub(crate) cpm: Option<i64>,
    /// The price of a click
    #[arg(long, value_name = "AMOUNT", value_parser = parse_micros, conflicts_with = "cpa")]
    pub(crate) cpc: Option<i64>,
    /// The price of a conversion
    #[arg(long, value_name = "AMOUNT", value_parser = parse_micros)]
    pub(crate) cpa: Option<i64>,
    /// At most N showings to a visitor in any SPAN; LEVEL is ad, campaign or advertiser
    /// (repeatable)
    #[arg(long, value_name = "LEVEL:N/SPAN", value_parser = values::cap)]
    pub(crate) cap: Vec<FrequencyCap>,
    /// Without any cap
    #[arg(long, conflicts_with = "cap")]
    pub(crate) no_caps: bool,
    /// Never over a cap, across nodes too, at the cost of a round trip to the store
    #[arg(
        long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_missing_value = "true"
    )]
    pub(crate) strict_caps: Option<bool>,
    /// Never shown to an unknown visitor
    #[arg(
        long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_missing_value = "true"
    )]
    pub(crate) requires_user: Option<bool>,
    /// An IAB content category (repeatable)
    #[arg(long)]
    pub(crate) category: Vec<String>,
    /// A domain of the advertiser (repeatable)
    #[arg(long)]
    pub(crate) domain: Vec<String>,
    /// Advertisers that share a label never stand on one page (repeatable)
    #[arg(long)]
    pub(crate) label: Vec<String>,
}

/// How a day's budget is spent.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum PacingName {
    /// As fast as requests allow
    Asap,
    /// Spread over the day
    Even,
}

impl From<PacingName> for Pacing {
    fn from(name: PacingName) -> Self {
        match name {
            PacingName::Asap => Pacing::Asap,
            PacingName::Even => Pacing::Even,
        }
    }
}
