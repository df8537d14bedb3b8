//! The command line of a decision.

use clap::Args;
use jiff::Timestamp;
use slotwise_proto::v1::{RequestContext, Size};

use super::values;
use crate::ctl::money::parse_micros;

const HELP: &str = r#"Nothing is recorded, unless --record says so: then it is a decision as a page
makes it, with tokens, caps and holds.

Examples:
  slotwisectl choose news home-top --keyword car --keyword style --count 3
  slotwisectl choose news home-top --user u-123 --at 2026-12-24T18:00:00Z
  slotwisectl choose news home-top --at 2026-12-24T18:00:00Z --seed 7
  slotwisectl choose news home-top --context '{"country":"AT"}'
  slotwisectl choose news home-top --record --json"#;

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Choose {
    /// The site
    pub(crate) site: String,
    /// The zone on it
    pub(crate) zone: String,
    /// The visitor; unknown when left out
    #[arg(long)]
    pub(crate) user: Option<String>,
    /// A word of the page or the search (repeatable)
    #[arg(long)]
    pub(crate) keyword: Vec<String>,
    /// What is known of the visit, for targeting: a RequestContext in protobuf's JSON form
    #[arg(long, value_name = "JSON", value_parser = values::context)]
    pub(crate) context: Option<Box<RequestContext>>,
    /// How many ads at most
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) count: u32,
    /// Fixes every random choice
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Over today's catalogue with the clock at this RFC 3339 instant; budgets and pacing left out
    #[arg(long, value_name = "INSTANT", conflicts_with = "record")]
    pub(crate) at: Option<Timestamp>,
    /// Only ads worth at least this per 1,000 impressions
    #[arg(long, value_name = "AMOUNT", value_parser = parse_micros)]
    pub(crate) floor: Option<i64>,
    /// Only ads of this size (repeatable)
    #[arg(long, value_name = "WxH", value_parser = values::size)]
    pub(crate) size: Vec<Size>,
    /// Make a real decision: showings are recorded
    #[arg(long)]
    pub(crate) record: bool,
}
