//! The command line of counts: what they show, and how events of old get into them.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::ctl::events::Column;
use crate::ctl::time::{When, parse_span};

const MINUTES_HELP: &str = "\
A minute that is closed never changes again; what came after that stands beside
it as late. A day or a local time is the account's; a day means its beginning.

Examples:
  slotwisectl minutes demo
  slotwisectl minutes demo --campaign alpina:roadster --last 3h
  slotwisectl minutes demo --from 2026-11-30 --until 2026-12-01 --format csv
  slotwisectl minutes demo --watch";

const STATS_HELP: &str = "\
Days are the account's, both included; late events are in them. Rows add up to
the total in whatever way they are grouped.

Examples:
  slotwisectl stats demo
  slotwisectl stats demo --first 2026-11-01 --last 2026-11-30 --by campaign,ad
  slotwisectl stats demo --site news --by day,zone --format csv > zones.csv";

const TOP_HELP: &str = "\
These are estimates: see the documentation of reports.

Examples:
  slotwisectl top demo
  slotwisectl top demo --kind click --minutes 15 --count 3";

const REPLAY_HELP: &str = "\
A CSV file has a header. Its columns, and the keys of NDJSON, are:
  time     2026-11-30T12:00:00Z, or 2026-11-30 12:00:00.123456 (of UTC where it
           has no offset)
  ad       CAMPAIGN/UNIT, as in alpina:roadster/top; the last slash divides
  zone     SITE/ZONE, as in news/home-top; the last slash divides
  kind     impression, click or conversion
  visitor  who it was, if known; may be left out
  value    of a conversion, as in 12.50; may be left out
Others are ignored. Every line is checked before the first is sent, and counts
once, whenever and however often its file is sent: after a failure, send it
again. Replayed events cost nothing and fill no cap.

Examples:
  slotwisectl replay --dry-run november.csv
  slotwisectl replay november.csv december.csv
  slotwisectl replay log.csv --column time=timestamp --column visitor=uid";

/// How counts are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Table,
    /// For spreadsheets: text that they would take for a formula gets a ' before it
    Csv,
    /// As --json
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct Form {
    /// How to print
    #[arg(
        long,
        value_enum,
        value_name = "FORMAT",
        conflicts_with = "json",
        default_value = "table"
    )]
    pub(crate) format: Format,
    /// Draw no bars; they are drawn in tables on a terminal only
    #[arg(long)]
    pub(crate) no_chart: bool,
}

#[derive(Debug, Args)]
#[command(after_help = MINUTES_HELP)]
pub(crate) struct Minutes {
    /// The account
    pub(crate) account: String,
    /// Only this campaign
    #[arg(long, value_name = "CAMPAIGN")]
    pub(crate) campaign: Option<String>,
    /// Only this ad of the campaign
    #[arg(long, value_name = "UNIT", requires = "campaign")]
    pub(crate) ad: Option<String>,
    /// The first minute; otherwise see --last
    #[arg(long, value_name = "WHEN")]
    pub(crate) from: Option<When>,
    /// The minute to end before; otherwise the present one is the last
    #[arg(long, value_name = "WHEN")]
    pub(crate) until: Option<When>,
    /// So long before the end
    #[arg(
        long, value_name = "SPAN", default_value = "1h", value_parser = parse_span,
        conflicts_with = "from"
    )]
    pub(crate) last: Duration,
    /// Print minutes as they change, until interrupted
    #[arg(long, short, conflicts_with_all = ["from", "until", "last"])]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) form: Form,
}

/// What rows are told apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    Day,
    Site,
    Zone,
    Campaign,
    Ad,
}

#[derive(Debug, Args)]
#[command(after_help = STATS_HELP)]
pub(crate) struct Stats {
    /// The account
    pub(crate) account: String,
    /// The first day, such as 2026-11-24; otherwise six days before the last
    #[arg(long, value_name = "DAY")]
    pub(crate) first: Option<jiff::civil::Date>,
    /// The last day; otherwise the account's today
    #[arg(long, value_name = "DAY")]
    pub(crate) last: Option<jiff::civil::Date>,
    /// Only this site
    #[arg(long, value_name = "SITE")]
    pub(crate) site: Option<String>,
    /// Only this zone of the site
    #[arg(long, value_name = "ZONE", requires = "site")]
    pub(crate) zone: Option<String>,
    /// Only this campaign
    #[arg(long, value_name = "CAMPAIGN")]
    pub(crate) campaign: Option<String>,
    /// Only this ad of the campaign
    #[arg(long, value_name = "UNIT", requires = "campaign")]
    pub(crate) ad: Option<String>,
    /// One row for each value of these
    #[arg(long, value_enum, value_name = "BY", value_delimiter = ',', default_value = "day")]
    pub(crate) by: Vec<By>,
    #[command(flatten)]
    pub(crate) limit: super::Limit,
    #[command(flatten)]
    pub(crate) form: Form,
}

/// What happened to an ad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    Impression,
    Click,
    Conversion,
}

#[derive(Debug, Args)]
#[command(after_help = TOP_HELP)]
pub(crate) struct Top {
    /// The account
    pub(crate) account: String,
    /// Which events count
    #[arg(long, value_enum, value_name = "KIND", default_value = "impression")]
    pub(crate) kind: Kind,
    /// How many ads at most
    #[arg(
        long, value_name = "N", default_value_t = 10,
        value_parser = clap::value_parser!(u32).range(1..=100)
    )]
    pub(crate) count: u32,
    /// Of how many minutes
    #[arg(
        long, value_name = "N", default_value_t = 60,
        value_parser = clap::value_parser!(u32).range(1..=1_440)
    )]
    pub(crate) minutes: u32,
    #[command(flatten)]
    pub(crate) form: Form,
}

/// How a file of events is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FileFormat {
    Csv,
    Ndjson,
}

#[derive(Debug, Args)]
#[command(after_help = REPLAY_HELP)]
pub(crate) struct Replay {
    /// The files, each sent as a whole
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// How they are written; otherwise NDJSON where a name ends in .ndjson, .jsonl or .json, and
    /// CSV elsewhere
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) format: Option<FileFormat>,
    /// A column that has another name in the file: --column time=timestamp
    #[arg(long, value_name = "COLUMN=NAME", value_parser = renamed)]
    pub(crate) column: Vec<(Column, String)>,
    /// Only check the files: send nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

fn renamed(text: &str) -> Result<(Column, String), String> {
    let (column, name) = text.split_once('=').ok_or("write it as time=timestamp")?;
    let known = Column::ALL.into_iter().find(|known| known.name() == column);
    let known = known.ok_or_else(|| {
        let names = Column::ALL.map(Column::name).join(", ");
        format!("\"{column}\" is none of {names}")
    })?;
    Ok((known, name.to_owned()))
}
