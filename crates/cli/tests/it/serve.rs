//! `uniqueue serve`, over real sockets.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::support::{Foreground, database, directory, run, uniqueue};

/// The longest that a test waits for an answer.
const WAIT: Duration = Duration::from_secs(60);

const TOKEN: &str = "0123456789abcdef";

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
        let url = database().await;
        assert!(run(&["migrate", "--database-url", &url]).status.success());
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

/// Runs `--hash-password` on a terminal, types these lines, each when its prompt is there and the terminal shows nothing,
/// and returns the screen. `None`: there is no util-linux here.
fn typed(user: &str, lines: [&str; 2]) -> Option<String> {
    let version = Command::new("script").arg("--version").output().ok()?;
    if !String::from_utf8_lossy(&version.stdout).contains("util-linux") {
        return None;
    }
    let files = directory();
    let tty = files.path().join("tty");
    let line = format!("tty > {}; {} serve --hash-password {user}", tty.display(), env!("CARGO_BIN_EXE_uniqueue"));
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).env("TERM", "xterm");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut screen = Vec::new();
    let mut part = [0; 1_024];
    for (line, prompt) in lines.into_iter().zip(["not shown", "again"]) {
        while !String::from_utf8_lossy(&screen).contains(prompt) {
            let read = output.read(&mut part).unwrap();
            assert_ne!(read, 0, "{}", String::from_utf8_lossy(&screen));
            screen.extend(&part[..read]);
        }
        let terminal = fs::read_to_string(&tty).unwrap();
        let began = std::time::Instant::now();
        loop {
            let modes = Command::new("stty").args(["-F", terminal.trim(), "-a"]).output().unwrap();
            if String::from_utf8_lossy(&modes.stdout).split_whitespace().any(|mode| mode == "-echo") {
                break;
            }
            assert!(began.elapsed() < WAIT, "the terminal shows what is typed");
            std::thread::sleep(Duration::from_millis(10));
        }
        input.write_all(format!("{line}\n").as_bytes()).unwrap();
    }
    // On Linux the read of a terminal that is gone fails.
    let _ = output.read_to_end(&mut screen);
    child.wait().unwrap();
    Some(String::from_utf8_lossy(&screen).into_owned())
}

#[test]
fn a_terminal_does_not_show_the_password_and_asks_twice() {
    let Some(screen) = typed("anna", ["tea at five", "tea at five"]) else {
        test_support::tools::lacks("script", "util-linux, to make a terminal");
        return;
    };
    assert!(screen.contains("anna:$argon2id$") && !screen.contains("tea"), "{screen}");
    let screen = typed("anna", ["tea at five", "tea at six"]).unwrap();
    assert!(screen.contains("the two passwords differ") && !screen.contains("tea"), "{screen}");
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

fn refusal(arguments: &[&str]) -> String {
    let output = run(&[&["serve"], arguments].concat());
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
    text
}

#[test]
fn an_address_that_others_reach_needs_credentials() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80"] {
        let text = refusal(&["--listen", address]);
        assert!(text.contains(address) && text.contains("hint: give --basic-auth"), "{text}");
    }
    let text = refusal(&["--trusted-header", "X-User"]);
    assert!(text.contains("every client could send the header") && text.contains("--trusted-proxy"), "{text}");
    refusal(&["--trusted-header", "X-User", "--trusted-proxy", "10.0.0.0/33"]);
    refusal(&["--trusted-header", "X User", "--trusted-proxy", "10.0.0.0/8"]);
    refusal(&["--trusted-proxy", "10.0.0.0/8"]);
    refusal(&["--tls-cert", "cert.pem"]);
    refusal(&["--socket", "a", "--listen", "127.0.0.1:1"]);
}

#[test]
fn a_file_of_credentials_that_cannot_be_meant_is_refused_and_never_shown() {
    let files = directory();
    let secret = "correct-horse-battery";
    for (option, text, problem) in [
        ("--basic-auth", format!("anna:{secret}"), "not hashed"),
        ("--basic-auth", format!("# anna\n\n{secret}"), "no colon: line 3"),
        ("--basic-auth", format!(":{secret}"), "a user's name"),
        ("--basic-auth", "# no user yet\n".to_owned(), "no user"),
        ("--bearer-token", "anna:correct-horse".to_owned(), "shorter than 16"),
        ("--bearer-token", format!("anna:{secret}\nanna:{secret}2"), "twice: line 2"),
        ("--bearer-token", format!("anna:{secret}:reed"), "not the word read: line 1"),
        ("--basic-auth", format!("anna:{secret}:read"), "not hashed"),
    ] {
        let path = file(&files, "credentials", &text);
        let told = refusal(&[option, &path]);
        assert!(told.contains(problem), "{told}");
        assert!(!told.contains("correct-horse"), "{told}");
    }
    let told = refusal(&["--basic-auth", "/no/such/file"]);
    assert!(told.contains("cannot read /no/such/file"), "{told}");
    let mut short = uniqueue();
    short.args(["serve", "--hash-password", "anna"]).stdin(Stdio::null());
    assert_eq!(short.output().unwrap().status.code(), Some(2));
}

