//! Who may import whom: model <- index <- decide <- server; only `app` names a store's
//! implementation; doors never name a store. Cargo keeps I/O out of the core; this keeps the rest.

#![allow(
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap
)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn sources(dir: &str) -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(dir);
    let (mut found, mut dirs) = (Vec::new(), vec![root]);
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                found.push((path, text));
            }
        }
    }
    assert!(!found.is_empty(), "{dir} has sources");
    found
}

/// Lines of code, without comments, that hold any of `names`.
fn naming(files: &[(PathBuf, String)], within: &str, names: &[&str]) -> Vec<String> {
    let inside = |path: &Path| {
        let path = path.to_string_lossy().replace('\\', "/");
        path.contains(&format!("/src/{within}/")) || path.ends_with(&format!("/src/{within}.rs"))
    };
    files
        .iter()
        .filter(|(path, _)| inside(path))
        .flat_map(|(path, text)| {
            let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            let hits = code.filter(|line| names.iter().any(|name| line.contains(name)));
            hits.map(|line| format!("{}: {line}", path.display())).collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn the_core_imports_in_one_direction() {
    let core = sources("core/src");
    assert_eq!(naming(&core, "model", &["crate::index", "crate::decide"]), Vec::<String>::new());
    assert_eq!(naming(&core, "index", &["crate::decide"]), Vec::<String>::new());
}

#[test]
fn the_core_knows_no_io_no_clock_and_no_ambient_randomness() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("core/Cargo.toml");
    let manifest: toml::Table = std::fs::read_to_string(manifest).unwrap().parse().unwrap();
    let allowed = [
        "arc-swap",
        "hashbrown",
        "icu_casemap",
        "icu_normalizer",
        "rand_core",
        "rand_distr",
        "rand_xoshiro",
        "smallvec",
    ];
    let dependencies = manifest["dependencies"].as_table().unwrap();
    let others: Vec<_> = dependencies.keys().filter(|d| !allowed.contains(&d.as_str())).collect();
    assert!(others.is_empty(), "the core depends on {others:?}: is it pure?");
    let core = sources("core/src");
    let impure = ["std::fs", "std::net", "std::time", "std::env", "std::thread", "::now()"];
    for part in ["model", "index", "decide"] {
        assert_eq!(naming(&core, part, &impure), Vec::<String>::new());
    }
}

#[test]
fn only_app_names_an_implementation_of_a_store() {
    let server = sources("src");
    let names = [
        "store::embedded",
        "EmbeddedCatalog",
        "EmbeddedProfiles",
        "EmbeddedLog",
        "RedisLog",
        "rusqlite",
    ];
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let rooms: BTreeSet<String> = std::fs::read_dir(src)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .filter(|room| !["app", "store"].contains(&room.as_str()))
        .collect();
    assert!(rooms.contains("doors") && rooms.contains("catalog"), "{rooms:?}");
    for room in rooms {
        assert_eq!(naming(&server, &room, &names), Vec::<String>::new());
    }
    assert!(!naming(&server, "app", &names).is_empty(), "the test sees what it looks for");
}

#[test]
fn nothing_below_calls_back_up() {
    let server = sources("src");
    for (room, above) in [
        ("ports", &["crate::catalog", "crate::doors", "crate::app", "crate::refresh"][..]),
        ("store", &["crate::catalog", "crate::doors", "crate::app", "crate::refresh"]),
        ("catalog", &["crate::doors", "crate::app"]),
        ("refresh", &["crate::doors", "crate::app"]),
        ("doors", &["crate::app", "crate::store"]),
    ] {
        assert_eq!(naming(&server, room, above), Vec::<String>::new());
    }
}
