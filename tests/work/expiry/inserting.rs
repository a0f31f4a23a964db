//! The expiry that an insert or a kind gives to a job.

use std::time::Duration;

use time::OffsetDateTime;
use uniqueue::{Client, JobId, JobState, NewJob, UniqueKey};

use super::{HOUR, fetched, row};
use support::{Database, job};

#[derive(serde::Deserialize, serde::Serialize, uniqueue::Job)]
#[job(kind = "reminder", expires_in = "15m")]
struct Reminder {}

#[support::test]
async fn r21_expires_in_counts_from_when_the_job_is_due(database: Database, client: &Client) {
    let at = OffsetDateTime::now_utc() + 2 * HOUR;
    let jobs = [
        job("a").scheduled_in(HOUR).expires_in(HOUR),
        job("a").scheduled_in(HOUR).expires_in(HOUR).unique_key(UniqueKey::raw("k")),
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

#[support::test]
async fn r21_a_kind_says_when_its_jobs_expire_and_an_insert_gives_it_up(database: Database) {
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

#[support::test]
async fn r21_a_batch_of_another_driver_says_when_its_jobs_expire(database: Database) {
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

#[support::test]
async fn r21_an_invalid_expiry_is_an_error_that_names_it(database: Database, client: &Client) {
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
            "job 0: invalid expires_in: must be an interval, such as 90s or PT15M: \"soon\"",
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

#[support::test]
async fn r21_an_expiry_in_the_past_is_not_an_error_of_the_callers_transaction(database: Database) {
    let id = database.client.insert(job("a").expires_at(OffsetDateTime::now_utc() - HOUR)).await.unwrap().id();
    assert!(fetched(&database).await.is_empty());
    assert_eq!(database.number("SELECT expired FROM {schema}.maintain()").await, 1);
    assert_eq!(row(&database, id).await.state, JobState::Discarded);
}

#[support::test]
async fn r21_a_kind_in_rust_says_when_its_jobs_expire_and_registers_it(database: Database, client: &Client) {
    let quarter = Duration::from_secs(900);
    let one = client.insert(Reminder {}).await.unwrap().job;
    assert_eq!(one.expires_at, Some(one.scheduled_at + quarter));
    assert_eq!(client.insert(NewJob::from(Reminder {}).never_expires()).await.unwrap().job.expires_at, None);
    assert_eq!(client.register::<Reminder>().await.unwrap().unwrap().expires_in, Some(quarter));
    database.execute("SELECT {schema}.insert_job('reminder')").await;
    let alike = "SELECT count(*) FROM {schema}.job WHERE expires_at = scheduled_at + interval '15 min'";
    assert_eq!(database.number(alike).await, 2);
}

#[support::test]
async fn r21_an_argument_and_a_member_read_expires_in_alike(database: Database) {
    let length = "extract(epoch FROM expires_at - scheduled_at)::bigint FROM {schema}.job WHERE id";
    for (text, seconds) in
        [("90s", 90), ("PT15M", 900), ("90 seconds", 90), ("1 day 02:00", 93_600), ("1 h 30 min", 5_400)]
    {
        for insert in [
            format!("insert_job('a', expires_in => '{text}')"),
            format!("insert_jobs('[{{\"kind\": \"a\", \"expires_in\": \"{text}\"}}]')"),
        ] {
            let id = database.text(&format!("SELECT id::text FROM {{schema}}.{insert}")).await;
            assert_eq!(database.number(&format!("SELECT {length} = '{id}'")).await, seconds, "{insert}");
        }
    }
}
