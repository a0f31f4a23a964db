//! R21: a job with `expires_at` that has not started by then never starts, and is discarded with that reason.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use sqlx::{Connection, PgConnection};
use time::OffsetDateTime;
use tokio::task::JoinSet;
use uniqueue::{
    JobId, JobRow, JobState, NewJob, OnConflict, Outcome, Runner, RunningJob, UniqueKey, UniqueScope, Update,
};

use support::{Database, Task, WAIT, job, quick};

const HOUR: Duration = Duration::from_secs(3_600);

/// The error that an expired job ends with.
const EXPIRED: &str = "SELECT count(*) FROM {schema}.job
    WHERE state = 'discarded' AND attempt = 0 AND attempted_at IS NULL AND errors -> -1 ->> 'code' = 'expired'";

async fn row(database: &Database, id: JobId) -> JobRow {
    database.client.job(id).await.unwrap().unwrap()
}

/// Lets the time of a job pass.
async fn pass(database: &Database, id: JobId) {
    let pass = format!("UPDATE {{schema}}.job SET expires_at = clock_timestamp() WHERE id = '{id}'");
    assert_eq!(database.execute(&pass).await, 1);
}

/// A remote worker's fetch: the kinds of the jobs that it started.
async fn fetched(database: &Database) -> Vec<String> {
    let fetch = database.sql("SELECT kind FROM {schema}.fetch_jobs('{default}', 'remote', 10)");
    sqlx::query_scalar(fetch).fetch_all(database.pool()).await.unwrap()
}

/// A runner that has no slot for the jobs of the tests.
async fn caretaker(database: &Database) -> uniqueue::RunnerHandle {
    let runner = Runner::new(database.client.clone()).queue("unworked", 1).promote_interval(Duration::from_millis(20));
    runner.worker(async |_: RunningJob<Task>| {}).start().await.unwrap()
}

#[tokio::test]
async fn r21_a_job_that_has_not_started_in_time_never_starts_and_is_discarded_with_the_reason() {
    let database = Database::new().await;
    let client = &database.client;
    let late = client.insert(job("late").expires_at(OffsetDateTime::now_utc() + HOUR)).await.unwrap();
    let soon = client.insert(job("soon").expires_in(HOUR)).await.unwrap();
    assert_eq!(soon.job.expires_at, Some(soon.job.created_at + HOUR));
    assert_eq!(row(&database, soon.id()).await.expires_at, soon.job.expires_at);
    pass(&database, late.id()).await;
    assert_eq!(fetched(&database).await, ["soon"]);
    assert_eq!(row(&database, late.id()).await.state, JobState::Available);
    let mut events = client.clone().events();
    let runner = caretaker(&database).await;
    database.until(EXPIRED, 1).await;
    let ended = row(&database, late.id()).await;
    assert!(ended.errors[0].error.starts_with("expired: the job had not started by 2"), "{ended:?}");
    let event = tokio::time::timeout(WAIT, events.recv()).await.unwrap().unwrap();
    assert_eq!((event.id, event.happened.as_str()), (late.id(), "discarded"));
    let seen = "SELECT kind || ' ' || (waited >= interval '0') FROM {schema}.expired_job";
    assert_eq!(database.text(seen).await, "late true");
    runner.stop().await.unwrap();
}

#[tokio::test]
async fn r21_expires_in_counts_from_when_the_job_is_due() {
    let database = Database::new().await;
    let client = &database.client;
    let at = OffsetDateTime::now_utc() + 2 * HOUR;
    let jobs = [
        job("a").scheduled_in(HOUR).expires_in(HOUR),
        job("a").scheduled_in(HOUR).expires_in(HOUR).unique_key(UniqueKey::raw("k")),
        job("a").pending().expires_in(HOUR),
        job("a").scheduled_at(at).expires_at(at + HOUR),
    ];
    for each in jobs.clone() {
        let one = client.insert(each).await.unwrap().job;
        assert_eq!(one.expires_at, Some(one.scheduled_at + HOUR));
        assert_eq!(row(&database, one.id).await.expires_at, one.expires_at);
        client.delete([one.id]).await.unwrap();
    }
    for one in client.insert_many(jobs).await.unwrap() {
        assert_eq!(one.job.expires_at, Some(one.job.scheduled_at + HOUR));
        assert_eq!(row(&database, one.id()).await.expires_at, one.job.expires_at);
    }
}

