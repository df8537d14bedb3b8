//! The configuration from outside: what is refused and how, and what `slotwise config` prints.

use std::path::{Path, PathBuf};

use slotwise_server::config::SETTINGS;

use super::child::{Slotwise, command, refused, serve_command};

fn file(dir: &Path, text: &str) -> PathBuf {
    let path = dir.join("slotwise.toml");
    std::fs::write(&path, text).unwrap();
    path
}

/// Exit code not 0, and the file, the line and the key by name.
#[test]
fn a_bad_file_stops_the_start_and_is_named_with_line_and_key() {
    let dir = tempfile::tempdir().unwrap();
    for (text, line, named) in [
        ("log = \"info\"\n\nlogg = \"info\"\n", 3, &["logg", "is no setting"][..]),
        ("[server]\nlog = \"info\"\n", 1, &["server", "is no setting"]),
        ("\ndecision_threads = [1, 2]\n", 2, &["decision_threads", "array"]),
        ("decision_threads = 1.5\n", 1, &["decision_threads", "float"]),
        ("decision_threads = \"many\"\n", 1, &["decision_threads", "many"]),
        ("log = \"info\"\ndecision_addr = \"localhost\"\n", 2, &["decision_addr", "localhost"]),
        ("event_addr = \"127.0.0.1:99999\"\n", 1, &["event_addr", "127.0.0.1:99999"]),
        ("admin_addr = \"192.0.2.1:7072\"\n", 1, &["admin_addr", "192.0.2.1:7072", "loopback"]),
        ("data_dir = \"\"\n", 1, &["data_dir"]),
        ("log = \"info\"\nlog = \"warn\"\n", 2, &["duplicate key"]),
        ("log = \"info\"\nthis is no TOML\n", 2, &[]),
    ] {
        let path = file(dir.path(), text).display().to_string();
        // Nothing is started and nothing printed, whichever command reads it.
        for words in [["serve", "--config", &path], ["config", "--config", &path]] {
            let why = refused(command(&words));
            let place = format!("{path}:{line}: ");
            assert!(why.contains(&place), "{text:?}: {place:?} is not in {why}");
            for word in named {
                assert!(why.contains(word), "{text:?}: {word:?} is not in {why}");
            }
        }
    }
}

#[test]
fn a_missing_file_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("nowhere.toml").display().to_string();
    let why = refused(command(&["serve", "--config", &path]));
    assert!(why.contains(&path), "{why}");
}

#[test]
fn a_bad_variable_and_a_bad_flag_are_named_as_such() {
    let dir = tempfile::tempdir().unwrap();
    let mut by_variable = serve_command(dir.path(), &[]);
    by_variable.env("SLOTWISE_DECISION_THREADS", "-1");
    let why = refused(by_variable);
    assert!(why.contains("SLOTWISE_DECISION_THREADS") && why.contains("-1"), "{why}");
    let why = refused(serve_command(dir.path(), &["--shutdown-deadline-s", "soon"]));
    assert!(why.contains("--shutdown-deadline-s") && why.contains("soon"), "{why}");
}

#[test]
fn a_directory_that_cannot_be_had_is_named() {
    let dir = tempfile::tempdir().unwrap();
    // A file stands where the directory should be made.
    let data_dir = file(dir.path(), "").join("data");
    let why = refused(serve_command(&data_dir, &[]));
    assert!(why.contains("data_dir"), "{why}");
    assert!(why.contains(&data_dir.display().to_string()), "{why}");
}

#[test]
fn config_prints_every_setting_with_where_it_came_from() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(
        dir.path(),
        "log = \"warn\"\ndata_dir = \"by-file\"\ndecision_threads = 2\nshutdown_deadline_s = 7\n",
    );
    let path = path.display().to_string();
    let mut asked = command(&["config", "--config", &path, "--decision-threads", "4"]);
    asked.env("SLOTWISE_DATA_DIR", "by-environment").env("SLOTWISE_DECISION_THREADS", "3");
    let ended = Slotwise::spawn(asked).ended();
    assert!(ended.status.success(), "{}", ended.stderr);

    let expected = |key: &str, default: &str| match key {
        "log" => ("warn".to_owned(), format!("{path}:1")),
        "shutdown_deadline_s" => ("7".to_owned(), format!("{path}:4")),
        "data_dir" => ("by-environment".to_owned(), "environment SLOTWISE_DATA_DIR".to_owned()),
        "decision_threads" => ("4".to_owned(), "flag --decision-threads".to_owned()),
        _ => (default.to_owned(), "default".to_owned()),
    };
    let lines: Vec<_> = ended.stdout.lines().collect();
    assert_eq!(lines.len(), SETTINGS.len(), "{}", ended.stdout);
    for setting in SETTINGS {
        let (value, origin) = expected(setting.key, setting.default);
        let begins = format!("{} = {value:?} ", setting.key);
        let line = lines.iter().find(|line| line.starts_with(&begins));
        let line = line.unwrap_or_else(|| panic!("{begins} is not in {}", ended.stdout));
        assert!(line.ends_with(&format!("# {origin}")), "{line}");
    }
}
