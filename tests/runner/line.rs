//! A runner has two connections of its own, and a failure of the listening connection does not cost its lease.

use support::prelude::*;

/// The sessions of [`named`] clients.
const NAMED: &str = "FROM pg_stat_activity WHERE application_name = 'named' AND datname = current_database()";

/// A client of one connection, whose sessions have the `application_name` that [`NAMED`] looks for.
pub async fn named(database: &Database) -> Client {
    database.client_with(1, |options| options.application_name("named")).await
}

pub async fn connections(database: &Database) -> i64 {
    database.number(&format!("SELECT count(*) {NAMED}")).await
}

/// Ends the line's connection, if it is there.
async fn cut(database: &Database) -> bool {
    let standing = "query ~ 'LISTEN|SET leased_until|INTO .*[.]runner|Which of these runs'";
    database.number(&format!("SELECT count(pg_terminate_backend(pid)) {NAMED} AND {standing}")).await > 0
}

#[tokio::test]
async fn a_runner_has_two_standing_connections_and_at_most_three_for_fetches_and_results() {
    for is_listening in [true, false] {
        let database = Database::new().await;
        let client = named(&database).await;
        let interval = Duration::from_millis(5);
        let mut runner = quick(&client)
            .queue("other", 3)
            .lease(Duration::from_secs(1))
            .promote_interval(interval)
            .prune_interval(interval)
            .worker(at_once);
        if !is_listening {
            runner = runner.poll_only();
        }
        let runner = runner.start().await.unwrap();
        let began = Instant::now();
        let mut most = 0;
        while began.elapsed() < Duration::from_secs(1) {
            let later = database.client.insert(Task { n: 1 }).scheduled_in(Duration::from_millis(1)).await.unwrap();
            database.until_state(later.id(), JobState::Completed).await;
            most = most.max(connections(&database).await);
        }
        assert!(
            (4..=6).contains(&most),
            "one of the pool, two that stand, one to three for fetches and results: {most}"
        );
        if !is_listening {
            let listening = format!("SELECT count(*) {NAMED} AND query LIKE 'LISTEN%'");
            assert_eq!(database.number(&listening).await, 0);
        }
        runner.stop().await.unwrap();
        client.pool().close().await;
        eventually!(connections(&database).await == 0, "a connection is left behind");
    }
}

