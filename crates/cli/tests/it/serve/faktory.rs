//! `uniqueue serve --faktory`: its credentials, and a kill in the middle of everything.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use sha2::{Digest, Sha256};
use test_support::prelude::*;

use super::{Server, WAIT, file, kill_at_work, refusal};
use crate::support::{directory, execute, migrated, texts};

const TOKEN: &str = "correct-horse-battery";

/// A client that sends lines. An error where the server has gone.
pub(super) struct Client(BufReader<TcpStream>);

impl Client {
    pub(super) fn connect(address: &str, token: Option<&str>) -> std::io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(WAIT))?;
        let mut client = Self(BufReader::new(stream));
        let hi = client.line()?;
        let hash = token.map(|token| hash(token, &hi)).unwrap_or_default();
        let answer = client.send(&format!("HELLO {{\"v\":2,\"wid\":\"worker-1\",\"pwdhash\":\"{hash}\"}}"))?;
        if answer == "+OK" { Ok(client) } else { Err(std::io::Error::other(answer)) }
    }

    fn line(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        match self.0.read_line(&mut line)? {
            0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line.trim_end().to_owned()),
        }
    }

    pub(super) fn send(&mut self, line: &str) -> std::io::Result<String> {
        self.0.get_mut().write_all(format!("{line}\r\n").as_bytes())?;
        self.line()
    }

    fn fetch(&mut self) -> std::io::Result<Option<String>> {
        self.fetch_from("default")
    }

    /// The id of the next job. None: there was none for two seconds.
    pub(super) fn fetch_from(&mut self, queue: &str) -> std::io::Result<Option<String>> {
        if self.send(&format!("FETCH {queue}"))? == "$-1" {
            return Ok(None);
        }
        let job: serde_json::Value = serde_json::from_str(&self.line()?)?;
        Ok(Some(job["jid"].as_str().unwrap().to_owned()))
    }
}

fn hash(token: &str, hi: &str) -> String {
    let hi: serde_json::Value = serde_json::from_str(hi.strip_prefix("+HI ").unwrap()).unwrap();
    let mut digest = Sha256::digest(format!("{token}{}", hi["s"].as_str().unwrap()));
    for _ in 1..hi["i"].as_u64().unwrap() {
        digest = Sha256::digest(digest);
    }
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn address(server: &Server) -> String {
    let url = server.foreground.object["faktory"].as_str().unwrap();
    url.split("://").nth(1).unwrap().to_owned()
}

#[tokio::test]
async fn the_password_of_a_client_of_faktory_is_a_token() {
    let files = directory();
    let tokens = file(&files, "tokens", &format!("ruby:{TOKEN}\nprobe:{TOKEN}-read:read\n"));
    let server = Server::start(&["--faktory", "127.0.0.1:0", "--bearer-token", &tokens]).await;
    let address = address(&server);
    let mut client = Client::connect(&address, Some(TOKEN)).unwrap();
    let job = "PUSH {\"jid\":\"12345678\",\"jobtype\":\"t\",\"args\":[]}";
    assert_eq!(client.send(job).unwrap(), "+OK");
    let mut probe = Client::connect(&address, Some(&format!("{TOKEN}-read"))).unwrap();
    assert_eq!(probe.send(job).unwrap(), "-ERR This password may only read");
    let refused = Client::connect(&address, Some("wrong")).err().unwrap();
    assert_eq!(refused.to_string(), "-ERR Invalid password");
    let jobs = server.get("/jobs", &[&format!("Authorization: Bearer {TOKEN}")]);
    assert!(jobs.status == 200 && jobs.body.contains("available"), "{jobs:?}");
    assert_eq!(server.foreground.stop("TERM").code(), Some(0));
    assert_eq!(client.send("INFO").err().map(|_| ()), Some(()));
}

#[test]
fn an_address_for_clients_of_faktory_needs_tokens_where_others_reach_it() {
    let text = refusal(&["--faktory", "0.0.0.0:0"]);
    assert!(text.contains("0.0.0.0:0") && text.contains("--bearer-token"), "{text}");
    refusal(&["--faktory", "127.0.0.1:0", "--read-only"]);
}

/// Pushes, fetches and acknowledges until the server is gone. Returns the acknowledged pushes, and the acknowledged results.
fn load(address: &str, name: usize, is_busy: &AtomicBool) -> (Vec<String>, Vec<String>) {
    let (mut pushed, mut completed) = (Vec::new(), Vec::new());
    let mut work = || -> std::io::Result<()> {
        let mut client = Client::connect(address, None)?;
        for number in 0.. {
            let jid = format!("job-{name}-{number:06}");
            if client.send(&format!("PUSH {{\"jid\":\"{jid}\",\"jobtype\":\"t\",\"args\":[]}}"))? == "+OK" {
                pushed.push(jid);
            }
            // Every third job waits.
            if number % 3 != 0
                && let Some(jid) = client.fetch()?
            {
                if client.send(&format!("ACK {{\"jid\":\"{jid}\"}}"))? == "+OK" {
                    completed.push(jid);
                }
                is_busy.store(number > 20, Ordering::Relaxed);
            }
        }
        Ok(())
    };
    let _ = work();
    (pushed, completed)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_acknowledged_job_is_lost_or_stuck_when_the_server_is_killed() {
    let url = migrated("uniqueue").await;
    let options = ["--faktory", "127.0.0.1:0", "--database-url", &url];
    let server = Server::start_on(&options);
    let (of_first, ids) = (address(&server), "SELECT meta #>> '{faktory,jid}' FROM uniqueue.job");
    kill_at_work(server, &of_first, load, &url, ids).await;
    let stuck = format!("{ids} WHERE state = 'running' AND reserved_until IS NULL");
    assert_eq!(texts(&url, &stuck).await, [""; 0]);
    // Another server continues. A fetched job comes back when its reservation ends.
    execute(&url, "UPDATE uniqueue.job SET reserved_until = now() WHERE state = 'running'").await;
    let server = Server::start_on(&options);
    let address = address(&server);
    let drained = tokio::task::spawn_blocking(move || {
        let mut client = Client::connect(&address, None).unwrap();
        while let Some(jid) = client.fetch().unwrap() {
            assert_eq!(client.send(&format!("ACK {{\"jid\":\"{jid}\"}}")).unwrap(), "+OK");
        }
        client
    });
    let mut client = drained.await.unwrap();
    // Suspects come back one by one, with a wait.
    test_support::eventually!(
        let left = texts(&url, "SELECT state::text FROM uniqueue.job WHERE state <> 'completed'").await;
        {
            if let Some(jid) = client.fetch().unwrap() {
                client.send(&format!("ACK {{\"jid\":\"{jid}\"}}")).unwrap();
            }
            left.is_empty()
        },
        "{left:?}"
    );
}
