//! `uniqueue serve --ojs`: its own address, and the credentials of the dashboard.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use sqlx::raw_sql;
use test_support::prelude::*;

use super::{Server, WAIT, basic, file, hashed, kill_at_work, refusal};
use crate::support::{directory, migrated, texts};

/// Sends a request to a door. Returns the status and the body.
fn ask(address: &str, method: &str, path: &str, headers: &[&str], body: &str) -> (u16, Value) {
    try_ask(address, method, path, headers, body).unwrap()
}

/// The same to a door that may be killed meanwhile.
fn try_ask(address: &str, method: &str, path: &str, headers: &[&str], body: &str) -> io::Result<(u16, Value)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(WAIT))?;
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes())?;
    read_answer(&mut stream)
}

fn read_answer(stream: &mut TcpStream) -> io::Result<(u16, Value)> {
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Ok((status, serde_json::from_str(body).map_err(|_| io::ErrorKind::UnexpectedEof)?))
}

pub(super) fn address_of(server: &Server) -> String {
    let url = server.foreground.object["ojs"].as_str().unwrap();
    url.split("://").nth(1).unwrap().trim_end_matches('/').to_owned()
}

#[tokio::test]
async fn open_job_spec_is_spoken_beside_the_dashboard_with_its_credentials() {
    const ADMIN: &str = "Authorization: Bearer 0123456789abcdef";
    const READER: &str = "Authorization: Bearer fedcba9876543210";
    let files = directory();
    let tokens = file(&files, "tokens", "admin:0123456789abcdef\nreader:fedcba9876543210:read\n");
    let server = Server::start(&["--ojs", "127.0.0.1:0", "--bearer-token", &tokens]).await;
    let door = address_of(&server);
    let job = json!({ "type": "email.send", "args": ["a@example.com"] }).to_string();
    let enqueue = |headers: &[&str]| ask(&door, "POST", "/ojs/v1/jobs", headers, &job);
    assert_eq!(ask(&door, "GET", "/ojs/v1/health", &[], "").0, 200);
    assert_eq!((enqueue(&[]).0, enqueue(&[READER]).0), (401, 403));
    let (status, answer) = enqueue(&[ADMIN]);
    assert_eq!((status, &answer["job"]["state"]), (201, &json!("available")));
    let path = format!("/ojs/v1/jobs/{}", answer["job"]["id"].as_str().unwrap());
    assert_eq!(ask(&door, "GET", &path, &[READER], "").1["job"]["type"], "email.send");
    // The dashboard shows the same job.
    let page = server.get(&path.replace("/ojs/v1", ""), &[ADMIN]);
    assert!(page.status == 200 && page.body.contains("email.send"), "{page:?}");
    // The maintenance is the door's own.
    let later = json!({ "type": "later", "args": [], "options": { "queue": "later", "scheduled_at": "+PT0.2S" } });
    assert_eq!(ask(&door, "POST", "/ojs/v1/jobs", &[ADMIN], &later.to_string()).0, 201);
    let began = std::time::Instant::now();
    while ask(&door, "POST", "/ojs/v1/workers/fetch", &[ADMIN], r#"{"queues": ["later"]}"#).1["jobs"] == json!([]) {
        assert!(began.elapsed() < WAIT, "the job is not promoted");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(server.foreground.stop("TERM").code(), Some(0));
    assert!(TcpStream::connect(&door).is_err());
}

#[test]
fn a_door_that_other_machines_reach_needs_credentials() {
    let said = refusal(&["--listen", "127.0.0.1:0", "--ojs", "0.0.0.0:0"]);
    assert!(said.contains("nothing asks for credentials: 0.0.0.0:0"), "{said}");
}

#[tokio::test]
async fn refusals_of_credentials_and_limits_have_the_body_of_open_job_spec() {
    let files = directory();
    let users = file(&files, "users", &hashed("anna", "tea at five"));
    let options = ["--ojs", "127.0.0.1:0", "--basic-auth", &users, "--request-timeout", "500ms"];
    let server = Server::start(&options).await;
    let door = address_of(&server);
    let list = |headers: &[&str]| ask(&door, "GET", "/ojs/v1/queues", headers, "");
    let (status, answer) = list(&[]);
    assert_eq!((status, &answer["error"]["code"]), (401, &json!("unauthenticated")), "{answer}");
    // A body that does not come whole.
    let mut slow = TcpStream::connect(&door).unwrap();
    let right = basic("anna:tea at five");
    let head = "POST /ojs/v1/jobs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 100\r\n";
    write!(slow, "{head}{right}\r\n\r\n{{").unwrap();
    let (status, answer) = read_answer(&mut slow).unwrap();
    assert_eq!((status, &answer["error"]["retryable"]), (408, &json!(true)), "{answer}");
    let mut last = (0, Value::Null);
    for number in 0..14 {
        last = list(&[&basic(&format!("anna:tea at {number:02}"))]);
    }
    let (status, answer) = last;
    let error = &answer["error"];
    assert_eq!((status, &error["code"], &error["retryable"]), (429, &json!("rate_limited"), &json!(true)), "{answer}");
    assert!(error["request_id"].as_str().unwrap().starts_with("req_") && error["docs_url"].is_string(), "{answer}");
    assert_eq!(list(&[&right]).0, 200, "a password that is known to be right is not delayed");
    // The dashboard keeps its own words.
    assert_eq!(server.get("/", &[]).body, "credentials are needed\n");
}

/// The reservation in milliseconds of jobs without a reservation of their own, and of jobs with one.
const RESERVED: u64 = 3_000;
const OWN: u64 = 4_000;

/// The ids of an answer's jobs.
fn ids(answer: &Value) -> Vec<String> {
    let jobs = answer["jobs"].as_array().or(answer["workflow"]["steps"].as_array());
    let id =
        |job: &Value| job["id"].as_str().filter(|id| id.len() == 36).or(job["job_id"].as_str()).unwrap().to_owned();
    jobs.map_or_else(|| vec![id(&answer["job"])], |jobs| jobs.iter().map(id).collect())
}

/// Fetches jobs. Returns their ids.
fn fetch(door: &str, worker: &str) -> io::Result<Vec<String>> {
    let body = json!({ "queues": ["default"], "worker_id": worker, "count": 2, "visibility_timeout_ms": RESERVED });
    let (status, answer) = try_ask(door, "POST", "/ojs/v1/workers/fetch", &[], &body.to_string())?;
    assert_eq!(status, 200, "{answer}");
    Ok(ids(&answer))
}

/// Acknowledges a job. Returns whether that counted.
fn ack(door: &str, worker: &str, id: &str) -> io::Result<bool> {
    let body = json!({ "job_id": id, "worker_id": worker, "result": id });
    Ok(try_ask(door, "POST", "/ojs/v1/workers/ack", &[], &body.to_string())?.0 == 200)
}

/// Enqueues, fetches and acknowledges until the door is gone. Returns the acknowledged inserts, and the acknowledged results.
fn load(door: &str, name: usize, is_busy: &AtomicBool) -> (Vec<String>, Vec<String>) {
    let (mut enqueued, mut completed) = (Vec::new(), Vec::new());
    let (worker, job) = (format!("w{name}"), json!({ "type": "t", "args": [] }));
    let mut work = || -> io::Result<()> {
        for number in 0.. {
            let own = json!({ "type": "t", "args": [], "options": { "visibility_timeout_ms": OWN } });
            let (path, body) = match number % 3 {
                0 => ("/ojs/v1/jobs", own),
                1 => ("/ojs/v1/jobs/batch", json!({ "jobs": [job, own] })),
                _ => ("/ojs/v1/workflows", json!({ "type": "chain", "steps": [job, job] })),
            };
            let (status, answer) = try_ask(door, "POST", path, &[], &body.to_string())?;
            assert_eq!(status, 201, "{answer}");
            enqueued.extend(ids(&answer));
            for id in fetch(door, &worker)? {
                if ack(door, &worker, &id)? {
                    completed.push(id);
                }
            }
            is_busy.store(number > 20, Ordering::Relaxed);
        }
        Ok(())
    };
    let _ = work();
    (enqueued, completed)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_acknowledged_job_is_lost_or_stuck_when_the_door_is_killed() {
    let url = migrated("uniqueue").await;
    let options = ["--ojs", "127.0.0.1:0", "--database-url", &url];
    let server = Server::start_on(&options);
    let door = address_of(&server);
    kill_at_work(server, &door, load, &url, "SELECT id::text FROM uniqueue.job").await;
    // Each fetched job is reserved for its own time, wherever the door was when it died.
    let longer = format!(
        "SELECT id::text FROM uniqueue.job WHERE state = 'running' AND (reserved_until IS NULL OR reserved_until - attempted_at > interval '1 ms'
             * (coalesce((meta #>> '{{ojs.door,visibility_timeout_ms}}')::integer, {RESERVED}) + 500))"
    );
    assert_eq!(texts(&url, &longer).await, [""; 0]);
    // Another door continues. Jobs that were out come back when their reservations end, one by one.
    let server = Server::start_on(&options);
    let door = address_of(&server);
    test_support::eventually!(
        let left = texts(&url, "SELECT id::text FROM uniqueue.job WHERE state <> 'completed'").await;
        {
            for id in fetch(&door, "next").unwrap() {
                assert!(ack(&door, "next", &id).unwrap());
            }
            left.is_empty()
        },
        "{left:?}"
    );
}

#[tokio::test]
async fn silent_connections_displace_no_probe_of_the_door() {
    let server = Server::start(&["--ojs", "127.0.0.1:0", "--max-clients", "4", "--request-timeout", "1h"]).await;
    let door = address_of(&server);
    let silent: Vec<_> = (0..60)
        .map(|_| {
            let mut stream = TcpStream::connect(&door).unwrap();
            stream.write_all(b"POST /ojs/v1/jobs HTTP/1.1\r\n").unwrap();
            stream
        })
        .collect();
    assert_eq!(ask(&door, "GET", "/ojs/v1/health", &[], "").0, 200);
    assert_eq!(ask(&door, "POST", "/ojs/v1/jobs", &[], r#"{"type":"a","args":[]}"#).0, 201);
    drop(silent);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_ends_the_requests_that_are_under_way() {
    let url = migrated("uniqueue").await;
    let server = Server::start_on(&["--ojs", "127.0.0.1:0", "--database-url", &url]);
    let door = address_of(&server);
    let mut holder = PgConnection::connect(&url).await.unwrap();
    raw_sql("BEGIN; LOCK TABLE uniqueue.job IN ACCESS EXCLUSIVE MODE").execute(&mut holder).await.unwrap();
    let to = door.clone();
    let request =
        tokio::task::spawn_blocking(move || ask(&to, "POST", "/ojs/v1/jobs", &[], r#"{"type":"a","args":[]}"#));
    let waits = "SELECT pid::text FROM pg_stat_activity
        WHERE wait_event_type = 'Lock' AND datname = current_database() AND query LIKE '%insert%'";
    test_support::eventually!(!texts(&url, waits).await.is_empty(), "the insert does not wait");
    let stopping = tokio::task::spawn_blocking(move || server.foreground.stop("TERM"));
    test_support::eventually!(TcpStream::connect(&door).is_err(), "the door still listens");
    raw_sql("COMMIT").execute(&mut holder).await.unwrap();
    assert_eq!(request.await.unwrap().0, 201);
    assert_eq!(stopping.await.unwrap().code(), Some(0));
    assert_eq!(texts(&url, "SELECT kind FROM uniqueue.job").await, ["a"]);
}
