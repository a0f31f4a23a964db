//! `uniqueue serve`, over real sockets.

mod access;
mod checks;
mod faktory;
mod life;
mod limits;
mod ojs;
mod speed;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use tempfile::TempDir;
use test_support::prelude::*;

use crate::support::{Foreground, migrated, run, texts, uniqueue};

/// The longest that a test waits for an answer.
const WAIT: Duration = Duration::from_secs(60);

/// An answer: its status, its head in lower case, and its body.
#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

/// A server on a port of its own.
struct Server {
    foreground: Foreground,
    address: String,
}

impl Server {
    async fn start(arguments: &[&str]) -> Self {
        let url = migrated("uniqueue").await;
        Self::start_on(&[arguments, &["--database-url", &url]].concat())
    }

    fn start_on(arguments: &[&str]) -> Self {
        let mut command = uniqueue();
        command.args(["serve", "--json", "--listen", "127.0.0.1:0"]).args(arguments);
        Self::of(Foreground::start(&mut command))
    }

    fn of(foreground: Foreground) -> Self {
        let url = foreground.object["url"].as_str().unwrap().to_owned();
        let address = url.split("://").nth(1).unwrap().trim_end_matches('/').to_owned();
        Self { foreground, address }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(WAIT)).unwrap();
        stream
    }

    /// Reads a path, with these lines of headers.
    fn get(&self, path: &str, headers: &[&str]) -> Answer {
        exchange(&mut self.connect(), path, headers)
    }

    /// Sends a form, with these lines of headers. Returns the status.
    fn post(&self, path: &str, form: &str, headers: &[&str]) -> u16 {
        let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        let mut stream = self.connect();
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{form}",
            form.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap().parse().unwrap()
    }
}

fn exchange(stream: &mut (impl Read + Write), path: &str, headers: &[&str]) -> Answer {
    let host = if headers.iter().any(|header| header.starts_with("Host:")) { "" } else { "Host: localhost\r\n" };
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let request = format!("GET {path} HTTP/1.1\r\n{host}{headers}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    // A TLS peer may close without a farewell.
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Answer { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
}

/// The line of a user with a hashed password.
fn hashed(user: &str, password: &str) -> String {
    let mut command = uniqueue();
    command.args(["serve", "--hash-password", user]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(format!("{password}\n").as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn file(directory: &TempDir, name: &str, text: &str) -> String {
    let path = directory.path().join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// `user:password` as a header. The test's values have lengths that need no padding or a known one.
fn basic(user_and_password: &str) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in user_and_password.as_bytes().chunks(3) {
        let bits = (0..3).fold(0_u32, |bits, index| bits << 8 | u32::from(*chunk.get(index).unwrap_or(&0)));
        for place in 0..4 {
            match place <= chunk.len() {
                true => text.push(ALPHABET[(bits >> (18 - 6 * place) & 63) as usize] as char),
                false => text.push('='),
            }
        }
    }
    format!("Authorization: Basic {text}")
}

/// What a client does until its server is gone. It says when it has worked. Returns the inserts and the results that the server
/// has acknowledged.
type Load = fn(&str, usize, &AtomicBool) -> (Vec<String>, Vec<String>);

/// Kills a server while four clients work. No acknowledged insert is lost, and no acknowledged result. `ids` selects the ids of
/// the jobs, as the clients know them.
async fn kill_at_work(server: Server, address: &str, load: Load, url: &str, ids: &str) {
    let is_busy = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..4)
        .map(|name| {
            let (address, is_busy) = (address.to_owned(), Arc::clone(&is_busy));
            std::thread::spawn(move || load(&address, name, &is_busy))
        })
        .collect();
    eventually!(is_busy.load(Ordering::Relaxed), "no client has worked jobs");
    server.foreground.stop("KILL");
    let (mut inserted, mut completed) = (BTreeSet::new(), BTreeSet::new());
    for client in clients {
        let (of_inserts, of_results) = client.join().unwrap();
        inserted.extend(of_inserts);
        completed.extend(of_results);
    }
    let all: BTreeSet<_> = texts(url, ids).await.into_iter().collect();
    assert!(inserted.len() > 60 && inserted.is_subset(&all), "{:?}", inserted.difference(&all));
    let done: BTreeSet<_> = texts(url, &format!("{ids} WHERE state = 'completed'")).await.into_iter().collect();
    assert!(completed.len() > 20 && completed.is_subset(&done), "{:?}", completed.difference(&done));
}

fn refusal(arguments: &[&str]) -> String {
    let output = run(&[&["serve"], arguments].concat());
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
    text
}