#[support::test]
async fn a_line_that_is_cut_again_and_again_costs_no_lease_and_no_job(database: Database) {
    let client = named(&database).await;
    let (sender, stopped) = mpsc::unbounded_channel();
    let work = move |job: RunningJob<Task>| {
        let sender = sender.clone();
        async move { sender.send(job.stopped().await) }
    };
    let runner = quick(&client).lease(Duration::from_secs(2)).worker(work).stop_timeout(Duration::ZERO);
    let runner = runner.start().await.unwrap();
    let id = runner.id();
    let job = database.client.insert(Task { n: 1 }).await.unwrap();
    database.until_state(job.id(), JobState::Running).await;
    let began = Instant::now();
    let mut cuts = 0;
    while began.elapsed() < Duration::from_secs(5) {
        cuts += u32::from(cut(&database).await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(cuts > 5, "{cuts}");
    assert_eq!(runner.id(), id);
    assert!(stopped.is_empty());
    runner.stop().await.unwrap();
}

#[support::test]
async fn what_was_sent_while_the_line_was_down_is_looked_for_when_it_is_up(database: Database) {
    let client = named(&database).await;
    static ENDED: Notify = Notify::const_new();
    let work = async |job: RunningJob<Task>| {
        job.stopped().await;
        ENDED.notify_one();
    };
    // No heartbeat and no poll comes while the test runs.
    database.start(quick(&client).lease(HOUR).poll_interval(HOUR).stop_timeout(Duration::ZERO).worker(work)).await;
    let running = database.client.insert(Task { n: 1 }).await.unwrap();
    database.until_state(running.id(), JobState::Running).await;
    while !cut(&database).await {}
    // Without the notifications, as if they had been sent while no session listened.
    database.execute(&format!("DELETE FROM {{schema}}.job WHERE id = '{}'", running.id())).await;
    let insert = "INSERT INTO {schema}.job (id, kind, args) VALUES (gen_random_uuid(), 'task', '{\"n\": 2}')";
    database.execute(insert).await;
    timeout(WAIT, ENDED.notified()).await.unwrap();
    eventually!(database.number("SELECT count(*) FROM {schema}.job WHERE state = 'running'").await > 0);
}

#[support::test]
async fn a_flood_of_notifications_holds_up_no_heartbeat(database: Database) {
    let runner = database.runner().queue("default", 1).lease(Duration::from_secs(3));
    let runner = runner.worker(at_once).start().await.unwrap();
    let id = runner.id();
    let flood = database.sql(&format!(
        "SELECT pg_notify('{{schema}}.job', 'default'), pg_notify('{{schema}}.control', '{id}'),
            pg_notify('{{schema}}.control', n::text)
        FROM generate_series(1, 5000) AS n"
    ));
    // One comes each quarter of the lease: six seconds of them. A busy machine alone costs a lease of one second.
    for _ in 0..8 {
        let before = database.text("SELECT heartbeat_at::text FROM {schema}.runner").await;
        eventually!(
            {
                sqlx::query(flood.clone()).execute(database.pool()).await.unwrap();
                database.text("SELECT heartbeat_at::text FROM {schema}.runner").await != before
            },
            "no heartbeat"
        );
    }
    assert_eq!(runner.id(), id, "the lease was lost");
    let inserted = database.client.insert(Task { n: 1 }).await.unwrap();
    database.until_state(inserted.id(), JobState::Completed).await;
    runner.stop().await.unwrap();
}

#[support::test]
async fn results_that_wait_for_locked_rows_leave_connections_to_the_others(database: Database) {
    const LOCKED: usize = 500;
    // An order of magnitude more than the others take, and less than the locked ones would hold them up.
    const ENOUGH: Duration = Duration::from_secs(10);
    static GATE: Gate = Gate::closed();
    let work = async |job: RunningJob<Task>| {
        if job.args.n == 0 {
            GATE.pass().await;
        }
    };
    database.start(database.runner().queue("default", 600).worker(work)).await;
    let locked = database.client.insert_many((0..LOCKED).map(|_| Task { n: 0 })).await.unwrap();
    for job in &locked {
        database.until_state(job.id(), JobState::Running).await;
    }
    let open = database.begin("SELECT id FROM {schema}.job FOR UPDATE").await;
    GATE.open(LOCKED);
    // Long enough for each to have tried more than once.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let began = Instant::now();
    for _ in 0..20 {
        let other = database.client.insert(Task { n: 1 }).await.unwrap();
        database.until_state(other.id(), JobState::Completed).await;
    }
    assert!(began.elapsed() < ENOUGH, "{:?}", began.elapsed());
    open.rollback().await.unwrap();
    for job in &locked {
        database.until_state(job.id(), JobState::Completed).await;
    }
}

/// A row of the application's that refers to a job keeps the job from being deleted until it is committed, and from
/// nothing else.
#[support::test]
async fn a_job_that_is_locked_against_its_deletion_only_holds_up_no_other_result(database: Database) {
    static GATE: Gate = Gate::closed();
    let work = async |_: RunningJob<Task>| GATE.pass().await;
    let jobs = database.client.insert_many((0..20).map(|n| Task { n })).await.unwrap();
    let retention = Retention::default().completed(Duration::ZERO);
    database.start(database.runner().queue("default", 20).retention(retention).worker(work)).await;
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'running'", 20).await;
    let lock = format!("SELECT id FROM {{schema}}.job WHERE id = '{}' FOR KEY SHARE", jobs[7].id());
    let open = database.begin(&lock).await;
    GATE.open(20);
    database.until("SELECT count(*) FROM {schema}.job", 1).await;
    open.rollback().await.unwrap();
    database.until("SELECT count(*) FROM {schema}.job", 0).await;
}
