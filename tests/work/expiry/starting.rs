//! A job that has expired never starts, and one that has started does not expire.

use super::{EXPIRED, caretaker, fetched, pass};
use support::prelude::*;

#[support::test]
async fn r21_a_job_that_has_not_started_in_time_never_starts_and_is_discarded_with_the_reason(database: Database) {
    let client = &database.client;
    let late = client.insert(job("late").expires_at(OffsetDateTime::now_utc() + HOUR)).await.unwrap();
    let soon = client.insert(job("soon").expires_in(HOUR)).await.unwrap();
    assert_eq!(soon.job.expires_at, Some(soon.job.created_at + HOUR));
    assert_eq!(database.row(soon.id()).await.expires_at, soon.job.expires_at);
    pass(&database, late.id()).await;
    assert_eq!(fetched(&database).await, ["soon"]);
    assert_eq!(database.row(late.id()).await.state, JobState::Available);
    let mut events = client.clone().events();
    caretaker(&database).await;
    database.until(EXPIRED, 1).await;
    let ended = database.row(late.id()).await;
    assert!(ended.errors[0].error.starts_with("expired: the job had not started by 2"), "{ended:?}");
    let event = timeout(WAIT, events.recv()).await.unwrap().unwrap();
    assert_eq!((event.id, event.happened.as_str()), (late.id(), "discarded"));
    let seen = "SELECT kind || ' ' || (waited >= interval '0') FROM {schema}.expired_job";
    assert_eq!(database.text(seen).await, "late true");
}

#[support::test]
async fn r21_a_waiting_job_expires_in_every_state(database: Database, client: &Client) {
    client.insert(job("available").expires_in(HOUR)).await.unwrap();
    client.insert(job("scheduled").scheduled_in(HOUR).expires_in(HOUR)).await.unwrap();
    client.insert(job("pending").pending().expires_in(HOUR)).await.unwrap();
    client.insert(job("grouped").group("g").expires_in(HOUR)).await.unwrap();
    client.queue("default").pause().await.unwrap();
    database.execute("UPDATE {schema}.job SET expires_at = clock_timestamp()").await;
    assert_eq!(database.number("SELECT expired FROM {schema}.maintain()").await, 4);
    assert_eq!(database.number(EXPIRED).await, 4);
}

#[support::test]
async fn r21_an_attempt_that_began_counts_as_started(database: Database, client: &Client) {
    for call in [
        "fail_jobs(ARRAY[id], ARRAY[run], ARRAY['no luck'], ARRAY[interval '0'])",
        "snooze_jobs(ARRAY[id], ARRAY[run], ARRAY[interval '0'])",
    ] {
        let id = client.insert(job("a").expires_in(HOUR)).await.unwrap().id();
        assert_eq!(fetched(&database).await.len(), 1);
        let end = format!("SELECT count(*) FROM {{schema}}.job AS j, {{schema}}.{call} AS f WHERE j.id = '{id}'");
        assert_eq!(database.number(&end.replace("[id]", "[j.id]").replace("[run]", "[j.run]")).await, 1);
        let again = database.row(id).await;
        assert_eq!((again.state, again.expires_at), (JobState::Available, None), "{call}");
        assert_eq!(fetched(&database).await.len(), 1, "{call}");
    }
    // The worker of a job dies.
    let id = client.insert(job("a").expires_in(HOUR)).await.unwrap().id();
    assert_eq!(fetched(&database).await.len(), 1);
    database.execute("UPDATE {schema}.job SET reserved_until = clock_timestamp()").await;
    assert!(database.number("SELECT rescued FROM {schema}.maintain()").await > 0);
    assert_eq!(database.row(id).await.expires_at, None);
}

#[support::test]
async fn r21_a_job_that_is_given_back_has_not_started(database: Database) {
    let id = database.client.insert(job("a").expires_in(HOUR)).await.unwrap().id();
    assert_eq!(fetched(&database).await.len(), 1);
    let give_back = "SELECT count(*) FROM {schema}.job AS j, {schema}.give_back_jobs(ARRAY[j.id], ARRAY[j.run])";
    assert_eq!(database.number(give_back).await, 1);
    pass(&database, id).await;
    assert!(fetched(&database).await.is_empty());
    assert_eq!(database.number("SELECT expired FROM {schema}.maintain()").await, 1);
}