#[tokio::test]
async fn r21_a_waiting_job_expires_in_every_state() {
    let database = Database::new().await;
    let client = &database.client;
    client.insert(job("available").expires_in(HOUR)).await.unwrap();
    client.insert(job("scheduled").scheduled_in(HOUR).expires_in(HOUR)).await.unwrap();
    client.insert(job("pending").pending().expires_in(HOUR)).await.unwrap();
    client.insert(job("grouped").group("g").expires_in(HOUR)).await.unwrap();
    client.queue("default").pause().await.unwrap();
    database.execute("UPDATE {schema}.job SET expires_at = clock_timestamp()").await;
    assert_eq!(database.number("SELECT expired FROM {schema}.maintain()").await, 4);
    assert_eq!(database.number(EXPIRED).await, 4);
}

#[tokio::test]
async fn r21_an_attempt_that_began_counts_as_started() {
    let database = Database::new().await;
    let client = &database.client;
    for call in [
        "fail_jobs(ARRAY[id], ARRAY[run], ARRAY['no luck'], ARRAY[interval '0'])",
        "snooze_jobs(ARRAY[id], ARRAY[run], ARRAY[interval '0'])",
    ] {
        let id = client.insert(job("a").expires_in(HOUR)).await.unwrap().id();
        assert_eq!(fetched(&database).await.len(), 1);
        let end = format!("SELECT count(*) FROM {{schema}}.job AS j, {{schema}}.{call} AS f WHERE j.id = '{id}'");
        assert_eq!(database.number(&end.replace("[id]", "[j.id]").replace("[run]", "[j.run]")).await, 1);
        let again = row(&database, id).await;
        assert_eq!((again.state, again.expires_at), (JobState::Available, None), "{call}");
        assert_eq!(fetched(&database).await.len(), 1, "{call}");
    }
    // The worker of a job dies.
    let id = client.insert(job("a").expires_in(HOUR)).await.unwrap().id();
    assert_eq!(fetched(&database).await.len(), 1);
    database.execute("UPDATE {schema}.job SET reserved_until = clock_timestamp()").await;
    assert!(database.number("SELECT rescued FROM {schema}.maintain()").await > 0);
    assert_eq!(row(&database, id).await.expires_at, None);
}

#[tokio::test]
async fn r21_a_job_that_is_given_back_has_not_started() {
    let database = Database::new().await;
    let id = database.client.insert(job("a").expires_in(HOUR)).await.unwrap().id();
    assert_eq!(fetched(&database).await.len(), 1);
    let give_back = "SELECT count(*) FROM {schema}.job AS j, {schema}.give_back_jobs(ARRAY[j.id], ARRAY[j.run])";
    assert_eq!(database.number(give_back).await, 1);
    pass(&database, id).await;
    assert!(fetched(&database).await.is_empty());
    assert_eq!(database.number("SELECT expired FROM {schema}.maintain()").await, 1);
}

#[tokio::test]
async fn r21_an_operators_retry_of_an_expired_job_runs_it_however_late() {
    let database = Database::new().await;
    let id = database.client.insert(job("a").expires_in(HOUR)).await.unwrap().id();
    pass(&database, id).await;
    assert_eq!(database.number("SELECT expired FROM {schema}.maintain()").await, 1);
    database.client.retry([id]).await.unwrap();
    let again = row(&database, id).await;
    assert_eq!((again.state, again.expires_at), (JobState::Available, None));
    assert_eq!(database.number("SELECT expired FROM {schema}.maintain()").await, 0);
    assert_eq!(fetched(&database).await, ["a"]);
    assert_eq!(database.number("SELECT count(*) FROM {schema}.expired_job").await, 0);
}

