//! The layout of the sources: imports point down and not in a circle, and what is to be read stays small.

mod circles;
mod lengths;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Each room and its floor. A room may use rooms of its own floor and of those below.
const FLOORS: &[(u8, &[&str])] = &[
    (
        0,
        &[
            "after",
            "as_parent",
            "attempt_error",
            "audit",
            "backfill",
            "bisection",
            "count",
            "error",
            "event",
            "history",
            "filter",
            "group",
            "ident",
            "indent_json",
            "job",
            "job_error",
            "job_json",
            "kind",
            "metrics",
            "opts",
            "outcome",
            "period",
            "periodic",
            "place_by",
            "queue",
            "rate",
            "remote",
            "retention",
            "retry",
            "schedule",
            "state",
            "stats",
            "stored_time",
            "trace",
            "unique",
            "wait_result",
            "waiting_insert",
            "why",
            "overview",
        ],
    ),
    (1, &["store"]),
    (2, &["client"]),
    (3, &["health", "worker", "maintenance", "notify", "wake_ups"]),
    (4, &["runner", "places"]),
    (5, &["embedded", "testing"]),
];

/// The crates of the workspace, and which of them each may use. Only the tests of a crate may use others.
const CRATES: &[(&str, &[&str])] = &[
    ("uniqueue", &["uniqueue-derive", "uniqueue-policy"]),
    ("uniqueue-admin", &["uniqueue"]),
    ("uniqueue-bench", &["uniqueue"]),
    (
        "uniqueue-cli",
        &["uniqueue", "uniqueue-admin", "uniqueue-faktory", "uniqueue-http", "uniqueue-ojs", "uniqueue-web"],
    ),
    ("uniqueue-derive", &["uniqueue-policy"]),
    ("uniqueue-faktory", &["uniqueue"]),
    ("uniqueue-http", &[]),
    ("uniqueue-model", &[]),
    ("uniqueue-ojs", &["uniqueue", "uniqueue-http"]),
    ("uniqueue-policy", &[]),
    ("uniqueue-test-support", &["uniqueue"]),
    ("uniqueue-web", &["uniqueue", "uniqueue-admin", "uniqueue-http"]),
];

fn sources(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

fn source_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The directories of the crates.
fn package_directories() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let entries = fs::read_dir(root.join("crates")).unwrap().map(|entry| entry.unwrap().path());
    let crates = entries.filter(|path| path.join("Cargo.toml").exists());
    [root.to_owned()].into_iter().chain(crates).collect()
}

/// The sources of the crates.
fn package_roots() -> Vec<PathBuf> {
    package_directories().into_iter().map(|directory| directory.join("src")).collect()
}

#[test]
fn a_crate_uses_only_those_below_it() {
    let dependencies = |directory: PathBuf| {
        let manifest = fs::read_to_string(directory.join("Cargo.toml")).unwrap();
        let name = manifest.lines().find_map(|line| line.strip_prefix("name = ")).unwrap().trim_matches('"').to_owned();
        let after = manifest.split("\n[dependencies]\n").nth(1).unwrap_or_default();
        let section = after.split("\n[").next().unwrap_or_default();
        let ours = section
            .lines()
            .filter_map(|line| line.split([' ', '.']).next())
            .filter(|name| name.starts_with("uniqueue"));
        (name, ours.map(str::to_owned).collect::<Vec<_>>())
    };
    for (name, used) in package_directories().into_iter().map(dependencies) {
        let (_, allowed) =
            CRATES.iter().find(|(known, _)| *known == name).unwrap_or_else(|| panic!("{name}: add it to CRATES"));
        assert!(used.iter().all(|used| allowed.contains(&used.as_str())), "{name} uses {used:?}");
    }
}

#[test]
fn imports_point_down() {
    let floor_of: HashMap<&str, u8> =
        FLOORS.iter().flat_map(|(floor, rooms)| rooms.iter().map(|room| (*room, *floor))).collect();
    let mut wrong = Vec::new();
    for path in sources(&source_root()) {
        let inside = path.strip_prefix(source_root()).unwrap();
        let room = inside.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs");
        if room == "lib" {
            continue;
        }
        let own = *floor_of.get(room).unwrap_or_else(|| panic!("src/{room} has no floor: add it to FLOORS"));
        let text = fs::read_to_string(&path).unwrap();
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            // Two imports in one could hide the room.
            assert!(!code.contains("crate::{"), "{}:{}: one `use` for each room", inside.display(), number + 1);
            for used in code.split("crate::").skip(1) {
                let other: String = used.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                if floor_of.get(other.as_str()).is_some_and(|floor| *floor > own) {
                    wrong.push(format!("{}:{}: {room} uses {other}", inside.display(), number + 1));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "imports that point up: {wrong:#?}");
}

#[test]
fn the_guide_to_contributing_names_every_room() {
    let guide = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("CONTRIBUTING.md")).unwrap();
    let missing: Vec<_> = (FLOORS.iter().flat_map(|(_, rooms)| *rooms))
        .filter(|room| !guide.contains(&format!("`{room}`")) && !guide.contains(&format!("`{room}/`")))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn only_the_store_and_the_wake_ups_speak_to_the_database_by_name() {
    for path in sources(&source_root()) {
        let inside = path.strip_prefix(source_root()).unwrap();
        if inside.starts_with("store") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for verb in ["\"SELECT ", "\"INSERT ", "\"UPDATE ", "\"DELETE ", "sqlx::query"] {
            assert!(!text.contains(verb), "{} speaks SQL: {verb}", inside.display());
        }
    }
}
