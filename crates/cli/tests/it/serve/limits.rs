//! Limits of clients, of their requests and of memory.

use std::io::{Read, Write};

use test_support::prelude::*;

use super::{Server, basic, file, hashed};
use crate::support::{Foreground, directory, migrated, uniqueue};

#[tokio::test]
async fn clients_that_send_slowly_lose_their_places_to_others() {
    let server = Server::start(&["--max-clients", "3", "--request-timeout", "500ms"]).await;
    let silent = server.connect();
    let mut slow = server.connect();
    // A line every now and then does not prolong the time.
    slow.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n").unwrap();
    let mut feed = slow.try_clone().unwrap();
    let feeding = std::thread::spawn(move || {
        while feed.write_all(b"X-A: b\r\n").is_ok() {
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    let mut body = server.connect();
    let post = "POST /settings HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: same-origin\r\nContent-Length: 100\r\n\r\ntheme=";
    body.write_all(post.as_bytes()).unwrap();
    // All places are taken, and this one waits for the first that is free.
    assert_eq!(server.get("/", &[]).status, 200);
    let mut answer = String::new();
    let _ = body.read_to_string(&mut answer);
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    for mut stream in [silent, slow] {
        // The end, or a reset because of what was sent after it.
        let _ = stream.read_to_end(&mut Vec::new());
    }
    feeding.join().unwrap();
}

#[tokio::test]
async fn an_idle_connection_ends() {
    let server = Server::start(&["--request-timeout", "300ms"]).await;
    let mut idle = server.connect();
    idle.write_all(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    idle.read_to_end(&mut Vec::new()).unwrap();
}

#[tokio::test]
async fn clients_without_a_password_displace_each_other_and_no_probe() {
    let files = directory();
    let users = file(&files, "users", &hashed("anna", "tea at five"));
    // No silent connection ends by its time.
    let server = Server::start(&["--max-clients", "4", "--request-timeout", "1h", "--basic-auth", &users]).await;
    let mut anna = server.connect();
    let page = format!("GET /doctor HTTP/1.1\r\nHost: localhost\r\n{}\r\n\r\n", basic("anna:tea at five"));
    let mut ask = |text: &str| {
        anna.write_all(text.as_bytes()).unwrap();
        let mut answer = String::new();
        let mut part = [0; 8_192];
        while !answer.contains("</html>") {
            let read = anna.read(&mut part).unwrap();
            assert_ne!(read, 0, "{answer}");
            answer.push_str(&String::from_utf8_lossy(&part[..read]));
        }
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    };
    ask(&page);
    let mut silent = Vec::new();
    for number in 0..100 {
        let mut stream = server.connect();
        if number % 2 == 0 {
            stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n").unwrap();
        }
        silent.push(stream);
        if number % 10 == 9 {
            assert_eq!(server.get("/health/live", &[]).status, 200);
            assert_eq!(server.get("/health/ready", &[]).status, 200);
        }
    }
    // A connection that has shown its password is the last to lose its place.
    ask(&page);
    // The first of the silent ones lost theirs.
    assert_eq!(silent[1].read(&mut [0; 16]).unwrap_or(0), 0);
}

#[tokio::test]
async fn answers_that_no_client_reads_displace_no_other() {
    let server = Server::start(&["--max-clients", "3"]).await;
    let deaf: Vec<_> = (0..40)
        .map(|_| {
            let mut stream = server.connect();
            stream.set_nonblocking(true).unwrap();
            // More answers than the buffers of the system hold.
            while stream.write(&b"GET /doctor HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(50)).is_ok() {}
            stream
        })
        .collect();
    for path in ["/health/live", "/"] {
        assert_eq!(server.get(path, &[]).status, 200, "{path}");
    }
    drop(deaf);
}

#[tokio::test]
async fn a_head_and_a_body_have_their_limits() {
    let server = Server::start(&[]).await;
    let large = format!("X-A: {}", "a".repeat(200_000));
    assert_eq!(server.get("/", &[&large]).status, 431);
    let many: Vec<String> = (0..1_000).map(|number| format!("X-{number}: a")).collect();
    assert_eq!(server.get("/", &many.iter().map(String::as_str).collect::<Vec<_>>()).status, 431);
    // The answer comes before the body was read to its end, so the client may see a reset instead.
    let mut stream = server.connect();
    let head =
        "POST /insert HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: same-origin\r\nContent-Length: 5000000\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let _ = stream.write_all(&vec![b'a'; 5_000_000]);
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert_eq!(server.get("/health/live", &[]).status, 200);
}

/// The limit of memory, below that of thirty hashes at once: each takes 19 MiB beside the process itself.
const MOST_MEMORY: u64 = 200 * 1_024;

#[tokio::test]
async fn thirty_wrong_passwords_at_once_take_the_memory_of_two_and_delay_their_peer() {
    let files = directory();
    let users = file(&files, "users", &hashed("anna", "tea at five"));
    let url = migrated("uniqueue").await;
    let log = files.path().join("log");
    let mut command = uniqueue();
    command.args(["serve", "--json", "--port", "0", "--basic-auth", &users, "--database-url", &url]);
    command.stderr(fs::File::create(&log).unwrap());
    let server = Server::of(Foreground::start(&mut command));
    assert_eq!(server.get("/", &[&basic("anna:tea at five")]).status, 200);
    let began = std::time::Instant::now();
    let answers: Vec<_> = std::thread::scope(|scope| {
        let ask = |number: usize| {
            let server = &server;
            scope.spawn(move || server.get("/", &[&basic(&format!("anna:tea at {number:02}"))]))
        };
        let asked: Vec<_> = (0..30).map(ask).collect();
        asked.into_iter().map(|asked| asked.join().unwrap()).collect()
    });
    let took = began.elapsed();
    let of = |status| answers.iter().filter(|answer| answer.status == status).count();
    assert_eq!(of(401) + of(429), 30, "{answers:?}");
    assert!(of(401) == 9 && of(429) == 21, "{} refused, {} delayed", of(401), of(429));
    let delayed = answers.iter().find(|answer| answer.status == 429).unwrap();
    assert!(delayed.head.contains("retry-after: ") && delayed.body.contains("too many wrong passwords"), "{delayed:?}");
    // A password that is known to be right is not delayed, nor is the log of one that is known to be wrong.
    assert_eq!(server.get("/", &[&basic("anna:tea at five")]).status, 200);
    let peak = server.foreground.peak();
    assert!(peak.is_none_or(|peak| peak < MOST_MEMORY), "{peak:?} KiB");
    assert_eq!(server.foreground.stop("TERM").code(), Some(0));
    let log = fs::read_to_string(log).unwrap();
    let checked = log.lines().filter(|line| line.contains("peer=\"127.0.0.1\"")).count();
    // Two are hashed at once when the peer's delay begins. From then on it has one turn at a time.
    assert!((10..=12 + took.as_secs()).contains(&(u64::try_from(checked).unwrap())), "{checked} in {took:?}: {log}");
}

#[tokio::test]
async fn clients_that_hang_up_do_not_bypass_the_limit_of_hashes() {
    let files = directory();
    let users = file(&files, "users", &hashed("anna", "tea at five"));
    let server = Server::start(&["--basic-auth", &users]).await;
    for number in 0..60 {
        let mut stream = server.connect();
        let wrong = basic(&format!("anna:tea at {number:02}"));
        write!(stream, "GET / HTTP/1.1\r\nHost: localhost\r\n{wrong}\r\n\r\n").unwrap();
    }
    // Those that the server has not read yet come before this one.
    let last = server.get("/", &[&basic("anna:tea at 99")]);
    assert!([401, 429].contains(&last.status), "{last:?}");
    let peak = server.foreground.peak();
    assert!(peak.is_none_or(|peak| peak < MOST_MEMORY), "{peak:?} KiB");
}
