//! One module for each noun; here is what they share.

use std::path::Path;
use std::time::Duration;

use prost::{Message, Name};
use prost_types::FieldMask;
use slotwise_proto::v1::CatalogChange;

use crate::ctl::cli::{Cli, Command, Globals};
use crate::ctl::connect::{Catalog, Decisions, Door, Linked, Replays, Reports, Users};
use crate::ctl::error::Error;
use crate::ctl::input;
use crate::ctl::mask;
use crate::ctl::output::Output;
use crate::{Stub, Tls};

mod account;
mod ad;
mod campaign;
mod campaign_put;
mod campaign_switch;
mod changes;
mod choose;
mod completions;
mod explain;
mod export;
mod import;
mod minutes;
mod nodes;
mod replay;
mod site;
mod stats;
mod top;
mod user;
mod zone;

/// What every command gets.
pub(crate) struct Context {
    globals: Globals,
    out: Output,
}

impl Context {
    async fn catalog(&self) -> Result<Catalog, Error> {
        self.connect(self.globals.admin_door()).await
    }

    async fn users(&self) -> Result<Users, Error> {
        self.connect(self.globals.admin_door()).await
    }

    async fn reports(&self) -> Result<Reports, Error> {
        self.connect(self.globals.admin_door()).await
    }

    async fn replays(&self) -> Result<Replays, Error> {
        self.connect(self.globals.admin_door()).await
    }

    async fn decisions(&self) -> Result<Decisions, Error> {
        self.connect(self.globals.decision_door()).await
    }

    async fn connect<C: Stub>(&self, door: Door) -> Result<Linked<C>, Error> {
        let tls = match door.address.is_tls() {
            true => self.globals.secrets.tls()?,
            // What is set for the other door does no harm here.
            false => Tls::default(),
        };
        door.connect(self.globals.secrets.token()?, tls).await
    }

    /// Prints a change that was made.
    fn changed(&mut self, change: &CatalogChange) -> Result<(), Error> {
        if self.out.is_json() {
            return self.out.message(change);
        }
        let CatalogChange { kind, id, summary, catalog_version, .. } = change;
        let summary = if summary.is_empty() { "stored" } else { summary };
        self.out.line(&format!("{kind} {id}: {summary} (catalogue version {catalog_version})"))
    }

    /// Prints a list: JSON as it came, or a table; of an empty one, that it is empty.
    fn list<M: Message + Name>(
        &mut self,
        noun: &str,
        items: &[M],
        header: &[&str],
        row: impl FnMut(&M) -> Vec<String>,
    ) -> Result<(), Error> {
        if self.out.is_json() {
            return items.iter().try_for_each(|item| self.out.message(item));
        }
        if items.is_empty() {
            return self.out.line(&format!("no {noun}"));
        }
        self.out.table(header, items.iter().map(row).collect())
    }
}

/// Runs the command to its end, and hands on all that it printed.
pub(crate) async fn run(cli: Cli) -> Result<(), Error> {
    let out = Output::new(cli.globals.json);
    let mut context = Context { globals: cli.globals, out };
    let outcome = match cli.command {
        Command::Import(args) => import::run(&mut context, args).await,
        Command::Export(args) => export::run(&mut context, args).await,
        Command::Campaign(command) => campaign::run(&mut context, command).await,
        Command::Ad(command) => ad::run(&mut context, command).await,
        Command::Zone(command) => zone::run(&mut context, command).await,
        Command::Site(command) => site::run(&mut context, command).await,
        Command::Account(command) => account::run(&mut context, command).await,
        Command::User(command) => user::run(&mut context, command).await,
        Command::Nodes => nodes::run(&mut context).await,
        Command::Choose(args) => choose::run(&mut context, args).await,
        Command::Page(args) => choose::run_page(&mut context, args).await,
        Command::Minutes(args) => minutes::run(&mut context, args).await,
        Command::Stats(args) => stats::run(&mut context, args).await,
        Command::Top(args) => top::run(&mut context, args).await,
        Command::Replay(args) => replay::run(&mut context, args).await,
        Command::Changes(args) => changes::run(&mut context, args).await,
        Command::Completions { shell } => completions::run(shell),
    };
    // How the command ended weighs more than whether somebody still reads.
    let flushed = context.out.flush();
    outcome.and(flushed)
}

/// The mask of a put. Without any path there is none: an object may be made of its id alone.
fn field_mask(paths: impl IntoIterator<Item = impl Into<String>>) -> Option<FieldMask> {
    let paths: Vec<String> = paths.into_iter().map(Into::into).collect();
    (!paths.is_empty()).then_some(FieldMask { paths })
}

/// Reads the one object of `--from`, and which of its fields to change: those that the text
/// names, or all with `replace`.
fn read_object<M: Message + Name + Default>(
    path: &Path,
    replace: bool,
) -> Result<(M, Vec<String>), Error> {
    let text = input::read_text(path)?;
    let (object, named) = mask::read(&text)
        .map_err(|problem| Error::Input(format!("{}: {problem}", path.display())))?;
    Ok((object, if replace { mask::all::<M>() } else { named }))
}

/// Checks an id that a file of `--from` holds: it is the one of the command line, or left out.
fn same_id(path: &Path, field: &str, in_file: &str, wanted: &str) -> Result<(), Error> {
    if in_file.is_empty() || in_file == wanted {
        return Ok(());
    }
    Err(Error::Input(format!("{}: {field} is {in_file}, not {wanted}", path.display())))
}

/// A put that would change nothing is a slip of the hand.
fn something_named(paths: &[String]) -> Result<(), Error> {
    if paths.is_empty() {
        return Err(Error::Usage("nothing to change: see the flags in --help".to_owned()));
    }
    Ok(())
}

/// A span for the wire.
fn wire_span(span: Duration) -> prost_types::Duration {
    // Spans of the command line have at most 2^64 ms, which the wire's seconds hold.
    prost_types::Duration::try_from(span).unwrap_or_default()
}