#[tokio::test]
async fn r21_an_expired_job_does_not_hold_up_its_group_or_its_queue() {
    let database = Database::new().await;
    let client = &database.client;
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

#[tokio::test]
async fn r21_a_job_that_can_expire_is_not_fetched_ahead() {
    let database = Database::new().await;
    database.client.insert_many((0..50).map(|n| NewJob::from(Task { n }).expires_in(HOUR))).await.unwrap();
    let most = Arc::new(AtomicUsize::new(0));
    let running = database.sql("SELECT count(*) FROM {schema}.job WHERE state = 'running'");
    let seen = most.clone();
    let work = move |job: RunningJob<Task>| {
        let (seen, running) = (seen.clone(), running.clone());
        async move {
            let now: i64 = sqlx::query_scalar(running).fetch_one(job.client().pool()).await.unwrap();
            seen.fetch_max(usize::try_from(now).unwrap(), Ordering::Relaxed);
        }
    };
    let runner = Runner::new(database.client.clone()).queue("default", 2).worker(work).start().await.unwrap();
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'completed'", 50).await;
    runner.stop().await.unwrap();
    // Two in slots, and results of jobs that ended which are not recorded yet.
    let most = most.load(Ordering::Relaxed);
    assert!(most <= 10, "{most} were fetched");
}

/// Runners and the service meet jobs at the very time of their expiry: each starts in time or expires, never both.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r21_no_job_starts_late_where_start_and_expiry_race() {
    const COUNT: u32 = 600;
    let database = Database::with_connections(40).await;
    let job = |n: u32| {
        let expiry = Duration::from_millis(u64::from(n * 2) + 1);
        let job = NewJob::from(Task { n }).expires_in(expiry);
        if n % 3 == 0 { job.group(format!("g{}", n % 5)).group_limit(2) } else { job }
    };
    let mut runners = Vec::new();
    database.client.insert_many((0..COUNT).map(job)).await.unwrap();
    for _ in 0..3 {
        let work = async |_: RunningJob<Task>| tokio::time::sleep(Duration::from_millis(3)).await;
        runners.push(quick(&database.client).worker(work).start().await.unwrap());
    }
    database.until("SELECT count(*) FROM {schema}.job WHERE finalized_at IS NULL", 0).await;
    for runner in runners {
        runner.stop().await.unwrap();
    }
    let late = "SELECT count(*) FROM {schema}.job WHERE attempted_at >= expires_at";
    assert_eq!(database.number(late).await, 0);
    let completed = "SELECT count(*) FROM {schema}.job WHERE state = 'completed' AND attempt = 1 AND errors = '[]'";
    let (completed, expired) = (database.number(completed).await, database.number(EXPIRED).await);
    eprintln!("{completed} started in time, {expired} expired");
    assert_eq!(completed + expired, i64::from(COUNT));
    assert!(expired > 0 && completed > 0, "{completed} {expired}");
}

/// A fetch chose a job, and its time passes before the job is started: a trigger of the start of another job stands in for
/// whatever may take time.
#[tokio::test]
async fn r21_the_start_itself_checks() {
    let database = Database::new().await;
    let client = &database.client;
    client.queue("default").limit(Some(5)).await.unwrap();
    let id = client.insert(job("a").expires_in(Duration::from_millis(400))).await.unwrap().id();
    // The fetch waits for the queue's row until the job has expired.
    let mut holder = PgConnection::connect(&database.url).await.unwrap();
    let mut transaction = holder.begin().await.unwrap();
    let lock = "SELECT FROM {schema}.queue WHERE name = 'default' FOR UPDATE";
    sqlx::query(database.sql(lock)).execute(&mut *transaction).await.unwrap();
    let fetching = tokio::spawn({
        let (pool, fetch) =
            (database.pool().clone(), database.sql("SELECT kind FROM {schema}.fetch_jobs('{default}', 'remote', 10)"));
        async move { sqlx::query_scalar::<_, String>(fetch).fetch_all(&pool).await.unwrap() }
    });
    let expired = format!("SELECT count(*) FROM {{schema}}.job WHERE id = '{id}' AND expires_at <= clock_timestamp()");
    database.until(&expired, 1).await;
    transaction.rollback().await.unwrap();
    assert!(fetching.await.unwrap().is_empty());
    assert_eq!(row(&database, id).await.state, JobState::Available);
}

