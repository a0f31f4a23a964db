//! Connections that are harmed, or fall silent, while a command uses them.

use std::process::Output;

use test_support::prelude::*;

use crate::support::{self, database};

const FAULTS: [Fault; 6] =
    [Fault::Cut, Fault::Reset, Fault::Frozen, Fault::FrozenOneWay, Fault::HalfClosed, Fault::Slow];

/// A part of the text of a command's first query.
const FIRST: &str = "SHOW server_version";

async fn run(arguments: Vec<String>) -> Output {
    let arguments = move || support::run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    tokio::task::spawn_blocking(arguments).await.unwrap()
}

fn on(url: &str, command: &[&str]) -> Vec<String> {
    command.iter().chain(&["--database-url", url]).map(|&argument| argument.to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_ends_within_ten_seconds_whatever_strikes_its_first_query() {
    let database = database().await;
    assert!(run(on(&database, &["migrate"])).await.status.success());
    let cells = FAULTS.map(|fault| {
        let database = database.clone();
        tokio::spawn(async move {
            let proxy = Proxy::before(&database).await;
            let struck = proxy.strike(FIRST, fault);
            let began = Instant::now();
            let output = run(on(&proxy.url(), &["queue", "list"])).await;
            let took = began.elapsed();
            struck.await.unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(if fault == Fault::Slow { 0 } else { 2 }), "{fault:?}: {said}");
            assert!(took < Duration::from_secs(20), "{fault:?}: {took:?}");
            if matches!(fault, Fault::Frozen | Fault::FrozenOneWay) {
                assert!(said.contains("does not answer within 10s"), "{fault:?}: {said}");
            }
            // Nothing of it stays.
            assert!(run(on(&proxy.url(), &["queue", "list"])).await.status.success(), "{fault:?}");
        })
    });
    for cell in cells {
        cell.await.unwrap();
    }
}
