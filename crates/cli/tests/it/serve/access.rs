//! Allowed addresses, host names and credentials.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, Stdio};

use test_support::prelude::*;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::{Server, basic, exchange, file, hashed, refusal};
use crate::support::{Foreground, directory, has_terminal, migrated, uniqueue};

const TOKEN: &str = "0123456789abcdef";

/// Runs `--hash-password` on a terminal, types these lines, each when its prompt is there and the terminal shows nothing,
/// and returns the screen. `None`: there is no util-linux here.
fn typed(user: &str, lines: [&str; 2]) -> Option<String> {
    if !has_terminal() {
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
        let modes = || Command::new("stty").args(["-F", terminal.trim(), "-a"]).output().unwrap().stdout;
        eventually!(blocking
            String::from_utf8_lossy(&modes()).split_whitespace().any(|mode| mode == "-echo"),
            "the terminal shows what is typed"
        );
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
        return;
    };
    assert!(screen.contains("anna:$argon2id$") && !screen.contains("tea"), "{screen}");
    let screen = typed("anna", ["tea at five", "tea at six"]).unwrap();
    assert!(screen.contains("the two passwords differ") && !screen.contains("tea"), "{screen}");
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
    let server = Server::start(&["--tls-cert", &cert, "--tls-key", &key, "--faktory", "127.0.0.1:0"]).await;
    assert!(server.foreground.object["url"].as_str().unwrap().starts_with("https://"));
    // A connection that never begins its handshake holds up no other.
    let _silent = server.connect();
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(config.with_root_certificates(roots).with_no_client_auth());
    let client = || ClientConnection::new(config.clone(), ServerName::try_from("localhost").unwrap()).unwrap();
    let answer = exchange(&mut StreamOwned::new(client(), server.connect()), "/", &[]);
    assert_eq!(answer.status, 200);
    let faktory = server.foreground.object["faktory"].as_str().unwrap().strip_prefix("tcp+tls://").unwrap();
    let mut hi = [0; 12];
    StreamOwned::new(client(), TcpStream::connect(faktory).unwrap()).read_exact(&mut hi).unwrap();
    assert_eq!(&hi, b"+HI {\"v\":2}\r");
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
    let url = migrated("uniqueue").await;
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
async fn wrong_passwords_delay_no_right_one_of_the_same_address() {
    let files = directory();
    let users = file(&files, "users", &[hashed("anna", "tea at five"), hashed("ben", "no tea at all")].concat());
    let tokens = file(&files, "tokens", &format!("worker:{TOKEN}\n"));
    let server = Server::start(&["--basic-auth", &users, "--bearer-token", &tokens, "--faktory", "127.0.0.1:0"]).await;
    let faktory = super::faktory::address(&server);
    for number in 0..12 {
        let wrong = server.get("/", &[&basic(&format!("anna:tea at {number:02}"))]).status;
        assert_eq!(wrong, if number < 9 { 401 } else { 429 }, "{number}");
    }
    // Neither has been seen before.
    for right in ["anna:tea at five", "ben:no tea at all"] {
        assert_eq!(server.get("/", &[&basic(right)]).status, 200, "{right}");
    }
    let wrong = super::faktory::Client::connect(&faktory, Some("wrong")).err().unwrap();
    assert_eq!(wrong.to_string(), "-ERR Invalid password");
    assert!(super::faktory::Client::connect(&faktory, Some(TOKEN)).is_ok());
}
