//! The command line of what works on the whole catalogue: import, export, changes, nodes,
//! completions.

use std::path::PathBuf;

use clap::Args;

use super::Limit;

const IMPORT_HELP: &str = "\
Each line holds one of account, site, zone, campaign, ad, in protobuf's JSON
form, such as {\"account\":{\"accountId\":\"acme\",\"timeZone\":\"Europe/Vienna\"}}.
Bad lines are printed as FILE:LINE: problem, and nothing is changed. Statuses
of campaigns that exist stay as they are: an import never wakes a paused one.

Examples:
  slotwisectl import catalog.ndjson
  slotwisectl import --check catalog.ndjson
  zcat catalog.ndjson.gz | slotwisectl import --replace -";

const EXPORT_HELP: &str = "\
Examples:
  slotwisectl export catalog.ndjson
  slotwisectl export | gzip > catalog.ndjson.gz
  slotwisectl export | slotwisectl --admin-addr test:7072 import --replace -";

const CHANGES_HELP: &str = "\
Examples:
  slotwisectl changes --limit 20
  slotwisectl changes --id alpina:roadster
  slotwisectl changes --follow
  slotwisectl changes --follow --json | jq .summary";

/// Examples of `nodes`.
pub(crate) const NODES_HELP: &str = "\
Exit code 3: a node is degraded, or was not heard of for more than 3 s.

Examples:
  slotwisectl nodes
  slotwisectl nodes --json | jq .nodeId
  slotwisectl nodes > /dev/null || page-somebody";

/// Examples of `completions`.
pub(crate) const COMPLETIONS_HELP: &str = "\
Examples:
  slotwisectl completions bash > /etc/bash_completion.d/slotwisectl
  slotwisectl completions zsh > ~/.zfunc/_slotwisectl
  slotwisectl completions fish > ~/.config/fish/completions/slotwisectl.fish";

#[derive(Debug, Args)]
#[command(after_help = IMPORT_HELP)]
pub(crate) struct Import {
    /// NDJSON, one record a line; `-` for standard input
    pub(crate) file: PathBuf,
    /// Delete what the file does not name
    #[arg(long)]
    pub(crate) replace: bool,
    /// Permit dropping more than half of the ads
    #[arg(long)]
    pub(crate) force: bool,
    /// Only check: change nothing
    #[arg(long)]
    pub(crate) check: bool,
}

#[derive(Debug, Args)]
#[command(after_help = EXPORT_HELP)]
pub(crate) struct Export {
    /// The file, replaced once all is written; standard output when left out
    pub(crate) file: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = CHANGES_HELP)]
pub(crate) struct Changes {
    /// Only changes of the object with this id
    #[arg(long)]
    pub(crate) id: Option<String>,
    /// Print the newest few, then each change as it comes
    #[arg(long, short, conflicts_with = "limit")]
    pub(crate) follow: bool,
    #[command(flatten)]
    pub(crate) limit: Limit,
}
