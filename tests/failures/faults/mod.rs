//! The fault table of docs/operate/operations.md: each class of connection, and each fault while the connection is at work. Each
//! cell asserts how long the fault is felt at most, and that it loses nothing.

mod pool;
mod remade;
mod runner;

use tokio::sync::oneshot;

use support::prelude::*;

const FAULTS: [Fault; 6] =
    [Fault::Cut, Fault::Reset, Fault::Frozen, Fault::FrozenOneWay, Fault::HalfClosed, Fault::Slow];

/// Long enough that half of it is well below it, on a machine that is busy with other tests.
const LEASE: Duration = Duration::from_secs(12);

/// Runs the cells of one class at once.
async fn each<F: Future<Output = ()> + Send + 'static>(cell: impl Fn(Fault) -> F) {
    let mut cells: JoinSet<_> = FAULTS.into_iter().map(cell).collect();
    while let Some(ended) = cells.join_next().await {
        ended.unwrap();
    }
}

/// A database behind a proxy, and what its runner has run.
struct Cell {
    database: Database,
    proxy: Proxy,
    /// A client that reaches the database through the proxy.
    client: Client,
    runs: Arc<AtomicUsize>,
}

impl Cell {
    async fn new() -> Self {
        let database = Database::with_connections(3).await;
        let proxy = Proxy::before(&database.url).await;
        let client = database.client_at(&proxy.url(), 3).await;
        Self { database, proxy, client, runs: Arc::default() }
    }

    /// A runner behind the proxy that counts what it runs. It hears of jobs, or polls once a second.
    fn runner(&self) -> Runner {
        let runs = Arc::clone(&self.runs);
        let work = move |_: RunningJob<Task>| {
            runs.fetch_add(1, Ordering::Relaxed);
            async {}
        };
        Runner::new(self.client.clone()).queue("default", 4).lease(LEASE).worker(work)
    }

    fn runs(&self) -> usize {
        self.runs.load(Ordering::Relaxed)
    }

    async fn insert(&self, jobs: u32) {
        self.database.client.insert_many((0..jobs).map(|n| Task { n })).await.unwrap();
    }

    /// Waits until this many jobs are completed.
    async fn completed(&self, jobs: i64) {
        let count = "SELECT count(*) FROM {schema}.job WHERE state = 'completed'";
        eventually!(self.database.number(count).await >= jobs, "{:?}", self.database.text(STATES).await);
    }
}

const STATES: &str = "SELECT string_agg(concat_ws(' ', state, attempt, errors), ', ') FROM {schema}.job";

/// Waits until a connection was struck.
async fn struck(struck: oneshot::Receiver<()>) {
    timeout(2 * WAIT, struck).await.expect("the statement was not sent").expect("the proxy lives");
}