#[tokio::test]
async fn r21_an_insert_never_meets_an_expired_holder() {
    let database = Database::new().await;
    let client = &database.client;
    for on_conflict in OnConflict::ALL {
        if matches!(on_conflict, OnConflict::RunAgain) {
            continue;
        }
        let unique = || job("a").unique_key(UniqueKey::raw("k").on_conflict(on_conflict));
        let holder = client.insert(unique().expires_in(HOUR)).await.unwrap().id();
        pass(&database, holder).await;
        assert_eq!(client.explain(unique()).await.unwrap().outcome.as_str(), "inserted", "{on_conflict}");
        let newcomer = client.insert(unique()).await.unwrap();
        assert!(!newcomer.duplicate && newcomer.replaced.is_none(), "{on_conflict}: {newcomer:?}");
        let holder = row(&database, holder).await;
        assert_eq!((holder.state, holder.errors.len()), (JobState::Discarded, 1), "{on_conflict}");
        client.cancel([newcomer.id()]).await.unwrap();
    }
    // In a batch, and where the claim outlasts the job.
    let exists = || job("a").unique_key(UniqueKey::raw("k").scope(UniqueScope::Exists));
    let holder = client.insert(exists().expires_in(HOUR)).await.unwrap().id();
    pass(&database, holder).await;
    let answers = client.insert_many([exists(), job("b")]).await.unwrap();
    assert!(answers[0].duplicate && answers[0].job.state == JobState::Discarded, "{answers:?}");
}

/// Inserters and the service meet an expired holder at once: one job of the key is inserted.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r21_one_of_many_inserts_takes_the_key_of_an_expired_job() {
    let database = Database::with_connections(30).await;
    let unique = || job("a").unique_key(UniqueKey::raw("k"));
    for _ in 0..5 {
        let holder = database.client.insert(unique().expires_in(HOUR)).await.unwrap().id();
        pass(&database, holder).await;
        let mut crowd = JoinSet::new();
        for _ in 0..12 {
            let client = database.client.clone();
            crowd.spawn(async move { client.insert(unique()).await.unwrap() });
        }
        let maintaining = database.number("SELECT expired FROM {schema}.maintain()");
        let (_, answers) = tokio::join!(maintaining, crowd.join_all());
        assert_eq!(answers.iter().filter(|answer| !answer.duplicate).count(), 1);
        assert_eq!(row(&database, holder).await.state, JobState::Discarded);
        database.client.cancel([answers[0].id()]).await.unwrap();
    }
}

#[tokio::test]
async fn r21_a_job_that_stands_for_others_expires_when_the_last_of_them_does() {
    let database = Database::new().await;
    let client = &database.client;
    let updating = || UniqueKey::raw("k").update(Update::merge());
    let covering = || UniqueKey::raw("k").scope(UniqueScope::Queued).on_conflict(OnConflict::RunAgain);
    let keys: [&dyn Fn() -> UniqueKey; 2] = [&updating, &covering];
    for key in keys {
        let insert = async |length: Option<Duration>| {
            let new = NewJob::new("a", &json!({"n": 1})).unique_key(key());
            let new = match length {
                Some(length) => new.expires_in(length),
                None => new,
            };
            let id = client.insert(new).await.unwrap().id();
            let row = row(&database, id).await;
            row.expires_at.map(|at| (at - row.created_at).whole_minutes())
        };
        assert_eq!(insert(Some(HOUR)).await, Some(60));
        assert_eq!(insert(Some(2 * HOUR)).await, Some(120));
        assert_eq!(insert(Some(HOUR)).await, Some(120));
        assert_eq!(insert(None).await, None);
        assert_eq!(insert(Some(HOUR)).await, None);
        database.execute("DELETE FROM {schema}.job").await;
        // In one batch.
        let jobs =
            [HOUR, 3 * HOUR, HOUR].map(|length| NewJob::new("a", &json!({})).unique_key(key()).expires_in(length));
        let answers = client.insert_many(jobs).await.unwrap();
        let stored = row(&database, answers[0].id()).await;
        assert_eq!((stored.expires_at.unwrap() - stored.created_at).whole_minutes(), 180);
        database.execute("DELETE FROM {schema}.job").await;
    }
}

#[tokio::test]
async fn r21_a_kind_says_when_its_jobs_expire_and_an_insert_gives_it_up() {
    let database = Database::new().await;
    let register = "SELECT queue IS NULL FROM {schema}.register_kind('k', expires_in => '1 h')";
    sqlx::query(database.sql(register)).execute(database.pool()).await.unwrap();
    let expiries =
        "SELECT string_agg(coalesce(date_trunc('minute', expires_at - created_at)::text, 'never'), ' ' ORDER BY id)
        FROM {schema}.job";
    for insert in [
        "SELECT {schema}.insert_job('k')",
        "SELECT {schema}.insert_job('k', expires_in => '2 h')",
        "SELECT {schema}.insert_job('k', expires_at => 'infinity')",
        "SELECT {schema}.insert_jobs('[{\"kind\": \"k\"}, {\"kind\": \"k\", \"expires_in\": \"PT3H\"}]')",
        "SELECT {schema}.insert_jobs('[{\"kind\": \"k\", \"expires_in\": null}, {\"kind\": \"k\", \"expires_at\": null}]')",
    ] {
        database.execute(insert).await;
    }
    assert_eq!(database.text(expiries).await, "01:00:00 02:00:00 never 01:00:00 03:00:00 never never");
    let filled = database.client.kinds().fill_in(job("k")).await.unwrap();
    assert_eq!(filled.clone().never_expires().expires_in(HOUR).kind(), "k");
    let inserted = database.client.insert(filled).await.unwrap().job;
    assert_eq!(inserted.expires_at, Some(inserted.created_at + HOUR));
}

