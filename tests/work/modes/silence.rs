//! The statements of an idle runner, by the server's log. A runner that only polls receives no notification.

use support::prelude::*;

/// A server that logs every statement with its application.
struct Logging {
    postgres: Option<Postgres>,
    directory: PathBuf,
    client: Client,
}

impl Logging {
    async fn start(name: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("uq-log-{name}-{}", std::process::id()));
        let postgres = Postgres::builder()
            .data_dir(&directory)
            .durability(Durability::Fast)
            .setting("log_statement", "all")
            .setting("log_line_prefix", "[%a] ")
            .start()
            .await
            .unwrap();
        let options: PgConnectOptions = postgres.url().parse().unwrap();
        let pool = PgPoolOptions::new().acquire_timeout(WAIT).connect_lazy_with(options.application_name("runner"));
        let client = Client::new(pool);
        client.migrate().await.unwrap();
        Self { postgres: Some(postgres), directory, client }
    }

    async fn listener(&self) -> PgListener {
        let url = self.postgres.as_ref().unwrap().url();
        let mut listener = PgListener::connect(url).await.unwrap();
        listener.listen_all(["uniqueue.job", "uniqueue.control"]).await.unwrap();
        listener
    }

    /// The statements that the runner sent so far: the first words of each.
    fn statements(&self) -> Vec<String> {
        let log = fs::read_to_string(self.directory.join("server.log")).unwrap();
        let sent = |line: &str| {
            let said = line.strip_prefix("[runner] LOG:  ")?;
            let (how, text) = said.split_once(": ")?;
            (how == "statement" || how.starts_with("execute ")).then(|| text.to_owned())
        };
        log.lines().filter_map(sent).collect()
    }

    async fn stop(mut self) {
        self.client.pool().close().await;
        self.postgres.take().unwrap().stop().await.unwrap();
    }
}

impl Drop for Logging {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// What a single idle runner with the default settings may send in a minute: 60 fetches, whatever the
/// number of queues; 60 looks for due jobs; 12 each for expired jobs, and for parents that have ended; 6 at the edges
/// between jobs; 12 heartbeats; 30 looks of the other services; and up to 72 extensions of the services' leases. A second
/// runner adds fetches and heartbeats only.
const MOST_A_MINUTE: usize = 60 + 60 + 12 + 12 + 6 + 12 + 30 + 72;

#[tokio::test]
async fn ten_idle_queues_cost_a_few_statements_a_second_and_no_notify() {
    let server = Logging::start("idle").await;
    let mut runner = Runner::new(server.client.clone()).worker(at_once);
    for queue in 0..10 {
        runner = runner.queue(format!("queue {queue}"), 10);
    }
    let mut listener = server.listener().await;
    let runner = runner.start().await.unwrap();
    // Until it has told that it sleeps, and polls as rarely as it ever will.
    tokio::time::sleep(Duration::from_secs(4)).await;
    let before = server.statements().len();
    let window = Duration::from_secs(10);
    tokio::time::sleep(window).await;
    let sent = server.statements().split_off(before);
    let a_minute = sent.len() * 60 / window.as_secs() as usize;
    let mut kinds = BTreeMap::<&str, usize>::new();
    for statement in &sent {
        *kinds.entry(statement).or_default() += 1;
    }
    println!("ten idle queues, one runner: {a_minute} statements a minute, in {window:?}: {kinds:#?}");
    assert!(listener.next_buffered().is_none() && no_notification(&mut listener).await, "an idle runner notifies");
    assert!(a_minute <= MOST_A_MINUTE, "{a_minute} statements a minute: {kinds:#?}");
    assert!(a_minute >= 20, "nothing was measured: {kinds:#?}");
    runner.stop().await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn a_runner_that_only_polls_neither_listens_nor_is_notified() {
    let server = Logging::start("polling").await;
    let mut listener = server.listener().await;
    let runner = quick(&server.client).poll_only().poll_interval(Duration::from_millis(20)).worker(at_once);
    let runner = runner.start().await.unwrap();
    for n in 0..5 {
        let mut jobs = vec![server.client.insert(Task { n }).await.unwrap().id()];
        jobs.push(server.client.insert(Task { n }).scheduled_in(Duration::from_millis(30)).await.unwrap().id());
        let many = server.client.insert_many((0..3).map(|n| Task { n })).await.unwrap();
        jobs.extend(many.iter().map(uniqueue::Inserted::id));
        for job in jobs {
            eventually!(server.client.job(job).await.unwrap().unwrap().state == JobState::Completed, "not worked");
        }
    }
    runner.stop().await.unwrap();
    assert!(no_notification(&mut listener).await, "a runner that only polls was notified");
    for statement in server.statements() {
        let upper = statement.to_uppercase();
        assert!(!upper.starts_with("LISTEN") && !upper.starts_with("NOTIFY"), "{statement}");
    }
    server.stop().await;
}

/// Whether nothing was heard until a notification of the listener's own comes around.
async fn no_notification(listener: &mut PgListener) -> bool {
    sqlx::query("SELECT pg_notify('uniqueue.job', 'the end')").execute(&mut *listener).await.unwrap();
    let heard = timeout(WAIT, listener.recv()).await.unwrap().unwrap();
    heard.payload() == "the end"
}