#[tokio::test]
async fn on_loopback_pages_need_no_credentials_and_foreign_names_are_refused() {
    let server = Server::start(&["--host", "queue.example.com"]).await;
    assert_eq!(server.get("/", &[]).status, 200);
    assert_eq!(server.get("/", &["Host: queue.example.com"]).status, 200);
    assert_eq!(server.get("/", &["Host: evil.example"]).status, 421);
    assert_eq!(server.get("/health/ready", &[]).status, 200);
    let metrics = server.get("/metrics", &[]);
    assert!(metrics.body.contains("uniqueue_build_info"), "{metrics:?}");
}

#[tokio::test]
async fn a_user_needs_the_password_that_the_file_has() {
    let files = directory();
    let users = file(&files, "users", &[hashed("anna", "tea at five"), hashed("ben", "no tea at all")].concat());
    assert!(!fs::read_to_string(&users).unwrap().contains("tea"));
    let server = Server::start(&["--basic-auth", &users]).await;
    let refused = server.get("/", &[]);
    assert_eq!(refused.status, 401);
    assert!(refused.head.contains("www-authenticate: basic realm=\"uniqueue\""), "{refused:?}");
    for wrong in ["anna:tea at six", "ben:tea at five", "anna:", "cleo:tea at five", ":tea at five", "anna"] {
        assert_eq!(server.get("/", &[&basic(wrong)]).status, 401, "{wrong}");
    }
    // The second request is known by its digest.
    for _ in 0..2 {
        assert_eq!(server.get("/", &[&basic("anna:tea at five")]).status, 200);
        assert_eq!(server.get("/", &[&basic("anna:tea at six")]).status, 401);
    }
    for header in
        ["Authorization: Basic", "Authorization: Basic ?", "Authorization: Bearer tea at five", "X-User: anna"]
    {
        assert_eq!(server.get("/", &[header]).status, 401, "{header}");
    }
    assert_eq!(server.get("/metrics", &[]).status, 401);
    assert_eq!(server.get("/assets/0/app.css", &[]).status, 401);
    assert_eq!(server.get("/health/live", &[]).status, 200);
    assert_eq!(server.get("/health/live/../../metrics", &[]).status, 401);
}

#[tokio::test]
async fn a_script_needs_a_token_of_the_file() {
    let files = directory();
    let tokens = file(&files, "tokens", &format!("prometheus:{TOKEN}\n"));
    let server = Server::start(&["--bearer-token", &tokens]).await;
    assert_eq!(server.get("/metrics", &[&format!("Authorization: Bearer {TOKEN}")]).status, 200);
    for wrong in [&TOKEN[1..], "prometheus", "", &format!("{TOKEN}0")] {
        let refused = server.get("/metrics", &[&format!("Authorization: Bearer {wrong}")]);
        assert_eq!(refused.status, 401, "{wrong}");
        assert!(refused.head.contains("www-authenticate: bearer"), "{refused:?}");
    }
    assert_eq!(server.get("/metrics", &[&basic(&format!("prometheus:{TOKEN}"))]).status, 401);
}

#[tokio::test]
async fn a_user_and_a_token_can_have_the_right_to_read_alone() {
    let files = directory();
    let users = format!("{}:read\n{}", hashed("anna", "tea at five").trim(), hashed("ben", "tea at five"));
    let users = file(&files, "users", &users);
    let tokens = file(&files, "tokens", &format!("prometheus:{TOKEN}:read\nscript:{TOKEN}0\n"));
    let server = Server::start(&["--basic-auth", &users, "--bearer-token", &tokens]).await;
    let token = |token: &str| format!("Authorization: Bearer {token}");
    for (headers, may_change) in [
        (basic("anna:tea at five"), false),
        (basic("ben:tea at five"), true),
        // A password that is remembered.
        (basic("anna:tea at five"), false),
        (token(TOKEN), false),
        (token(&format!("{TOKEN}0")), true),
    ] {
        for path in ["/", "/metrics"] {
            assert_eq!(server.get(path, &[&headers]).status, 200, "{headers} {path}");
        }
        for (path, form) in [("/queues/change", "queue=a&verb=pause"), ("/insert", "kind=a&verb=insert")] {
            let expected = if may_change { 303 } else { 403 };
            assert_eq!(server.post(path, form, &[&headers]), expected, "{headers} {path}");
        }
    }
    assert_eq!(server.get("/metrics", &[&token(&format!("{TOKEN}:read"))]).status, 401);
}

#[tokio::test]
async fn a_header_counts_only_from_the_proxy() {
    let proxied = Server::start(&["--trusted-header", "X-User", "--trusted-proxy", "127.0.0.0/8"]).await;
    assert_eq!(proxied.get("/", &["X-User: anna"]).status, 200);
    assert_eq!(proxied.get("/", &["X-User: anna", "X-User: root"]).status, 401);
    assert_eq!(proxied.get("/", &["X-User: "]).status, 401);
    assert_eq!(proxied.get("/", &[]).status, 401);
    let elsewhere = Server::start(&["--trusted-header", "X-User", "--trusted-proxy", "10.0.0.0/8"]).await;
    assert_eq!(elsewhere.get("/", &["X-User: anna"]).status, 401);
}

