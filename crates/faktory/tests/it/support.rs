//! A server on a database of its own, and a client that sends lines.

use std::net::SocketAddr;

use test_support::prelude::*;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uniqueue_faktory::Faktory;

pub(crate) struct Server {
    pub(crate) database: Database,
    pub(crate) address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Server {
    pub(crate) async fn new() -> Self {
        Self::with(|faktory| faktory).await
    }

    pub(crate) async fn with(options: impl FnOnce(Faktory) -> Faktory) -> Self {
        Self::on(Database::with_connections(8).await, options).await
    }

    pub(crate) async fn on(database: Database, options: impl FnOnce(Faktory) -> Faktory) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let server = options(Faktory::new(database.client.clone()));
        let stopped = stop.clone().cancelled_owned();
        let task = tokio::spawn(async move { server.serve(listener, stopped).await });
        Self { database, address, stop, task }
    }

    /// Stops the server in order. The database stays.
    pub(crate) async fn stop(self) -> Database {
        self.stop.cancel();
        timeout(WAIT, self.task).await.unwrap().unwrap();
        self.database
    }

    /// A client that is no worker.
    pub(crate) async fn client(&self) -> Raw {
        Raw::greeted(self.address, json!({"v": 2})).await
    }

    pub(crate) async fn worker(&self, wid: &str) -> Raw {
        Raw::greeted(self.address, json!({"v": 2, "wid": wid, "hostname": "h", "pid": 1, "labels": []})).await
    }

    /// The only job of a kind.
    pub(crate) async fn job(&self, kind: &str) -> JobRow {
        let mut jobs = self.database.client.jobs(uniqueue::JobFilter::new().kind(kind)).await.unwrap();
        assert_eq!(jobs.len(), 1, "{jobs:?}");
        jobs.remove(0)
    }
}

/// A client that sends lines. Replies are `OK`, `-ERR …`, the text of a value, or `nil`.
pub(crate) struct Raw(pub(crate) BufReader<TcpStream>);

impl Raw {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self(BufReader::new(TcpStream::connect(address).await.unwrap()))
    }

    async fn greeted(address: SocketAddr, hello: Value) -> Self {
        let mut client = Self::connect(address).await;
        assert_eq!(client.read().await, "HI {\"v\":2}");
        assert_eq!(client.send(&format!("HELLO {hello}")).await, "OK");
        client
    }

    pub(crate) async fn write(&mut self, line: &str) {
        self.0.get_mut().write_all(format!("{line}\r\n").as_bytes()).await.unwrap();
    }

    pub(crate) async fn send(&mut self, line: &str) -> String {
        self.write(line).await;
        self.read().await
    }

    pub(crate) async fn read(&mut self) -> String {
        timeout(WAIT, self.reply()).await.unwrap()
    }

    async fn reply(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).await.unwrap();
        let line = line.trim_end().to_owned();
        match line.split_at_checked(1) {
            Some(("+", text)) => text.to_owned(),
            Some(("$", "-1")) => "nil".to_owned(),
            Some(("$", length)) => {
                let mut value = vec![0; length.parse::<usize>().unwrap() + 2];
                self.0.read_exact(&mut value).await.unwrap();
                String::from_utf8(value).unwrap().trim_end().to_owned()
            }
            // An error, or nothing where the server has closed the connection.
            _ => line,
        }
    }

    pub(crate) async fn push(&mut self, job: Value) -> String {
        self.send(&format!("PUSH {job}")).await
    }

    /// Fetches until there is a job.
    pub(crate) async fn fetch(&mut self, queues: &str) -> Value {
        loop {
            match self.send(&format!("FETCH {queues}")).await.as_str() {
                "nil" => {}
                job => return serde_json::from_str(job).unwrap_or_else(|_| panic!("{job}")),
            }
        }
    }

    pub(crate) async fn ack(&mut self, jid: &str) -> String {
        self.send(&format!("ACK {}", json!({ "jid": jid }))).await
    }

    pub(crate) async fn fail(&mut self, jid: &str) -> String {
        let failure = json!({"jid": jid, "errtype": "Oops", "message": "no luck", "backtrace": ["a", "b", "c"]});
        self.send(&format!("FAIL {failure}")).await
    }
}

/// A job without args.
pub(crate) fn job(jid: &str, kind: &str) -> Value {
    json!({"jid": jid, "jobtype": kind, "args": []})
}

/// A job with another member.
pub(crate) fn with(mut job: Value, name: &str, value: impl Into<Value>) -> Value {
    job[name] = value.into();
    job
}
