//! The jobs of a dead runner come back after its lease, as suspects. A job that kills its runners is discarded at its
//! third crash, if it was alone.

use uniqueue::testing;

use super::caretaker;
use support::prelude::*;

/// Gives all jobs to a runner that dies now, with so much of its lease left.
pub(super) async fn die(database: &Database, left: Duration) {
    let given = format!(
        "WITH dead AS (
            INSERT INTO {{schema}}.runner (id, name, queues, leased_until, knows_groups)
            VALUES (gen_random_uuid(), 'dead', '{{}}', now() + interval '{} ms', true) RETURNING id
        )
        UPDATE {{schema}}.job SET state = 'running', worker = dead.id, attempt = attempt + 1 FROM dead",
        left.as_millis()
    );
    database.execute(&given).await;
}

async fn rescue(database: &Database) {
    testing::advance(&database.client, Duration::ZERO).await.unwrap();
}

#[support::test]
async fn the_rescuer_is_awake_when_a_lease_runs_out(database: Database) {
    let job = database.client.insert(Task { n: 1 }).await.unwrap();
    die(&database, Duration::from_secs(2)).await;
    // On its own it would look every ten seconds only.
    database.start(caretaker(&database).lease(HOUR).queue("default", 1)).await;
    database.until_state(job.id(), JobState::Completed).await;
    let waited = "SELECT (extract(epoch FROM j.attempted_at - r.leased_until) * 1000)::bigint
        FROM {schema}.job AS j, {schema}.runner AS r WHERE r.name = 'dead'";
    let waited = database.number(waited).await;
    assert!((0..8_000).contains(&waited), "back {waited} ms after the lease");
}

#[support::test]
async fn a_job_that_keeps_killing_its_worker_is_discarded_at_its_third_crash_and_says_why(database: Database) {
    let killer = database.client.insert(Task { n: 1 }).queue("unworked").max_attempts(2).await.unwrap();
    let row = async || database.row(killer.id()).await;
    database.start(caretaker(&database).lease(SECOND)).await;
    // The first crash uses up no attempt.
    for (crash, attempt, state) in
        [(1, 0, JobState::Retryable), (2, 1, JobState::Retryable), (3, 2, JobState::Discarded)]
    {
        die(&database, Duration::ZERO).await;
        eventually!(row().await.state != JobState::Running, "not rescued");
        let row = row().await;
        assert_eq!((row.crashes, row.attempt, row.state), (crash, attempt, state), "{row:?}");
    }
    let said: Vec<_> = row().await.errors.into_iter().map(|error| (error.attempt, error.error)).collect();
    let rescued = "rescued: the runner died or lost its lease";
    let discarded = format!("{rescued}; discarded: its runner died 3 times in a row while it had the job");
    assert_eq!(said, [(1, rescued.to_owned()), (1, rescued.to_owned()), (2, discarded)]);
}

#[support::test]
async fn a_crash_as_a_suspect_uses_up_an_attempt_and_an_attempt_that_ends_clears_the_suspicion(database: Database) {
    let job = database.client.insert(Task { n: 1 }).queue("unworked").await.unwrap();
    let row = async || database.row(job.id()).await;
    for (crashes, attempt) in [(1, 0), (2, 1)] {
        die(&database, Duration::ZERO).await;
        rescue(&database).await;
        assert_eq!((row().await.crashes, row().await.attempt), (crashes, attempt));
    }
    let fails = |_: RunningJob<Task>| async { Err::<(), _>("no luck") };
    database.pass(Duration::from_secs(5)).await;
    rescue(&database).await;
    database.start(database.runner().queue("unworked", 1).worker(fails)).await;
    eventually!(row().await.errors.len() == 3, "not worked");
    assert_eq!((row().await.crashes, row().await.attempt), (0, 2));
}

