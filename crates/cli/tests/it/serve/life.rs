//! The log, the start and the end.

use std::io::{Read, Write};

use test_support::prelude::*;

use super::{Server, WAIT, basic, file, hashed, refusal};
use crate::support::{Foreground, database, directory, migrated, uniqueue};

#[tokio::test]
async fn what_clients_send_is_spelled_out_in_the_log() {
    const FORGED: &str = "2026-01-01 WARN forged";
    let files = directory();
    let users = file(&files, "users", &hashed("anna", "tea at five"));
    let url = migrated("uniqueue").await;
    let log = files.path().join("log");
    let mut command = uniqueue();
    command.args(["serve", "--json", "--listen", "127.0.0.1:0", "--basic-auth", &users, "--database-url", &url]);
    command.env("RUST_LOG", "info").stderr(fs::File::create(&log).unwrap());
    let server = Server::of(Foreground::start(&mut command));
    // The name of an unknown user, and the subject of a change.
    assert_eq!(server.get("/", &[&basic(&format!("x\n{FORGED}\u{1b}[31m\u{202e}:pw"))]).status, 401);
    let anna = basic("anna:tea at five");
    let coded: String = format!("k\n{FORGED}\u{1b}[31m\u{202e}").bytes().map(|byte| format!("%{byte:02X}")).collect();
    let body = format!("key={coded}");
    let post = format!(
        "POST /key/release HTTP/1.1\r\nHost: localhost\r\n{anna}\r\nSec-Fetch-Site: same-origin\r\n\
         Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = server.connect();
    stream.write_all(post.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 303"), "{answer}");
    // Text that the database refuses, and quotes in its error.
    server.get(&format!("/jobs?args=%22%5Cu0000{coded}%22"), &[&anna]);
    server.get(&format!("/explain?kind={coded}&what=lab&policy={coded}"), &[&anna]);
    assert_eq!(server.foreground.stop("TERM").code(), Some(0));
    let log = fs::read_to_string(log).unwrap();
    assert!(log.contains(r"x\n2026-01-01 WARN forged\u{1b}[31m\u{202e}"), "{log}");
    assert!(log.contains(r"k\n2026-01-01 WARN forged\u{1b}[31m\u{202e}"), "{log}");
    assert!(!log.lines().any(|line| line.starts_with("2026-01-01")), "{log}");
    assert!(!log.contains(['\u{1b}', '\u{202e}']), "{log}");
}

#[tokio::test]
async fn open_connections_end_when_it_stops() {
    let server = Server::start(&[]).await;
    let mut stream = server.connect();
    stream.write_all(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    assert_eq!(server.foreground.stop("TERM").code(), Some(0));
    stream.read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn the_demo_needs_nothing_and_has_jobs_of_all_kinds() {
    let server = Server::start_on(&["--demo", "--read-only"]);
    assert_eq!(server.foreground.object["read_only"], true);
    let wanted = [
        "uniqueue_queue_paused{queue=\"imports\"} 1",
        "uniqueue_queue_limit{queue=\"reports\"} 2",
        "uniqueue_jobs{queue=\"images\",state=\"available\"} 5",
        "uniqueue_queue_group_limit{queue=\"webhooks\"} 1",
        "uniqueue_runners 1",
    ];
    let began = std::time::Instant::now();
    loop {
        let metrics = server.get("/metrics", &[]);
        let body = &metrics.body;
        // Between two bursts of entries no account may have work.
        let groups = server.get("/groups?queue=ledger", &[]).body;
        if wanted.iter().all(|line| body.contains(line))
            && groups.contains("account:1")
            && !body.contains("state=\"running\"} 0\nuniqueue_jobs{queue=\"emails\"")
        {
            break;
        }
        assert!(began.elapsed() < WAIT, "{body}");
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(server.foreground.stop("INT").code(), Some(0));
}

#[tokio::test]
async fn a_schema_that_is_not_migrated_is_an_error_at_the_start() {
    let url = database().await;
    let told = refusal(&["--listen", "127.0.0.1:0", "--database-url", &url]);
    assert!(told.contains("not migrated"), "{told}");
    assert!(refusal(&["--listen", "127.0.0.1:0"]).contains("no database given"));
}
