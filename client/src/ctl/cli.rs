//! The command line: what can be asked for. Everything that can be checked without the server is
//! checked here, by the parsers in `values`.

use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::Address;
use crate::ctl::connect::Door;

pub(crate) mod ad;
pub(crate) mod bulk;
pub(crate) mod campaign;
pub(crate) mod choose;
pub(crate) mod inventory;
pub(crate) mod reports;
pub(crate) mod secrets;
pub(crate) mod user;
pub(crate) mod values;

const AFTER_HELP: &str = "\
Exit codes:
  0  done (or nothing had to change)
  1  refused: by the server, or a bad input file
  2  bad command line
  3  done, but not on every node, or not stored yet; nodes: one is not well
  4  the server was not reached, or did not answer in time

Examples:
  slotwisectl import catalog.ndjson
  slotwisectl campaign put alpina:roadster --account demo --cpm 2.50
  slotwisectl campaign pause alpina:roadster
  slotwisectl choose news home-top --keyword car --count 3
  slotwisectl stats demo --by day,campaign";

/// Runs a Slotwise ad server: its catalogue, its kill switch, its decisions.
#[derive(Debug, Parser)]
#[command(name = "slotwisectl", version, after_help = AFTER_HELP, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) globals: Globals,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Globals {
    /// Where the admin door listens: host:port, or https://host:port with TLS
    #[arg(
        long,
        global = true,
        env = "SLOTWISE_ADMIN_ADDR",
        value_name = "ADDR",
        default_value = "127.0.0.1:7072"
    )]
    pub(crate) admin_addr: Address,
    /// Where the decision door listens, for `choose` and `page`: written alike
    #[arg(
        long,
        global = true,
        env = "SLOTWISE_DECISION_ADDR",
        value_name = "ADDR",
        default_value = "127.0.0.1:7070"
    )]
    pub(crate) decision_addr: Address,
    /// Print protobuf's JSON form, one object a line, for programs
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// The deadline of each call, such as 500ms or 30s; import, export and changes --follow have
    /// none but 5 s to connect
    #[arg(
        long, global = true, value_name = "SPAN", default_value = "30s",
        value_parser = values::timeout
    )]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) secrets: secrets::Secrets,
}

impl Globals {
    /// The admin door, as the flags have it.
    pub(crate) fn admin_door(&self) -> Door {
        Door::admin(self.admin_addr.clone(), self.timeout)
    }

    /// The decision door, as the flags have it.
    pub(crate) fn decision_door(&self) -> Door {
        Door::decision(self.decision_addr.clone(), self.timeout)
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Load a catalogue from NDJSON: all of it, or nothing
    Import(bulk::Import),
    /// Write the whole catalogue as NDJSON
    Export(bulk::Export),
    /// See and change campaigns; pause is the kill switch
    #[command(subcommand)]
    Campaign(campaign::CampaignCommand),
    /// See and change the ads of a campaign
    #[command(subcommand)]
    Ad(ad::AdCommand),
    /// See and change the slots of a site
    #[command(subcommand)]
    Zone(inventory::ZoneCommand),
    /// See and change sites
    #[command(subcommand)]
    Site(inventory::SiteCommand),
    /// See and change accounts
    #[command(subcommand)]
    Account(inventory::AccountCommand),
    /// See and change what is kept of a visitor; forget them
    #[command(subcommand)]
    User(user::UserCommand),
    /// Which nodes there are, and how they are
    #[command(after_help = bulk::NODES_HELP)]
    Nodes,
    /// Ask which ads a zone would show: a dry run, unless told otherwise
    Choose(choose::Choose),
    /// Ask which ads all the zones of a page would show together: a dry run, too
    Page(choose::Page),
    /// What was counted, minute by minute
    Minutes(reports::Minutes),
    /// What was counted, by day, site, zone, campaign and ad
    Stats(reports::Stats),
    /// The ads with most events of the last minutes
    Top(reports::Top),
    /// Count events of another time or another system, each line once
    Replay(reports::Replay),
    /// Who changed what, and when
    Changes(bulk::Changes),
    /// Print a completion script for a shell
    #[command(after_help = bulk::COMPLETIONS_HELP)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// How many items a list shows.
#[derive(Debug, Args)]
pub(crate) struct Limit {
    /// Show at most so many
    #[arg(
        long, value_name = "N", default_value_t = 1_000,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub(crate) limit: u32,
}

/// A guard against changes that somebody else makes at the same time.
#[derive(Debug, Args)]
pub(crate) struct IfVersion {
    /// Only if the object's version is still this one, as `show` prints it
    #[arg(long, value_name = "VERSION", value_parser = clap::value_parser!(u64).range(1..))]
    if_version: Option<u64>,
}

impl IfVersion {
    /// As the wire has it: 0 is any version.
    pub(crate) fn wire(&self) -> u64 {
        self.if_version.unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_teaches_by_example() {
        fn check(command: &clap::Command, path: &str) {
            for sub in command.get_subcommands() {
                let path = format!("{path} {}", sub.get_name());
                if sub.has_subcommands() {
                    check(sub, &path);
                } else {
                    let help = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
                    assert!(help.matches(&path).count() >= 2, "{path}: {help}");
                    // clap breaks longer lines once more, in the middle of what was broken by hand.
                    let wide: Vec<&str> =
                        help.lines().filter(|line| line.chars().count() > 80).collect();
                    assert!(wide.is_empty(), "{path}: {wide:?}");
                }
            }
        }
        check(&Cli::command(), "slotwisectl");
    }

    #[test]
    fn flags_that_contradict_each_other_are_refused() {
        let bad = |line: &str| {
            let parsed = Cli::try_parse_from(line.split(' '));
            assert_eq!(parsed.unwrap_err().exit_code(), 2, "{line}");
        };
        bad("slotwisectl choose news home-top --at 2026-12-01T00:00:00Z --record");
        bad("slotwisectl choose news home-top --at 2026-12-01");
        bad("slotwisectl choose news home-top --explain-max 5");
        bad("slotwisectl page");
        bad("slotwisectl page news");
        bad("slotwisectl campaign put 7:x --cpm 1 --cpc 1");
        bad("slotwisectl campaign put 7:x --cap ad:1/1d --no-caps");
        bad("slotwisectl campaign put 7:x --from x.json --tier 1");
        bad("slotwisectl campaign put 7:x --replace");
        bad("slotwisectl campaign put 7:x --daily 0.0000001");
        bad("slotwisectl ad put 7:x a --from x.json --ecpm 1");
        bad("slotwisectl minutes demo --watch --last 1h");
        bad("slotwisectl minutes demo --last 1h --from 2026-11-30");
        bad("slotwisectl minutes demo --ad top");
        bad("slotwisectl stats demo --by hour");
        bad("slotwisectl stats demo --zone top");
        bad("slotwisectl stats demo --format csv --json");
        bad("slotwisectl replay");
        bad("slotwisectl replay log.csv --column when=timestamp");
        bad("slotwisectl campaign list --limit 0");
        bad("slotwisectl --timeout 0s account list");
        bad("slotwisectl --admin-addr nowhere account list");
    }
}