#[support::test]
async fn r21_an_operators_retry_of_an_expired_job_runs_it_however_late(database: Database) {
    let id = database.client.insert(job("a").expires_in(HOUR)).await.unwrap().id();
    pass(&database, id).await;
    assert_eq!(database.number("SELECT expired FROM {schema}.maintain()").await, 1);
    database.client.retry([id]).await.unwrap();
    let again = database.row(id).await;
    assert_eq!((again.state, again.expires_at), (JobState::Available, None));
    assert_eq!(database.number("SELECT expired FROM {schema}.maintain()").await, 0);
    assert_eq!(fetched(&database).await, ["a"]);
    assert_eq!(database.number("SELECT count(*) FROM {schema}.expired_job").await, 0);
}

#[support::test]
async fn r21_an_expired_job_does_not_hold_up_its_group_or_its_queue(database: Database, client: &Client) {
    let first = client.insert(job("first").group("g").in_order().expires_in(HOUR)).await.unwrap().id();
    client.insert(job("second").group("g").in_order()).await.unwrap();
    let third = client.insert(job("third").priority(9).expires_in(HOUR)).await.unwrap().id();
    client.insert(job("fourth")).await.unwrap();
    for id in [first, third] {
        pass(&database, id).await;
    }
    let mut started = fetched(&database).await;
    started.sort();
    assert_eq!(started, ["fourth", "second"]);
}

#[support::test]
async fn r21_a_job_that_can_expire_is_not_fetched_ahead(database: Database) {
    database.client.insert_many((0..50).map(|n| NewJob::from(Task { n }).expires_in(HOUR))).await.unwrap();
    static MOST: AtomicI64 = AtomicI64::new(0);
    let running = database.sql("SELECT count(*) FROM {schema}.job WHERE state = 'running'");
    let work = move |job: RunningJob<Task>| {
        let running = running.clone();
        async move {
            let now = sqlx::query_scalar(running).fetch_one(job.client().pool()).await.unwrap();
            MOST.fetch_max(now, Ordering::Relaxed);
        }
    };
    database.start(database.runner().queue("default", 2).worker(work)).await;
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'completed'", 50).await;
    // Two in slots, and results of jobs that ended which are not recorded yet.
    let most = MOST.load(Ordering::Relaxed);
    assert!(most <= 10, "{most} were fetched");
}

/// Runners and the service meet jobs at the very time of their expiry: each starts in time or expires, never both.
#[support::test(with_connections(40), flavor = "multi_thread", worker_threads = 4)]
async fn r21_no_job_starts_late_where_start_and_expiry_race(database: Database) {
    const COUNT: u32 = 600;
    let job = |n: u32| {
        let expiry = Duration::from_millis(u64::from(n * 2) + 1);
        let job = NewJob::from(Task { n }).expires_in(expiry);
        if n.is_multiple_of(3) { job.group(format!("g{}", n % 5)).group_limit(2) } else { job }
    };
    for _ in 0..3 {
        let work = async |_: RunningJob<Task>| tokio::time::sleep(Duration::from_millis(3)).await;
        database.start(quick(&database.client).worker(work)).await;
    }
    database.client.insert_many((0..COUNT).map(job)).await.unwrap();
    database.until("SELECT count(*) FROM {schema}.job WHERE finalized_at IS NULL", 0).await;
    database.end().await;
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job WHERE attempted_at >= expires_at").await, 0);
    let completed = "SELECT count(*) FROM {schema}.job WHERE state = 'completed' AND attempt = 1 AND errors = '[]'";
    let (completed, expired) = (database.number(completed).await, database.number(EXPIRED).await);
    eprintln!("{completed} started in time, {expired} expired");
    assert_eq!(completed + expired, i64::from(COUNT));
    assert!(expired > 0 && completed > 0, "{completed} {expired}");
}

