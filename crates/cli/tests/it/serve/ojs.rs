//! `uniqueue serve --ojs`: its own address, and the credentials of the dashboard.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use super::{Server, WAIT, file, refusal};
use crate::support::directory;

/// Sends a request to a door. Returns the status and the body.
fn ask(address: &str, method: &str, path: &str, headers: &[&str], body: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(WAIT)).unwrap();
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let body = answer.split_once("\r\n\r\n").unwrap().1;
    (status, serde_json::from_str(body).unwrap_or_default())
}

fn address_of(server: &Server) -> String {
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
