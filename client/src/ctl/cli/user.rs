//! The command line of visitors.

use std::time::Duration;

use clap::{Args, Subcommand};

use crate::ctl::time::parse_span;

const SHOW_HELP: &str = "\
Examples:
  slotwisectl user show demo visitor-1
  slotwisectl user show demo visitor-1 --advertiser alpina
  slotwisectl user show demo visitor-1 --json | jq .segments";

const SEGMENTS_HELP: &str = "\
A segment is FAMILY/NAME. What is named neither way stays as it is.

Examples:
  slotwisectl user segments demo visitor-1 --add auto/in-market --ttl 30d
  slotwisectl user segments demo visitor-1 --add auto/owner --remove auto/new";

const FORGET_HELP: &str = "\
Removes all that is held under this visitor, on every node; later events of
theirs do not make it again. Counts stay: they name nobody.

Examples:
  slotwisectl user forget visitor-1
  slotwisectl user forget visitor-1 --account demo";

#[derive(Debug, Subcommand)]
pub(crate) enum UserCommand {
    /// Show the segments of a visitor, and what they were shown
    #[command(after_help = SHOW_HELP)]
    Show {
        #[command(flatten)]
        name: UserName,
        /// Only this advertiser's part
        #[arg(long)]
        advertiser: Option<String>,
    },
    /// Put a visitor into segments, and take them out
    #[command(after_help = SEGMENTS_HELP)]
    Segments(Segments),
    /// Forget a visitor
    #[command(after_help = FORGET_HELP)]
    Forget {
        /// The visitor, as decisions name them
        user: String,
        /// Only in this account; in every one when left out
        #[arg(long)]
        account: Option<String>,
    },
}

/// Profiles are kept apart by account.
#[derive(Debug, Args)]
pub(crate) struct UserName {
    /// The account
    pub(crate) account: String,
    /// The visitor, as decisions name them
    pub(crate) user: String,
}

#[derive(Debug, Args)]
pub(crate) struct Segments {
    #[command(flatten)]
    pub(crate) name: UserName,
    /// A segment that they are in from now on (repeatable)
    #[arg(long, value_name = "SEGMENT", required_unless_present = "remove")]
    pub(crate) add: Vec<String>,
    /// A segment that they are not in any more (repeatable)
    #[arg(long, value_name = "SEGMENT")]
    pub(crate) remove: Vec<String>,
    /// How long what is added lasts (30d when left out)
    #[arg(long, value_name = "SPAN", value_parser = parse_span, requires = "add")]
    pub(crate) ttl: Option<Duration>,
}