#[tokio::test]
async fn r21_a_batch_of_another_driver_says_when_its_jobs_expire() {
    let database = Database::new().await;
    let at = OffsetDateTime::from_unix_timestamp(4_000_000_000).unwrap();
    let jobs = [job("a").expires_at(at), job("b").expires_in(HOUR), job("c").never_expires()];
    let document = serde_json::to_string(&jobs).unwrap();
    let insert = database.sql("SELECT id FROM {schema}.insert_jobs($1::text::jsonb)");
    let ids: Vec<uuid::Uuid> = sqlx::query_scalar(insert).bind(document).fetch_all(database.pool()).await.unwrap();
    let rows = [0, 1, 2].map(|n| row(&database, JobId::from(ids[n])));
    let [a, b, c] = rows;
    let (a, b, c) = (a.await, b.await, c.await);
    assert_eq!((a.expires_at, b.expires_at, c.expires_at), (Some(at), Some(b.created_at + HOUR), None));
}

#[tokio::test]
async fn r21_what_cannot_be_an_expiry_is_an_error_that_says_so() {
    let database = Database::new().await;
    let client = &database.client;
    let at = OffsetDateTime::UNIX_EPOCH + 100 * HOUR;
    for (job, problem) in [
        (job("a").expires_in(Duration::ZERO), "invalid expires_in: must be more than 0 and at most 100 years: 0ns"),
        (job("a").scheduled_at(at).expires_at(at), "invalid expires_at: must be after scheduled_at: "),
    ] {
        let error = client.insert(job).await.unwrap_err().to_string();
        assert!(error.starts_with(problem), "{error}");
    }
    for (insert, problem) in [
        (
            "insert_job('a', expires_in => '0')",
            "invalid expires_in: must be more than 0 and at most 100 years: 00:00:00",
        ),
        (
            "insert_job('a', expires_in => '1 s', expires_at => now())",
            "invalid expires_in: not together with expires_at",
        ),
        ("insert_job('a', expires_at => '-infinity')", "invalid expires_at: must be in the years 1 to 9000"),
        (
            "insert_jobs('[{\"kind\": \"a\", \"expires_in\": \"soon\"}]')",
            "job 0: invalid expires_in: is not a length of time: \"soon\"",
        ),
        (
            "insert_jobs('[{\"kind\": \"a\", \"expires_at\": \"soon\"}]')",
            "job 0: invalid expires_at: must be a time with its zone",
        ),
        ("insert_jobs('[{\"kind\": \"a\", \"expires_at\": 3}]')", "job 0: invalid expires_at: must be a string: 3"),
        ("register_kind('a', expires_in => '-1 s')", "invalid expires_in: must be more than 0"),
    ] {
        let error = sqlx::query(database.sql(&format!("SELECT {{schema}}.{insert}"))).execute(database.pool()).await;
        let error = error.unwrap_err().into_database_error().unwrap().message().to_owned();
        assert!(error.starts_with(problem), "{insert}: {error}");
    }
}

#[tokio::test]
async fn r21_an_expiry_in_the_past_is_not_an_error_of_the_callers_transaction() {
    let database = Database::new().await;
    let id = database.client.insert(job("a").expires_at(OffsetDateTime::now_utc() - HOUR)).await.unwrap().id();
    assert!(fetched(&database).await.is_empty());
    assert_eq!(database.number("SELECT expired FROM {schema}.maintain()").await, 1);
    assert_eq!(row(&database, id).await.state, JobState::Discarded);
}