/// A fetch chose a job, and its `expires_at` passes before the start. A trigger on the start of another job makes the fetch
/// slow.
#[support::test]
async fn r21_the_start_itself_checks(database: Database, client: &Client) {
    client.queue("default").limit(Some(5)).await.unwrap();
    let id = client.insert(job("a").expires_in(Duration::from_millis(400))).await.unwrap().id();
    // The fetch waits for the queue's row until the job has expired.
    let transaction = database.begin("SELECT FROM {schema}.queue WHERE name = 'default' FOR UPDATE").await;
    let expired = format!("SELECT count(*) FROM {{schema}}.job WHERE id = '{id}' AND expires_at <= clock_timestamp()");
    let waiting = async {
        database.until_locked("%fetch_jobs%", 1).await;
        database.until(&expired, 1).await;
        transaction.rollback().await.unwrap();
    };
    assert!(tokio::join!(fetched(&database), waiting).0.is_empty());
    assert_eq!(database.row(id).await.state, JobState::Available);
}

#[support::test]
async fn r21_a_job_that_cannot_be_discarded_holds_up_no_other(database: Database, client: &Client) {
    let stuck = client.insert(job("stuck").expires_in(HOUR)).await.unwrap().id();
    client.insert(job("a").expires_in(HOUR)).await.unwrap();
    database.trigger("BEFORE UPDATE", "OLD.kind = 'stuck' AND NEW.state = 'discarded'", "RAISE 'no';").await;
    database.execute("UPDATE {schema}.job SET expires_at = clock_timestamp()").await;
    caretaker(&database).await;
    database.until(EXPIRED, 1).await;
    assert_eq!(database.row(stuck).await.state, JobState::Available);
    assert!(fetched(&database).await.is_empty());
}

/// The server's clock was ahead when the job was inserted, and went back: the database's clock decides what is now.
#[support::test]
async fn r21_a_clock_that_went_back_expires_nothing_early(database: Database) {
    let id = database.client.insert(job("a").scheduled_in(HOUR).expires_in(HOUR)).await.unwrap().id();
    database.execute("UPDATE {schema}.job SET created_at = now() + interval '1 h'").await;
    assert_eq!(database.number("SELECT expired FROM {schema}.maintain()").await, 0);
    let next_in = "SELECT (next_in BETWEEN 7100000 AND 7200000)::text FROM {schema}._run_service('expirer', '{\"interval\": 9000000}')";
    assert_eq!(database.text(next_in).await, "true");
    assert_eq!(database.row(id).await.state, JobState::Scheduled);
}

#[support::test]
async fn r21_a_retry_of_a_worker_is_not_cut_short(database: Database) {
    let id = database.client.insert(NewJob::from(Task { n: 1 }).expires_in(HOUR)).await.unwrap().id();
    let work = async |job: RunningJob<Task>| {
        if job.attempt() > 1 {
            return Ok(Outcome::complete());
        }
        // Its time passes while it runs.
        let expire = format!("UPDATE {}.job SET expires_at = clock_timestamp()", job.client().schema().quoted());
        sqlx::query(sqlx::AssertSqlSafe(expire)).execute(job.client().pool()).await.unwrap();
        Err("no luck")
    };
    database.start(quick(&database.client).worker(work)).await;
    let ended =
        format!("SELECT count(*) FROM {{schema}}.job WHERE id = '{id}' AND state = 'completed' AND attempt = 2");
    database.until(&ended, 1).await;
}

#[support::test]
async fn r21_a_job_after_one_that_expired_is_cancelled(database: Database) {
    let parent = database.client.insert(job("parent").expires_in(HOUR)).await.unwrap().id();
    database.execute(&format!("SELECT {{schema}}.insert_job('child', after => ARRAY['{parent}'::uuid])")).await;
    pass(&database, parent).await;
    caretaker(&database).await;
    database.until("SELECT count(*) FROM {schema}.job WHERE kind = 'child' AND state = 'cancelled'", 1).await;
}

#[support::test]
async fn r21_an_attempt_that_a_stop_cut_short_was_a_start(database: Database) {
    let id = database.client.insert(NewJob::from(Task { n: 1 }).expires_in(HOUR)).await.unwrap().id();
    let (work, begun, _) = held_up();
    let runner = quick(&database.client).stop_timeout(Duration::ZERO).stop_grace(Duration::ZERO).worker(work);
    let runner = runner.start().await.unwrap();
    timeout(WAIT, begun.notified()).await.unwrap();
    runner.stop().await.unwrap();
    let again = database.row(id).await;
    assert_eq!((again.state, again.attempt, again.expires_at), (JobState::Available, 0, None));
}