#[support::test]
async fn a_second_crash_does_not_use_up_the_last_attempt(database: Database) {
    let job = database.client.insert(Task { n: 1 }).queue("unworked").max_attempts(2).await.unwrap();
    die(&database, Duration::ZERO).await;
    database.execute("UPDATE {schema}.job SET attempt = 2, crashes = 1").await;
    rescue(&database).await;
    let row = database.row(job.id()).await;
    assert_eq!((row.state, row.crashes, row.attempt), (JobState::Retryable, 2, 1));
}

#[support::test]
async fn a_job_with_one_attempt_is_not_started_again_after_a_crash(database: Database) {
    let job = database.client.insert(Task { n: 1 }).queue("unworked").max_attempts(1).await.unwrap();
    die(&database, Duration::ZERO).await;
    rescue(&database).await;
    let row = database.row(job.id()).await;
    assert_eq!((row.state, row.attempt), (JobState::Discarded, 1));
    assert!(row.errors[0].error.ends_with("discarded: a job with one attempt is not started again"), "{row:?}");
}

/// Lets a runner die that had two jobs, which were started so many seconds before. Answers the rows, without their
/// attempts: each had three.
async fn crash(first: (i16, u32), second: (i16, u32)) -> [(JobState, u16); 2] {
    let database = Database::new().await;
    let mut ids = Vec::new();
    for (n, (crashes, ago)) in (0..).zip([first, second]) {
        let id = database.client.insert(Task { n }).queue("unworked").await.unwrap().id();
        let started = format!(
            "UPDATE {{schema}}.job SET crashes = {crashes}, attempt = 2, attempted_at = now() - interval '{ago} s'
            WHERE id = '{id}'"
        );
        database.execute(&started).await;
        ids.push(id);
    }
    die(&database, Duration::ZERO).await;
    rescue(&database).await;
    let mut ends = Vec::new();
    for id in ids {
        let row = database.row(id).await;
        ends.push((row.state, row.crashes));
    }
    [ends[0], ends[1]]
}

#[tokio::test]
async fn a_third_crash_discards_only_a_job_that_was_alone() {
    use JobState::Retryable;
    // Any of both may have done it, whichever was started last.
    assert_eq!(crash((2, 1), (0, 3_600)).await, [(Retryable, 3), (Retryable, 1)]);
    assert_eq!(crash((2, 3_600), (1, 1)).await, [(Retryable, 3), (Retryable, 2)]);
    assert_eq!(crash((2, 5), (2, 5)).await, [(Retryable, 3), (Retryable, 3)]);
    assert_eq!(crash((4, 1), (0, 3_600)).await, [(Retryable, 5), (Retryable, 1)]);
}

#[tokio::test]
async fn a_sixth_crash_discards_a_job_that_was_started_long_after_the_others() {
    use JobState::{Discarded, Retryable};
    assert_eq!(crash((5, 1), (7, 40)).await, [(Discarded, 6), (Retryable, 8)]);
    assert_eq!(
        crash((5, 1), (0, 30)).await,
        [(Retryable, 6), (Retryable, 1)],
        "the other may kill after half a minute"
    );
    assert_eq!(crash((5, 90), (0, 1)).await, [(Retryable, 6), (Retryable, 1)]);
}

#[support::test]
async fn a_crash_beside_others_does_not_use_up_the_last_attempt_however_often(database: Database) {
    let jobs = [1, 2].map(|n| NewJob::from(Task { n }).queue("unworked").max_attempts(2));
    database.client.insert_many(jobs).await.unwrap();
    for crashes in 1..=5 {
        die(&database, Duration::ZERO).await;
        rescue(&database).await;
        let left = format!(
            "SELECT count(*) FROM {{schema}}.job WHERE state = 'retryable' AND crashes = {crashes} AND attempt < 2"
        );
        assert_eq!(database.number(&left).await, 2);
    }
}

