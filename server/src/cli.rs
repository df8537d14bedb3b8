//! The command line of `slotwise`: `serve`, `config` and `token`.

mod demo;
mod ready;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::{Arg, ArgAction, ArgMatches, Command};
use tokio::signal::unix::{SignalKind, signal};

use crate::app::{App, SystemClock};
use crate::config::{Config, Effective, SETTINGS};
use crate::doors::Token;
use crate::telemetry;

/// Runs the command of these arguments, the program's name first; errors go to standard error.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let matches = command().get_matches_from(arguments);
    let result = match matches.subcommand() {
        Some(("serve", given)) => serve(given),
        Some(("config", given)) => print_config(given),
        Some(("token", _)) => print_token(),
        // Clap lets nothing else through.
        _ => Ok(()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("slotwise: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn command() -> Command {
    let settings = SETTINGS.map(|setting| {
        let help = match setting.default {
            "" => setting.help.to_owned(),
            default => format!("{} [default: {default}]", setting.help),
        };
        Arg::new(setting.key).long(setting.flag()).value_name("VALUE").help(help)
    });
    let file = Arg::new("config")
        .long("config")
        .value_name("FILE")
        .value_parser(clap::value_parser!(PathBuf))
        .help("A TOML file of settings; SLOTWISE_... variables and flags win over it");
    let demo = Arg::new("demo")
        .long("demo")
        .action(ArgAction::SetTrue)
        .help("Start with a small sample catalogue, unless there is one already");
    let noop = Arg::new("noop-bytes")
        .long("noop-bytes")
        .hide(true)
        .value_parser(clap::value_parser!(usize))
        .help("For benchmarks: decide nothing, and answer with so many bytes");
    Command::new("slotwise")
        .about("Decides which ad to show, and remembers who saw it")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            Command::new("serve")
                .about("Answer decisions, take events, manage the catalogue")
                .after_help(
                    "Examples:\n  slotwise serve --demo\n  \
                     slotwise serve --data-dir /var/lib/slotwise --decision-addr 0.0.0.0:7070",
                )
                .arg(demo)
                .arg(noop)
                .arg(&file)
                .args(&settings),
        )
        .subcommand(
            Command::new("config")
                .about("Print the effective configuration, and where each value came from")
                .arg(&file)
                .args(&settings),
        )
        .subcommand(
            Command::new("token")
                .about("Make a bearer token for the admin door, and its line for admin_identities"),
        )
}

fn effective(given: &ArgMatches) -> anyhow::Result<Effective> {
    let flags: BTreeMap<&'static str, String> = SETTINGS
        .iter()
        .filter_map(|setting| Some((setting.key, given.get_one::<String>(setting.key)?.clone())))
        .collect();
    let file = given.get_one::<PathBuf>("config");
    Ok(Effective::new(file.map(PathBuf::as_path), |name| std::env::var(name).ok(), flags)?)
}

fn print_config(given: &ArgMatches) -> anyhow::Result<()> {
    let effective = effective(given)?;
    // What is printed is what would run.
    Config::new(&effective)?;
    for (key, value) in effective.values() {
        println!("{:<50} # {}", format!("{key} = {:?}", shown(&value.text)), value.origin);
    }
    Ok(())
}

/// A value as it may be seen: passwords in its URLs are hidden.
fn shown(text: &str) -> String {
    let mut parts = text.split("://");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |shown, part| {
        // A password may hold anything but the next URL.
        let hidden = part.rsplit_once('@').and_then(|(who, rest)| {
            who.split_once(':').map(|(user, _)| format!("{user}:***@{rest}"))
        });
        format!("{shown}://{}", hidden.as_deref().unwrap_or(part))
    })
}

/// The token goes to standard output once; nothing keeps it but its hash.
fn print_token() -> anyhow::Result<()> {
    let token = Token::random()?;
    println!("{}", token.text);
    println!();
    println!("token_sha256 = \"{}\"", token.sha256);
    eprintln!("the first line is for its holder and is not shown again; the last is for the file");
    eprintln!("that admin_identities names, below [[identity]] with name and role");
    Ok(())
}

fn serve(given: &ArgMatches) -> anyhow::Result<()> {
    let mut config = Config::new(&effective(given)?)?;
    if let Some(bytes) = given.get_one::<usize>("noop-bytes") {
        config = config.decides_nothing(*bytes).map_err(anyhow::Error::msg)?;
    }
    telemetry::init(config.log_format, config.log.clone());
    open_as_many_files_as_allowed();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let done = runtime.block_on(serve_until_told(&config, given.get_flag("demo")));
    // What is still there holds a silent peer: not worth waiting for.
    runtime.shutdown_background();
    done
}

/// The usual soft limit of 1,024 is for programs that use `select`; a server's is the hard one.
fn open_as_many_files_as_allowed() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::warn!(%error, limit = ?current, "the limit of open files stays as it was");
    }
}

async fn serve_until_told(config: &Config, with_demo: bool) -> anyhow::Result<()> {
    // Before anything else, so that no signal is missed.
    let (mut terminate, mut interrupt) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let start = async {
        let app = App::start(config, Arc::new(SystemClock)).await?;
        if with_demo {
            demo::import(&app).await.context("the sample catalogue")?;
        }
        ready::wait(&app, config).await?;
        ready::print(&app, config);
        anyhow::Ok(app)
    };
    let told = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    tokio::pin!(told);
    let app = tokio::select! {
        app = start => app?,
        // Nothing was promised to anybody yet.
        () = &mut told => return Ok(()),
    };
    told.await;
    tracing::info!("stopping");
    app.stop().await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_in_urls_are_hidden() {
        for (text, expected) in [
            ("info", "info"),
            ("redis://host:6379", "redis://host:6379"),
            ("redis://:pw@host:1", "redis://:***@host:1"),
            (
                "postgres://a:p:w@h/d,postgres://u@h:5/d,postgres://b:x@h:1/d",
                "postgres://a:***@h/d,postgres://u@h:5/d,postgres://b:***@h:1/d",
            ),
        ] {
            assert_eq!(shown(text), expected);
        }
    }
}
