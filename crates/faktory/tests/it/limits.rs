//! Passwords, limits, and what is not a command.

use std::net::IpAddr;

use test_support::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use uniqueue_faktory::{Guard, Limits, Rights};

use crate::support::{Raw, Server, job};

fn hash(password: &str, hi: &str) -> String {
    use sha2::{Digest, Sha256};
    let hi: serde_json::Value = serde_json::from_str(hi.strip_prefix("HI ").unwrap()).unwrap();
    let mut digest = Sha256::digest(format!("{password}{}", hi["s"].as_str().unwrap()));
    for _ in 1..hi["i"].as_u64().unwrap() {
        digest = Sha256::digest(digest);
    }
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Connects with a password, and returns the client and the answer.
async fn connect(server: &Server, password: &str) -> (Raw, String) {
    let mut client = Raw::connect(server.address).await;
    let hi = client.read().await;
    let hello = json!({"v": 2, "wid": "w", "pwdhash": hash(password, &hi)});
    let answer = client.send(&format!("HELLO {hello}")).await;
    (client, answer)
}

/// Delays the answers to all wrong passwords but the first.
#[derive(Default)]
struct Growing(AtomicU32);

impl Guard for Growing {
    fn wrong(&self, peer: Option<IpAddr>) -> Duration {
        assert!(peer.unwrap().is_loopback());
        Duration::from_millis(300 * u64::from(self.0.fetch_add(1, Ordering::Relaxed)))
    }
}

#[tokio::test]
async fn a_password_gives_its_rights_and_wrong_ones_are_delayed() {
    let server = Server::with(|faktory| {
        let faktory = faktory.user("ruby", "correct horse battery", Rights::All);
        faktory.user("probe", "only looks at the server", Rights::Read).guard(Arc::<Growing>::default())
    })
    .await;
    let (mut ruby, answer) = connect(&server, "correct horse battery").await;
    assert_eq!(answer, "OK");
    assert_eq!(ruby.push(job("12345678", "t")).await, "OK");
    assert_eq!(ruby.send("QUEUE PAUSE default").await, "OK");
    let log = "SELECT string_agg(actor || ' ' || verb, ', ') FROM {schema}.change_log";
    assert_eq!(server.database.text(log).await, "ruby pause_queue");
    let (mut probe, answer) = connect(&server, "only looks at the server").await;
    assert_eq!(answer, "OK");
    assert!(probe.send("INFO").await.starts_with('{'));
    for command in ["FETCH default", "FLUSH", "QUEUE RESUME default", &format!("PUSH {}", job("12345679", "t"))] {
        assert_eq!(probe.send(command).await, "-ERR This password may only read", "{command}");
    }
    for (number, password) in ["wrong", "", "wrong"].into_iter().enumerate() {
        let asked_at = std::time::Instant::now();
        let (mut client, given) = connect(&server, password).await;
        assert!(asked_at.elapsed() >= Duration::from_millis(300 * number as u64));
        assert_eq!((given.as_str(), client.read().await.as_str()), ("-ERR Invalid password", ""), "it is closed");
        assert_eq!(connect(&server, "correct horse battery").await.1, "OK", "a right password is not delayed");
    }
}

#[tokio::test]
async fn strangers_make_room_for_each_other_and_known_clients_have_places_of_their_own() {
    let server = Server::with(|faktory| faktory.limits(Limits { connections: 2, ..Limits::default() })).await;
    let (mut one, _two) = (server.client().await, server.client().await);
    let mut third = Raw::connect(server.address).await;
    third.read().await;
    assert_eq!(third.send("HELLO {\"v\":2}").await, "-ERR Too many connections: at most 2");
    let mut strangers = Vec::new();
    for _ in 0..70 {
        let mut stranger = Raw::connect(server.address).await;
        assert_eq!(stranger.read().await, "HI {\"v\":2}", "a probe is always greeted");
        strangers.push(stranger);
    }
    assert_eq!(strangers[0].read().await, "", "the oldest was closed");
    assert_eq!(one.push(job("12345678", "t")).await, "OK");
}

#[tokio::test]
async fn slow_long_and_silent_clients_lose_their_connections() {
    let limits = Limits {
        message: 100_000,
        greeting: Duration::from_millis(300),
        transfer: Duration::from_millis(300),
        idle: Duration::from_millis(300),
        ..Limits::default()
    };
    let server = Server::with(|faktory| faktory.limits(limits)).await;
    let mut silent = Raw::connect(server.address).await;
    assert_eq!((silent.read().await.as_str(), silent.read().await.as_str()), ("HI {\"v\":2}", ""));
    let mut idle = server.client().await;
    assert_eq!(idle.read().await, "");
    let mut worker = server.worker("w").await;
    tokio::time::sleep(limits.idle * 2).await;
    assert_eq!(worker.send(r#"BEAT {"wid":"w"}"#).await, "OK", "a worker that beats may be silent");
    let mut long = server.client().await;
    assert_eq!(long.send(&"a".repeat(100_001)).await, "-ERR Invalid command: longer than 100000 bytes");
    assert_eq!(long.read().await, "");
    let mut slow = server.client().await;
    slow.0.get_mut().write_all(b"PUSH {").await.unwrap();
    assert_eq!(slow.read().await, "-ERR The command was sent too slowly");
}

#[test_support::test]
async fn no_bytes_stop_the_server(server: Server) {
    for bytes in
        [&b"\0\xff\xfe\r\n"[..], b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"HELLO \r\n", b"HELLO {\"v\":3}\r\n", b"\r\n"]
    {
        let mut client = Raw::connect(server.address).await;
        client.read().await;
        client.0.get_mut().write_all(bytes).await.unwrap();
        assert!(client.read().await.starts_with("-ERR Invalid "), "{bytes:?}");
    }
    let mut client = server.client().await;
    let deep =
        format!("PUSH {{\"jid\":\"12345678\",\"jobtype\":\"t\",\"args\":{}{}}}", "[".repeat(5_000), "]".repeat(5_000));
    assert_eq!(client.send(&deep).await, "-ERR Invalid PUSH: nested deeper than 100");
    assert!(
        client
            .send("PUSH {\"jid\":\"12345678\",\"jobtype\":\"t\",\"args\":[\"\\u0000\"]}")
            .await
            .starts_with("-ERR invalid args")
    );
    let large = json!({"jid": "12345678", "jobtype": "t", "args": ["a".repeat(2_000_000)]});
    assert!(client.push(large).await.starts_with("-ERR invalid args"));
    assert_eq!(client.push(job("12345678", "t")).await, "OK");
}

#[test_support::test]
async fn a_database_that_is_away_is_an_error_and_the_server_goes_on_when_it_is_back(server: Server) {
    let mut client = server.worker("w").await;
    server.database.execute("ALTER TABLE {schema}.job RENAME TO away").await;
    let refused = client.push(job("12345678", "t")).await;
    let text = "-ERR The database does not answer, or refused the command: the server's log says more";
    assert_eq!((refused.as_str(), client.send("FETCH default").await.as_str()), (text, text));
    server.database.execute("ALTER TABLE {schema}.away RENAME TO job").await;
    assert_eq!(client.push(job("12345678", "t")).await, "OK");
    assert_eq!(client.fetch("default").await["jid"], "12345678");
}

#[test_support::test]
async fn random_bytes_stop_neither_a_stranger_nor_a_client_beside_it(server: Server) {
    let mut other = server.client().await;
    for number in 0..60 {
        let mut dice = Dice::new(39, number);
        let bytes: Vec<u8> = (0..=dice.below(3_000)).map(|_| dice.below(256) as u8).collect();
        let mut client = if number % 2 == 0 { server.client().await } else { Raw::connect(server.address).await };
        // The server may have closed the connection meanwhile.
        let _ = client.0.get_mut().write_all(&bytes).await;
        let _ = client.0.get_mut().shutdown().await;
        assert_eq!(other.push(job(&format!("job-{number:06}"), "t")).await, "OK");
        let _ = client.0.read_to_end(&mut Vec::new()).await;
    }
    assert_eq!(server.database.number("SELECT count(*) FROM {schema}.job").await, 60);
}

/// More than the buffers of both ends of a connection hold.
const MUCH: usize = 64 * 1024 * 1024;

#[test_support::test]
async fn a_database_that_is_slow_slows_a_client_that_does_not_wait_for_its_replies(server: Server) {
    let mut client = server.client().await;
    let mut holder = server.database.pool().begin().await.unwrap();
    sqlx::query(server.database.sql("LOCK TABLE {schema}.job IN ACCESS EXCLUSIVE MODE"))
        .execute(&mut *holder)
        .await
        .unwrap();
    let line = |number: usize| {
        let job = json!({"jid": format!("job-{number:08}"), "jobtype": "t", "args": ["a".repeat(10_000)]});
        format!("PUSH {job}\r\n")
    };
    // The server reads the next command when the one before it is answered, so its memory does not grow.
    let (mut written, mut sent) = (0, 0);
    while written < MUCH {
        let line = line(sent);
        let writing = client.0.get_mut().write_all(line.as_bytes());
        if tokio::time::timeout(Duration::from_millis(500), writing).await.is_err() {
            break;
        }
        written += line.len();
        sent += 1;
    }
    assert!(written < MUCH, "the server took {written} bytes");
    drop(holder);
    for number in 0..sent {
        assert_eq!(client.read().await, "OK", "{number}");
    }
    assert_eq!(server.database.number("SELECT count(*) FROM {schema}.job").await, sent as i64);
}