#[support::test]
async fn an_operators_retry_of_a_job_that_was_discarded_for_its_crashes_is_a_suspect(database: Database) {
    let job = database.client.insert(Task { n: 1 }).queue("unworked").await.unwrap();
    die(&database, Duration::ZERO).await;
    database.execute("UPDATE {schema}.job SET crashes = 2").await;
    rescue(&database).await;
    assert_eq!(database.row(job.id()).await.state, JobState::Discarded);
    database.client.retry([job.id()]).await.unwrap();
    let row = database.row(job.id()).await;
    assert_eq!((row.state, row.crashes), (JobState::Available, 1));
}

const WAITING: &str = "SELECT count(*) FROM {schema}.job WHERE state IN ('scheduled', 'retryable')";

#[support::test]
async fn the_promoter_sleeps_until_the_next_job_is_due(database: Database) {
    for wait in [300, 600, 900] {
        database.client.insert(Task { n: 1 }).scheduled_in(Duration::from_millis(wait)).await.unwrap();
    }
    // Looking at intervals alone would never find them.
    database.start(caretaker(&database).promote_interval(HOUR)).await;
    eventually!(database.number(WAITING).await == 0, "not promoted in time");
}

#[support::test]
async fn many_jobs_that_are_due_together_become_available_together(database: Database) {
    const JOBS: u32 = 10_000;
    database.start(caretaker(&database)).await;
    let due = Duration::from_secs(1);
    let jobs = (0..JOBS).map(|n| NewJob::from(Task { n }).scheduled_in(due));
    database.client.insert_many(jobs).await.unwrap();
    eventually!(database.number(WAITING).await == 0, "not all promoted");
    // The row tells when it was written only by its transaction, so the test's own clock must do; a
    // busy machine has a few seconds.
    let late = "SELECT extract(epoch FROM now() - max(scheduled_at))::bigint FROM {schema}.job";
    assert!(database.number(late).await < 6, "{} s late", database.number(late).await);
    let early = "SELECT count(*) FROM {schema}.job WHERE state = 'available' AND scheduled_at > now()";
    assert_eq!(database.number(early).await, 0);
}

#[support::test]
async fn an_idle_look_reads_a_handful_of_pages_however_many_jobs_wait(database: Database) {
    let insert = "INSERT INTO {schema}.job (id, kind, state, scheduled_at)
        SELECT gen_random_uuid(), 'a', 'scheduled', now() + interval '1 hour' + n * interval '1 s'
        FROM generate_series(1, 100000) AS n";
    database.execute(insert).await;
    database.execute("VACUUM ANALYZE {schema}.job").await;
    let statements = database.client.statements_text();
    let (_, run) = statements.iter().find(|(name, _)| *name == "run_service").unwrap();
    let explain = run.replace("$1", "'promoter'").replace("$2", "NULL").replace("$3", "NULL");
    let explain = format!("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {explain}");
    // In a session that has called the function before, as the runner's has. It is planned for each call.
    let mut connection = database.pool().acquire().await.unwrap();
    let _: Value = sqlx::query_scalar(database.sql(&explain)).fetch_one(&mut *connection).await.unwrap();
    let plan: Value = sqlx::query_scalar(database.sql(&explain)).fetch_one(&mut *connection).await.unwrap();
    let read = &plan[0]["Plan"];
    let pages = read["Shared Hit Blocks"].as_i64().unwrap() + read["Shared Read Blocks"].as_i64().unwrap();
    assert!(pages < 50, "{pages} pages: {plan:#}");
}

#[support::test]
async fn a_job_that_was_locked_when_it_was_due_is_promoted_later(database: Database) {
    database.start(caretaker(&database).promote_interval(Duration::from_millis(10))).await;
    let later = database.client.insert(job("a").scheduled_in(Duration::from_millis(100))).await.unwrap();
    let locked = database.begin(&format!("SELECT FROM {{schema}}.job WHERE id = '{}' FOR UPDATE", later.id())).await;
    // Others go on meanwhile.
    database.client.insert(job("b").scheduled_in(Duration::from_millis(200))).await.unwrap();
    eventually!(database.number(WAITING).await == 1, "the other is stuck");
    locked.rollback().await.unwrap();
    eventually!(database.number(WAITING).await == 0, "the locked one is forgotten");
}
