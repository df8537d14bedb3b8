//! Structured logs on standard error: for people on a terminal, JSON otherwise.

use std::io::IsTerminal;
use std::str::FromStr;

use tracing_subscriber::EnvFilter;

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people on a terminal, JSON otherwise.
    Auto,
    /// For people.
    Human,
    /// One JSON object a line.
    Json,
}

impl FromStr for LogFormat {
    type Err = &'static str;

    fn from_str(value: &str) -> Result<Self, Self::Err> {
        match value {
            "auto" => Ok(Self::Auto),
            "human" => Ok(Self::Human),
            "json" => Ok(Self::Json),
            _ => Err("is no log format; auto, human or json would do"),
        }
    }
}

/// Sends the process's logs to standard error. Standard output is for what was asked for.
///
/// A second call changes nothing.
pub fn init(format: LogFormat, filter: EnvFilter) {
    let is_terminal = std::io::stderr().is_terminal();
    // A line that cannot be written is lost. Otherwise the subscriber says so with `eprintln!`,
    // which fails in the same way, and panics: a full disk under the log would end each thread
    // that logs, from the profiles' writer to the refresher.
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .log_internal_errors(false);
    let is_json = match format {
        LogFormat::Auto => !is_terminal,
        LogFormat::Human => false,
        LogFormat::Json => true,
    };
    let _ = if is_json {
        lines.json().flatten_event(true).try_init()
    } else {
        lines.with_ansi(is_terminal).with_target(false).try_init()
    };
}
