//! Where each value comes from: default, file, environment, flag; the later wins.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::settings::{SETTINGS, Setting};

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody said otherwise.
    Default,
    /// A line of the configuration file.
    File(PathBuf, usize),
    /// An environment variable.
    Environment(String),
    /// A flag.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path, line) => write!(f, "{}:{line}", path.display()),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::Flag(flag) => write!(f, "flag --{flag}"),
        }
    }
}

/// A value as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// What it is.
    pub text: String,
    /// Where it came from.
    pub origin: Origin,
}

/// Why the configuration will not do.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{path}: {error}", path = .path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The file is not TOML.
    #[error("{path}:{line}: {message}", path = .path.display())]
    NotToml {
        /// Which file.
        path: PathBuf,
        /// Where in it, from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// The file has a key that is no setting.
    #[error("{path}:{line}: {key} is no setting; there are {known}", path = .path.display())]
    UnknownKey {
        /// Which file.
        path: PathBuf,
        /// Where in it, from 1.
        line: usize,
        /// The key.
        key: String,
        /// The keys that there are.
        known: String,
    },
    /// A value that will not do.
    #[error("{origin}: {key} = {text:?} {problem}")]
    Bad {
        /// Where it came from.
        origin: Origin,
        /// Its key.
        key: &'static str,
        /// What it was.
        text: String,
        /// What is wrong, and what would do.
        problem: String,
    },
}

/// Every setting's value with where it came from.
#[derive(Debug)]
pub struct Effective(BTreeMap<&'static str, Value>);

impl Effective {
    /// Lays `flags` over the environment over `file` over the defaults.
    ///
    /// # Errors
    /// When the file cannot be read, is not TOML, or has keys that are no settings.
    pub fn new(
        file: Option<&Path>,
        environment: impl Fn(&str) -> Option<String>,
        flags: BTreeMap<&'static str, String>,
    ) -> Result<Self, ConfigError> {
        let default = |setting: &Setting| {
            (setting.key, Value { text: setting.default.to_owned(), origin: Origin::Default })
        };
        let mut values: BTreeMap<_, _> = SETTINGS.iter().map(default).collect();
        if let Some(path) = file {
            values.extend(read(path)?);
        }
        for setting in &SETTINGS {
            let variable = setting.variable();
            if let Some(text) = environment(&variable) {
                values.insert(setting.key, Value { text, origin: Origin::Environment(variable) });
            }
            if let Some(text) = flags.get(setting.key) {
                let origin = Origin::Flag(setting.flag());
                values.insert(setting.key, Value { text: text.clone(), origin });
            }
        }
        Ok(Self(values))
    }

    /// All settings, by key.
    pub fn values(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.0.iter().map(|(key, value)| (*key, value))
    }

    /// The value of `key` as `parse` reads it.
    ///
    /// # Errors
    /// What `parse` says of it, with key, value and origin.
    pub(super) fn parse<T>(
        &self,
        key: &'static str,
        parse: impl Fn(&str) -> Result<T, &'static str>,
    ) -> Result<T, ConfigError> {
        let text = self.0.get(key).map_or("", |value| value.text.as_str());
        parse(text).map_err(|problem| self.refuse(key, problem))
    }

    pub(super) fn refuse(&self, key: &'static str, problem: &str) -> ConfigError {
        let value = self.0.get(key).cloned();
        let value = value.unwrap_or(Value { text: String::new(), origin: Origin::Default });
        ConfigError::Bad {
            origin: value.origin,
            key,
            text: value.text,
            problem: problem.to_owned(),
        }
    }
}

fn read(path: &Path) -> Result<Vec<(&'static str, Value)>, ConfigError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| ConfigError::Unreadable { path: path.to_owned(), error })?;
    let line_at = |at: usize| text[..at.min(text.len())].matches('\n').count() + 1;
    let table = DeTable::parse(&text).map_err(|error| ConfigError::NotToml {
        path: path.to_owned(),
        line: error.span().map_or(1, |span| line_at(span.start)),
        message: error.message().to_owned(),
    })?;
    let mut values = Vec::new();
    for (key, value) in table.get_ref() {
        let line = line_at(key.span().start);
        let Some(setting) = SETTINGS.iter().find(|setting| setting.key == *key.get_ref()) else {
            let known = SETTINGS.map(|setting| setting.key).join(", ");
            let (path, key) = (path.to_owned(), key.get_ref().to_string());
            return Err(ConfigError::UnknownKey { path, line, key, known });
        };
        let origin = Origin::File(path.to_owned(), line);
        let text = match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) => number.to_string(),
            DeValue::Boolean(flag) => flag.to_string(),
            other => {
                let text = format!("a {}", other.type_str());
                let problem = "will not do; a string or a number would".to_owned();
                return Err(ConfigError::Bad { origin, key: setting.key, text, problem });
            }
        };
        values.push((setting.key, Value { text, origin }));
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn flags_win_over_the_environment_over_the_file() {
        let file = file("log = \"warn\"\ndata_dir = \"a\"\n\ndecision_threads = 3\n");
        let environment = |name: &str| match name {
            "SLOTWISE_DATA_DIR" => Some("b".to_owned()),
            "SLOTWISE_DECISION_THREADS" => Some("4".to_owned()),
            _ => None,
        };
        let flags = BTreeMap::from([("decision_threads", "5".to_owned())]);
        let effective = Effective::new(Some(file.path()), environment, flags).unwrap();
        let values: BTreeMap<_, _> = effective.values().collect();
        let found = |key: &str| (values[key].text.clone(), values[key].origin.to_string());
        let path = file.path().display();
        assert_eq!(found("log"), ("warn".into(), format!("{path}:1")));
        assert_eq!(found("data_dir"), ("b".into(), "environment SLOTWISE_DATA_DIR".into()));
        assert_eq!(found("decision_threads"), ("5".into(), "flag --decision-threads".into()));
        assert_eq!(found("log_format"), ("auto".into(), "default".into()));
    }

    #[test]
    fn what_is_wrong_in_the_file_is_named_with_its_line() {
        for (text, expected) in [
            ("\n\nlogg = 1\n", ":3: logg is no setting"),
            ("log = \"a\"\nlog = [1]\n", ":2:"),
            ("log = [1]\n", ":1: log = \"a array\" will not do"),
            ("log \n", ":1:"),
        ] {
            let file = file(text);
            let refused = Effective::new(Some(file.path()), |_| None, BTreeMap::new());
            let message = refused.unwrap_err().to_string();
            assert!(message.contains(expected), "{text:?}: {message}");
        }
        let missing = Path::new("/nonexistent/slotwise.toml");
        let refused = Effective::new(Some(missing), |_| None, BTreeMap::new()).unwrap_err();
        assert!(refused.to_string().contains("/nonexistent/slotwise.toml"), "{refused}");
    }
}