#[tokio::test]
async fn with_a_certificate_it_speaks_tls_only() {
    let files = directory();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let cert = file(&files, "cert.pem", &made.cert.pem());
    let key = file(&files, "key.pem", &made.signing_key.serialize_pem());
    let server = Server::start(&["--tls-cert", &cert, "--tls-key", &key]).await;
    assert!(server.foreground.object["url"].as_str().unwrap().starts_with("https://"));
    // A connection that never begins its handshake holds up no other.
    let _silent = server.connect();
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(config.with_root_certificates(roots).with_no_client_auth());
    let client = ClientConnection::new(config, ServerName::try_from("localhost").unwrap()).unwrap();
    let answer = exchange(&mut StreamOwned::new(client, server.connect()), "/", &[]);
    assert_eq!(answer.status, 200);
    assert_ne!(server.get("/", &[]).status, 200);
    let told = refusal(&["--tls-cert", &key, "--tls-key", &cert]);
    assert!(told.contains("hint: both files are PEM"), "{told}");
}

#[tokio::test]
async fn on_a_socket_the_mode_says_who_connects() {
    let files = directory();
    let path = files.path().join("http");
    let socket = path.to_str().unwrap();
    // Left behind by a process that died.
    drop(UnixListener::bind(&path).unwrap());
    let url = database().await;
    assert!(run(&["migrate", "--database-url", &url]).status.success());
    let mut command = uniqueue();
    command.args(["serve", "--json", "--socket", socket, "--trusted-header", "X-User", "--database-url", &url]);
    let server = Foreground::start(&mut command);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
    let connect = || UnixStream::connect(&path).unwrap();
    assert_eq!(exchange(&mut connect(), "/", &["X-User: anna"]).status, 200);
    assert_eq!(exchange(&mut connect(), "/", &[]).status, 401);
    let told = refusal(&["--socket", socket, "--database-url", &url]);
    assert!(told.contains("another process listens"), "{told}");
    assert_eq!(server.stop("TERM").code(), Some(0));
    let told = refusal(&["--socket", &file(&files, "plain", ""), "--database-url", &url]);
    assert!(told.contains("cannot listen"), "{told}");
}

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

/// What thirty hashes at once would take beside the process itself, of which each takes 19 MiB.
const MOST_MEMORY: u64 = 200 * 1_024;

#[tokio::test]
async fn thirty_wrong_passwords_at_once_take_the_memory_of_two_and_delay_their_peer() {
    let files = directory();
    let users = file(&files, "users", &hashed("anna", "tea at five"));
    let url = database().await;
    assert!(run(&["migrate", "--database-url", &url]).status.success());
    let log = files.path().join("log");
    let mut command = uniqueue();
    command.args(["serve", "--json", "--port", "0", "--basic-auth", &users, "--database-url", &url]);
    command.stderr(fs::File::create(&log).unwrap());
    let server = Server::of(Foreground::start(&mut command));
    assert_eq!(server.get("/", &[&basic("anna:tea at five")]).status, 200);
    let answers: Vec<_> = std::thread::scope(|scope| {
        let ask = |number: usize| {
            let server = &server;
            scope.spawn(move || server.get("/", &[&basic(&format!("anna:tea at {number:02}"))]))
        };
        let asked: Vec<_> = (0..30).map(ask).collect();
        asked.into_iter().map(|asked| asked.join().unwrap()).collect()
    });
    let of = |status| answers.iter().filter(|answer| answer.status == status).count();
    assert_eq!(of(401) + of(429), 30, "{answers:?}");
    assert!(of(401) >= 10 && of(429) >= 10, "{} refused, {} delayed", of(401), of(429));
    let delayed = answers.iter().find(|answer| answer.status == 429).unwrap();
    assert!(delayed.head.contains("retry-after: ") && delayed.body.contains("too many wrong passwords"), "{delayed:?}");
    // A password that is known to be right is not delayed, nor is the log of one that is known to be wrong.
    assert_eq!(server.get("/", &[&basic("anna:tea at five")]).status, 200);
    let peak = server.foreground.peak();
    assert!(peak.is_none_or(|peak| peak < MOST_MEMORY), "{peak:?} KiB");
    assert_eq!(server.foreground.stop("TERM").code(), Some(0));
    let log = fs::read_to_string(log).unwrap();
    assert!(log.lines().filter(|line| line.contains("peer=\"127.0.0.1\"")).count() >= 10, "{log}");
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

#[tokio::test]
async fn what_clients_send_is_spelled_out_in_the_log() {
    const FORGED: &str = "2026-01-01 WARN forged";
    let files = directory();
    let users = file(&files, "users", &hashed("anna", "tea at five"));
    let url = database().await;
    assert!(run(&["migrate", "--database-url", &url]).status.success());
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
