//! Simulated time.

use uniqueue::testing::{self, Advanced, Database};
use uniqueue::{assert_duplicate, assert_inserted, assert_not_duplicate, assert_not_inserted};

use super::Task;
use support::prelude::*;

#[support::test]
async fn what_is_due_becomes_available_and_nothing_else(database: testing::Database, client: &Client) {
    let soon = client.insert(Task { n: 1 }).scheduled_in(HOUR).await.unwrap();
    let late = client.insert(Task { n: 2 }).scheduled_in(3 * HOUR).await.unwrap();
    let advanced = database.advance(2 * HOUR).await.unwrap();
    assert_eq!((advanced.promoted, advanced.rescued), (1, 0));
    assert_eq!(client.job(soon.id()).await.unwrap().unwrap().state, JobState::Available);
    let row = client.job(late.id()).await.unwrap().unwrap();
    assert_eq!((row.state, row.scheduled_at), (JobState::Scheduled, late.job.scheduled_at - 2 * HOUR));
    assert_eq!(database.advance(HOUR).await.unwrap().promoted, 1);
    assert_eq!(database.advance(Duration::ZERO).await.unwrap(), Advanced::default());
}

#[support::test]
async fn retries_and_snoozes_come_when_their_time_has(database: testing::Database, client: &Client) {
    let work = |job: RunningJob<Task>| async move {
        match (job.args.n, job.attempt(), job.row().errors.len()) {
            (1, 1, 0) => Err("not yet"),
            (2, 1, 0) if job.row().meta.is_empty() => Ok(Outcome::snooze(HOUR)),
            _ => Ok(Outcome::complete()),
        }
    };
    let build = || {
        let policy = RetryPolicy::fixed(HOUR / 2);
        Runner::new(client.clone()).queue("default", 1).retry_policy(policy).worker(work)
    };
    client.insert_many([Task { n: 1 }, Task { n: 2 }]).await.unwrap();
    let drained = testing::drain(build()).await.unwrap();
    assert_eq!((drained.failed(), drained.snoozed()), (1, 1));
    database.advance(HOUR / 2).await.unwrap();
    assert_eq!(testing::drain(build()).await.unwrap().completed(), 1);
    database.advance(HOUR / 2).await.unwrap();
    assert_eq!(testing::drain(build()).await.unwrap().snoozed(), 1);
}

#[support::test]
async fn claims_with_a_period_or_a_ttl_expire(database: testing::Database, client: &Client) {
    let forever = UniqueKey::raw("forever");
    let period = UniqueKey::raw("period").period(HOUR);
    let ttl = UniqueKey::raw("ttl").ttl(2 * HOUR);
    for key in [&forever, &period, &ttl] {
        assert_not_duplicate!(client.insert(Task { n: 1 }).unique_key(key.clone()).await);
    }
    database.advance(HOUR).await.unwrap();
    assert_not_duplicate!(client.insert(Task { n: 1 }).unique_key(period).await);
    assert_duplicate!(client.insert(Task { n: 1 }).unique_key(ttl.clone()).await);
    database.advance(HOUR).await.unwrap();
    assert_not_duplicate!(client.insert(Task { n: 1 }).unique_key(ttl).await);
    assert_duplicate!(client.insert(Task { n: 1 }).unique_key(forever).await);
}

#[support::test]
async fn the_next_window_opens_when_its_time_has_come(database: testing::Database, client: &Client) {
    // An application's own client, on a pool of its own.
    let other = uniqueue::Client::connect(database.url()).await.unwrap();
    let daily = || UniquePolicy::new().window(24 * HOUR);
    let in_sql = async || {
        let insert = r#"SELECT duplicate FROM uniqueue.insert_job('task', '{"n": 1}', unique_policy => '{"window": "P1D", "keys": ["type"]}')"#;
        sqlx::query_scalar::<_, bool>(insert).fetch_one(database.pool()).await.unwrap()
    };
    for _ in 0..3 {
        let first = client.insert(Task { n: 1 }).unique(daily()).await;
        assert_not_duplicate!(first);
        let duplicates = [
            client.insert(Task { n: 1 }).unique(daily()).await.unwrap().duplicate,
            other.insert(Task { n: 1 }).unique(daily()).await.unwrap().duplicate,
            in_sql().await,
        ];
        // Should the real day end here, the rest of the test would prove nothing.
        assert_eq!(duplicates, [true; 3]);
        database.advance(24 * HOUR).await.unwrap();
    }
    assert!(!in_sql().await);
    assert_duplicate!(other.insert(Task { n: 1 }).unique(daily()).await);
}