#[tokio::test]
async fn r21_a_job_that_cannot_be_discarded_holds_up_no_other() {
    let database = Database::new().await;
    let client = &database.client;
    let stuck = client.insert(job("stuck").expires_in(HOUR)).await.unwrap().id();
    client.insert(job("a").expires_in(HOUR)).await.unwrap();
    database
        .execute(&format!(
            "CREATE FUNCTION {{schema}}.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN RAISE 'no'; END $$"
        ))
        .await;
    database
        .execute(
            "CREATE TRIGGER refuse BEFORE UPDATE ON {schema}.job FOR EACH ROW
            WHEN (OLD.kind = 'stuck' AND NEW.state = 'discarded') EXECUTE FUNCTION {schema}.refuse()",
        )
        .await;
    database.execute("UPDATE {schema}.job SET expires_at = clock_timestamp()").await;
    let runner = caretaker(&database).await;
    database.until(EXPIRED, 1).await;
    assert_eq!(row(&database, stuck).await.state, JobState::Available);
    assert!(fetched(&database).await.is_empty());
    runner.stop().await.unwrap();
}

/// The server's clock was ahead when the job was inserted, and went back: the database's clock decides what is now.
#[tokio::test]
async fn r21_a_clock_that_went_back_expires_nothing_early() {
    let database = Database::new().await;
    let id = database.client.insert(job("a").scheduled_in(HOUR).expires_in(HOUR)).await.unwrap().id();
    database.execute("UPDATE {schema}.job SET created_at = now() + interval '1 h'").await;
    assert_eq!(database.number("SELECT expired FROM {schema}.maintain()").await, 0);
    let next_in = "SELECT next_in BETWEEN 7100000 AND 7200000 FROM {schema}._expire_jobs(10, NULL)";
    let is_two_hours: bool = sqlx::query_scalar(database.sql(next_in)).fetch_one(database.pool()).await.unwrap();
    assert!(is_two_hours);
    assert_eq!(row(&database, id).await.state, JobState::Scheduled);
}

#[tokio::test]
async fn r21_a_retry_of_a_worker_is_not_cut_short() {
    let database = Database::new().await;
    let id = database.client.insert(NewJob::from(Task { n: 1 }).expires_in(HOUR)).await.unwrap().id();
    let expire = database.sql("UPDATE {schema}.job SET expires_at = clock_timestamp()");
    let work = move |job: RunningJob<Task>| {
        let expire = expire.clone();
        async move {
            if job.attempt() > 1 {
                return Ok(Outcome::complete());
            }
            // Its time passes while it runs.
            sqlx::query(expire).execute(job.client().pool()).await.unwrap();
            Err("no luck")
        }
    };
    let runner = quick(&database.client).worker(work).start().await.unwrap();
    let ended =
        format!("SELECT count(*) FROM {{schema}}.job WHERE id = '{id}' AND state = 'completed' AND attempt = 2");
    database.until(&ended, 1).await;
    runner.stop().await.unwrap();
}

#[derive(serde::Deserialize, serde::Serialize, uniqueue::Job)]
#[job(kind = "reminder", expires_in = "15m")]
struct Reminder {}

#[tokio::test]
async fn r21_a_kind_in_rust_says_when_its_jobs_expire_and_registers_it() {
    let database = Database::new().await;
    let client = &database.client;
    let quarter = Duration::from_secs(900);
    let one = client.insert(Reminder {}).await.unwrap().job;
    assert_eq!(one.expires_at, Some(one.scheduled_at + quarter));
    assert_eq!(client.insert(NewJob::from(Reminder {}).never_expires()).await.unwrap().job.expires_at, None);
    assert_eq!(client.register::<Reminder>().await.unwrap().expires_in, Some(quarter));
    database.execute("SELECT {schema}.insert_job('reminder')").await;
    let alike = "SELECT count(*) FROM {schema}.job WHERE expires_at = scheduled_at + interval '15 min'";
    assert_eq!(database.number(alike).await, 2);
}

#[tokio::test]
async fn r21_a_job_after_one_that_expired_is_cancelled() {
    let database = Database::new().await;
    let parent = database.client.insert(job("parent").expires_in(HOUR)).await.unwrap().id();
    database.execute(&format!("SELECT {{schema}}.insert_job('child', after => ARRAY['{parent}'::uuid])")).await;
    pass(&database, parent).await;
    let runner = caretaker(&database).await;
    database.until("SELECT count(*) FROM {schema}.job WHERE kind = 'child' AND state = 'cancelled'", 1).await;
    runner.stop().await.unwrap();
}
