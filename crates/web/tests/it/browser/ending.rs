//! The remains of a test that never closes its browser.

use std::path::Path;
use std::process::Stdio;

use test_support::eventually;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::time::timeout;

use super::driver::{Driver, WAIT};

/// The line that the killed test prints before it waits for its end.
const STARTED: &str = "a browser is open: ";

#[tokio::test]
async fn a_browser_goes_with_a_test_that_is_killed() {
    if Driver::start().await.is_none() {
        return;
    }
    let mut test = Command::new(std::env::current_exe().unwrap());
    test.args(["--exact", "browser::ending::the_test_that_is_killed", "--ignored", "--nocapture"]);
    let mut test = test.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(test.stdout.take().unwrap()).lines();
    let started = async {
        loop {
            let line = lines.next_line().await.unwrap().expect("the test ended");
            if let Some((_, told)) = line.split_once(STARTED) {
                return told.to_owned();
            }
        }
    };
    let told = timeout(WAIT, started).await.unwrap();
    let (group, directory) = told.split_once(' ').unwrap();
    let directory = Path::new(directory);
    assert!(living(group).await > 1, "chromedriver and its browser");
    assert!(std::fs::read_dir(directory).unwrap().count() > 0, "a profile");
    test.kill().await.unwrap();
    eventually!(
        !directory.exists() && living(group).await == 0,
        "{} processes live, {} is left",
        living(group).await,
        directory.display()
    );
}

#[tokio::test]
#[ignore = "played by the test above"]
async fn the_test_that_is_killed() {
    let driver = Driver::start().await.unwrap();
    let _browser = driver.session(800, 600, true).await;
    println!("{STARTED}{} {}", driver.group, driver.directory.display());
    std::future::pending::<()>().await;
}

/// How many processes of a group live. A dead one that waits for its parent does not.
async fn living(group: &str) -> usize {
    let listed = Command::new("ps").args(["-A", "-o", "pgid=,stat="]).output().await.unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let of_group = |line: &&str| {
        let mut words = line.split_whitespace();
        words.next() == Some(group) && words.next().is_some_and(|state| !state.starts_with('Z'))
    };
    listed.lines().filter(of_group).count()
}