#[support::test]
async fn a_schedule_keeps_its_window_while_time_passes(database: testing::Database, client: &Client) {
    let daily = UniquePolicy::new().window(24 * HOUR);
    // A day that does not end while this runs: the window is that of the schedule.
    let at = time::OffsetDateTime::now_utc().replace_time(time::Time::MIDNIGHT) + Duration::from_secs(2 * 86_400);
    let insert = |at| client.insert(Task { n: 1 }).unique(daily.clone()).scheduled_at(at);
    let first = insert(at).await.unwrap();
    database.advance(24 * HOUR).await.unwrap();
    // The job is due a day earlier on the real clock, as everything is.
    assert_eq!(client.job(first.id()).await.unwrap().unwrap().scheduled_at, at - 24 * HOUR);
    assert_duplicate!(insert(at - HOUR).await, of = first);
    assert_not_duplicate!(insert(at).await);
}

#[support::test]
async fn jobs_of_a_runner_that_died_come_back_after_its_lease(database: testing::Database, client: &Client) {
    let job = client.insert(Task { n: 1 }).await.unwrap();
    let died = uuid::Uuid::now_v7();
    for statement in [
        "INSERT INTO uniqueue.runner (id, name, queues, leased_until, knows_groups) VALUES ($1, 'died', '{default}', now() + interval '20 s', true)",
        "UPDATE uniqueue.job SET state = 'running', attempt = 1, worker = $1",
    ] {
        sqlx::query(statement).bind(died).execute(database.pool()).await.unwrap();
    }
    assert_eq!(database.advance(Duration::from_secs(10)).await.unwrap().rescued, 0);
    assert_eq!(database.advance(Duration::from_secs(10)).await.unwrap().rescued, 1);
    let row = client.job(job.id()).await.unwrap().unwrap();
    assert_eq!((row.state, row.attempt, row.crashes), (JobState::Retryable, 0, 1));
}

#[support::test]
async fn no_time_in_the_schema_is_forgotten(database: testing::Database) {
    let shifted: Vec<String> = sqlx::query_scalar(
        "SELECT c.relname || '.' || a.attname FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid
         WHERE c.relnamespace = 'uniqueue'::regnamespace AND c.relkind = 'r' AND a.attnum > 0
            AND a.atttypid IN ('timestamptz'::regtype, 'timestamp'::regtype, 'date'::regtype) AND a.attgenerated = ''",
    )
    .fetch_all(database.pool())
    .await
    .unwrap();
    let (_, statement) =
        database.client().statements_text().into_iter().find(|(name, _)| *name == "time_shifts").unwrap();
    let statements: Vec<String> =
        sqlx::query_scalar(sqlx::AssertSqlSafe(statement)).bind("uniqueue").fetch_all(database.pool()).await.unwrap();
    assert!(shifted.len() >= 8, "{shifted:?}");
    for column in &shifted {
        let (table, column) = column.split_once('.').unwrap();
        let is_shifted = statements.iter().any(|statement| {
            statement.starts_with(&format!("UPDATE uniqueue.{table} SET"))
                && statement.contains(&format!("{column} = {column} - $1"))
        });
        assert!(is_shifted, "{table}.{column} stays where it is: {statements:#?}");
    }
}

#[support::test]
async fn slots_of_periodic_jobs_are_run_each_time_that_time_passes_over_them(database: testing::Database) {
    let client = database.client();
    client.define_periodic(PeriodicJob::every("hourly", HOUR, Task { n: 1 })).await.unwrap();
    client.define_periodic(PeriodicJob::cron("daily", "0 9 * * *", Task { n: 2 })).await.unwrap();
    client.define_periodic(PeriodicJob::every("paused", HOUR, Task { n: 3 })).await.unwrap();
    Admin::new(client).periodic().pause("paused").await.unwrap();
    for days in 1..4 {
        let advanced = database.advance(24 * HOUR).await.unwrap();
        // Should an hour end between two looks at the clock, its slot is run besides.
        assert!((25..=27).contains(&advanced.periodic), "{advanced:?}");
        let daily = assert_inserted!(database, Task, args = {"n": 2}, state = JobState::Available);
        assert!((days..=days + 1).contains(&daily.len()), "{daily:?}");
    }
    assert_not_inserted!(database, Task, args = {"n": 3});
    let hourly = Admin::new(client).periodic().find("hourly").await.unwrap().unwrap();
    let next_in = hourly.next_at.unwrap() - time::OffsetDateTime::now_utc();
    assert!(next_in <= HOUR && next_in > -time::Duration::MINUTE, "{next_in}");
}

#[tokio::test]
async fn one_connection_is_enough() {
    let database = Database::with(Client::builder().max_connections(1)).await.unwrap();
    database.client().define_periodic(PeriodicJob::every("hourly", HOUR, Task { n: 1 })).await.unwrap();
    let advanced = timeout(WAIT, database.advance(24 * HOUR)).await.unwrap().unwrap();
    assert!(advanced.periodic >= 23, "{advanced:?}");
}
