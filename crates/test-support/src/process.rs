//! Runners in processes of their own, which can be killed, stopped and continued.

use std::env;
use std::fs;
use std::io::Read;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sqlx::postgres::PgPoolOptions;
use sqlx::{Connection, PgPool};
use tokio::time::timeout;
use uniqueue::{Client, PlaceMap, Places, Retention, RetryPolicy, Runner, SchemaName, shutdown_signal};

use crate::work::{Doer, NO_LUCK};
use crate::{Database, eventually, log_as};

/// How long a connection that is given back has to answer.
const RETURN: Duration = Duration::from_secs(2);

/// A pool of an application that did what docs/operate/operations.md says: a connection that fell silent in a transaction of the
/// application's own does not keep its place for ever.
pub fn application_pool(url: &str, max_connections: u32) -> PgPool {
    let pool = PgPoolOptions::new().max_connections(max_connections).acquire_timeout(Duration::from_secs(5));
    let checked = pool.after_release(|connection, _| {
        Box::pin(async {
            timeout(RETURN, connection.ping()).await.map_err(|_| sqlx::Error::PoolTimedOut)??;
            Ok(true)
        })
    });
    checked.connect_lazy(url).expect("a URL")
}

/// Says in a child process what to run; see [`runner_process`].
const ORDER: &str = "UNIQUEUE_TEST_RUNNER";

/// What a process runs.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Order {
    pub url: String,
    pub schema: String,
    pub name: String,
    pub concurrency: usize,
    pub connections: u32,
    pub lease: Duration,
    /// How long a job may run.
    pub timeout: Duration,
    pub stop_timeout: Duration,
    pub max_crashes: u16,
    pub is_polling: bool,
    pub seed: u64,
    /// A map of places, as JSON, that it works instead of the schema.
    pub places: Option<String>,
}

impl Order {
    pub fn new(url: &str, schema: &str, name: &str) -> Self {
        Self {
            url: url.to_owned(),
            schema: schema.to_owned(),
            name: name.to_owned(),
            concurrency: 20,
            connections: 5,
            lease: Duration::from_secs(2),
            timeout: Duration::MAX,
            stop_timeout: Duration::from_secs(30),
            max_crashes: 3,
            is_polling: false,
            seed: 0,
            places: None,
        }
    }

    /// For a database of a test.
    pub fn of(database: &Database, name: &str) -> Self {
        Self::new(&database.url, &database.schema, name)
    }
}

/// A process that is killed when this is dropped.
pub struct Killed(pub Child);

impl Deref for Killed {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Killed {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        // Kills a stopped process as well.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A runner in a process of its own. It ends by itself when the test's process ends.
pub struct RunnerProcess {
    child: Killed,
}

impl RunnerProcess {
    pub fn start(order: &Order) -> Self {
        let child = Command::new(env::current_exe().expect("this binary"))
            .args(["runner_process", "--exact", "--nocapture"])
            .env(ORDER, serde_json::to_string(order).expect("an order"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("this test binary runs again");
        Self { child: Killed(child) }
    }

    /// Starts this number of processes for the database of a test.
    pub fn several(database: &Database, count: usize) -> Vec<Self> {
        (0..count).map(|n| Self::start(&Order::of(database, &format!("r{n}")))).collect()
    }

    /// Sends a signal by name: `KILL`, `STOP`, `CONT`, `TERM`.
    pub fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    pub fn kill(&mut self) {
        self.child.kill().expect("a kill");
        self.child.wait().expect("its end");
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("its status").is_some()
    }

    /// Waits for its end, as after `TERM`.
    pub async fn ended(&mut self) -> ExitStatus {
        let status = eventually!(
            let status = self.child.try_wait().expect("its status");
            status.is_some(), "the process does not end"
        );
        status.expect("an end")
    }
}

pub fn signal(process: u32, name: &str) {
    let status = Command::new("kill").args(["-s", name, &process.to_string()]).stderr(Stdio::null()).status();
    assert!(status.expect("kill runs").success(), "SIG{name} to {process}");
}

/// The process that [`RunnerProcess`] starts. It runs until SIGTERM. A binary that starts one calls this from a test of the
/// same name in its root.
pub fn runner_process() {
    let Ok(order) = env::var(ORDER) else { return };
    let order: Order = serde_json::from_str(&order).unwrap();
    // The jobs' own panics are no news.
    std::panic::set_hook(Box::new(|panic| {
        if panic.payload_as_str() != Some(NO_LUCK) {
            eprintln!("runner process {}: {panic}", std::process::id());
        }
    }));
    if env::var_os("UNIQUEUE_CHAOS_LOG").is_some() {
        log_as(&order.name);
    }
    std::thread::spawn(|| {
        // The other end closes when the test's process ends, however it does.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(1);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(run(order));
}

async fn run(order: Order) {
    if let Some(map) = &order.places {
        let places =
            Places::with(PlaceMap::from_json(map).unwrap(), Client::builder().connect_timeout(Duration::from_secs(5)));
        let (name, seed, lease) = (order.name.clone(), order.seed, order.lease);
        let build = move |client| {
            Runner::new(client)
                .queue("default", 5)
                .worker(Doer::new(seed))
                .retention(Retention::forever())
                .lease(lease)
                .stop_timeout(Duration::from_secs(10))
        };
        // A server may be away at the end as well.
        let _ = places.runner(build).name(name).slots(16).run_until(shutdown_signal()).await;
        return;
    }
    let pool = application_pool(&order.url, order.connections);
    let client = Client::builder().schema(SchemaName::new(&order.schema).unwrap()).pool(pool);
    let mut shutdown = std::pin::pin!(shutdown_signal());
    let handle = loop {
        let mut runner = Runner::new(client.clone())
            .name(&order.name)
            .queue("default", order.concurrency)
            .queue("other", order.concurrency)
            .worker(Doer::new(order.seed))
            .retry_policy(RetryPolicy::fixed(Duration::from_millis(200)))
            .retention(Retention::forever())
            .lease(order.lease)
            .timeout(order.timeout)
            .stop_timeout(order.stop_timeout)
            .max_crashes(order.max_crashes);
        if order.is_polling {
            runner = runner.poll_only();
        }
        // The database may be away at this moment.
        match runner.start().await {
            Ok(handle) => break handle,
            Err(error) => assert!(error.is_retryable(), "{error}"),
        }
        tokio::select! {
            () = &mut shutdown => return,
            () = tokio::time::sleep(Duration::from_millis(100)) => {}
        }
    };
    shutdown.await;
    handle.stop().await.unwrap();
}

/// The process of a server with this data directory.
pub fn postmaster(data_dir: &Path) -> u32 {
    let status = fs::read_to_string(data_dir.join("postmaster.pid")).expect("a running server");
    status.lines().next().and_then(|line| line.parse().ok()).expect("a process number")
}
