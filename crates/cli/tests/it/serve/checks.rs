//! Every HTTP listener against every check of requests: those of `serve`, and the routers that an application mounts.

use std::io::{Read, Write};
use std::net::TcpStream;

use axum::Router;
use test_support::prelude::*;
use tokio::net::TcpListener;
use uniqueue_http::Checks;

use super::{Server, WAIT, file, ojs};
use crate::support::{directory, migrated};

const TOKEN: &str = "Authorization: Bearer 0123456789abcdef\r\n";

/// A path of a listener.
struct Endpoint {
    name: &'static str,
    address: String,
    get: &'static str,
    post: &'static str,
    /// Whether `serve` asks for credentials here.
    asks: bool,
    is_served: bool,
}

impl Endpoint {
    /// Sends the text of a request. Returns the status and the head, 0 where the connection was closed without an answer.
    fn send(&self, request: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(WAIT)).unwrap();
        // The answer can come before all is sent.
        let _ = stream.write_all(request.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        (status, answer.split("\r\n\r\n").next().unwrap_or_default().to_ascii_lowercase())
    }

    fn get(&self, headers: &str) -> (u16, String) {
        self.send(&format!("GET {} HTTP/1.1\r\n{TOKEN}{headers}Connection: close\r\n\r\n", self.get))
    }

    fn post(&self, headers: &str, body: &str) -> u16 {
        let request =
            format!("POST {} HTTP/1.1\r\n{TOKEN}Host: localhost\r\n{headers}Connection: close\r\n", self.post);
        self.send(&format!("{request}Content-Type: application/json\r\n\r\n{body}")).0
    }

    fn check(&self) {
        let name = self.name;
        // The host name, wherever it stands.
        for host in ["localhost", "LOCALHOST:1", "127.0.0.1:80", "[::1]:80", "10.1.2.3", "Queue.example.com:80"] {
            let (status, head) = self.get(&format!("Host: {host}\r\n"));
            assert_eq!(status, 200, "{name}, Host: {host}: {head}");
            for header in ["cache-control: no-store", "x-content-type-options: nosniff"] {
                assert!(head.contains(header), "{name}: {head}");
            }
        }
        for headers in ["Host: evil.example\r\n", "Host: localhost.evil.example\r\n", "Host: \r\n", ""] {
            assert_eq!(self.get(headers).0, 421, "{name}, {headers:?}");
        }
        let absolute = format!(
            "GET http://evil.example{} HTTP/1.1\r\n{TOKEN}Host: localhost\r\nConnection: close\r\n\r\n",
            self.get
        );
        assert_eq!(self.send(&absolute).0, 421, "{name}");
        // Pages of other origins, with and without Fetch metadata.
        let length = "Content-Length: 2\r\n";
        for page in
            ["Sec-Fetch-Site: cross-site\r\n", "Sec-Fetch-Site: same-site\r\n", "Origin: https://evil.example\r\n"]
        {
            assert_eq!(self.post(&format!("{page}{length}"), "{}"), 403, "{name}, {page}");
        }
        // Bytes and time of the body. What was not read yet can cost the client the answer.
        let large = "a".repeat(5_000_000);
        let status = self.post("Content-Length: 5000000\r\n", &large);
        assert!([0, 413].contains(&status), "{name}: {status}");
        assert_eq!(self.post("Content-Length: 100\r\n", "{"), 408, "{name}");
        if self.is_served {
            // Bytes and time of the head.
            assert_eq!(self.get(&format!("Host: localhost\r\nX-A: {}\r\n", "a".repeat(200_000))).0, 431, "{name}");
            self.send("GET / HTTP/1.1\r\nHost: localhost\r\n");
        }
        let without = format!("GET {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", self.get);
        assert_eq!(self.send(&without).0, if self.asks { 401 } else { 200 }, "{name}: credentials");
    }
}

/// Serves a router as an application does.
async fn embed(router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async { axum::serve(listener, router).await });
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_http_listener_makes_every_check() {
    let files = directory();
    let tokens = file(&files, "tokens", "admin:0123456789abcdef\n");
    let url = migrated("uniqueue").await;
    let server = Server::start_on(&[
        "--ojs",
        "127.0.0.1:0",
        "--bearer-token",
        &tokens,
        "--host",
        "queue.example.com",
        "--request-timeout",
        "500ms",
        "--database-url",
        &url,
    ]);
    let (dashboard, door) = (server.address.clone(), ojs::address_of(&server));
    let client = Client::connect(&url).await.unwrap();
    let checks = || Checks::new().host("queue.example.com").request_timeout(Duration::from_millis(500));
    let web = embed(uniqueue_web::Web::new(client.clone()).checks(checks()).router()).await;
    let spec = embed(uniqueue_ojs::Ojs::new(client).checks(checks()).start().await.unwrap()).await;
    let endpoint = |name, address: &str, get, post, asks, is_served| {
        Endpoint { name, address: address.to_owned(), get, post, asks, is_served }.check();
    };
    endpoint("the dashboard of serve", &dashboard, "/doctor", "/settings", true, true);
    endpoint("the metrics of serve", &dashboard, "/metrics", "/settings", true, true);
    endpoint("the health check of serve", &dashboard, "/health/live", "/settings", false, true);
    endpoint("Open Job Spec of serve", &door, "/ojs/v1/queues", "/ojs/v1/jobs", true, true);
    endpoint("the health check of Open Job Spec", &door, "/ojs/v1/health", "/ojs/v1/jobs", false, true);
    endpoint("an embedded dashboard", &web, "/doctor", "/settings", false, false);
    endpoint("embedded metrics", &web, "/metrics", "/settings", false, false);
    endpoint("embedded Open Job Spec", &spec, "/ojs/v1/queues", "/ojs/v1/jobs", false, false);
}
