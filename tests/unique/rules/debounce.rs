//! R13: a policy that debounces says when its jobs are due, through every door.

use std::time::Duration;

use serde_json::json;
use time::OffsetDateTime;
use uniqueue::{JobFilter, JobRow, UniqueKey, UniquePolicy, UniqueScope, Update};

use support::{Database, job};

const DELAY: Duration = Duration::from_secs(1_800);
const LONGEST: Duration = Duration::from_secs(3_600);

fn debounced() -> UniquePolicy {
    UniquePolicy::new().scope(UniqueScope::Queued).update(Update::latest().debounce(DELAY, LONGEST))
}

/// How long after its insert a job is due.
fn delay(row: &JobRow) -> Duration {
    (row.scheduled_at - row.created_at).try_into().unwrap()
}

async fn only(database: &Database) -> JobRow {
    let mut jobs = database.client.jobs(JobFilter::all()).await.unwrap();
    assert_eq!(jobs.len(), 1);
    jobs.remove(0)
}

#[support::test]
async fn r13_a_debounced_job_is_due_a_delay_after_its_latest_duplicate(database: Database) {
    let document = json!({"scope": "queued", "debounce": "30m", "max_delay": "1h"});
    let key = UniqueKey::raw("k").update(Update::latest().debounce(DELAY, LONGEST));
    let read = UniquePolicy::from_ojs(&document).unwrap();
    for insert in [job("a").unique(debounced()), job("a").unique(read), job("a").unique_key(key)] {
        database.execute("DELETE FROM {schema}.job").await;
        let first = database.client.insert(insert.clone()).await.unwrap();
        assert_eq!(delay(&first.job), DELAY);
        let second = database.client.insert(insert).await.unwrap();
        assert!(second.updated && second.job.scheduled_at > first.job.scheduled_at);
    }
}

#[support::test]
async fn r13_sql_and_its_bulk_function_debounce_like_rust(database: Database) {
    let policy = r#"{"key": "k", "scope": "queued", "debounce": "30m", "max_delay": "PT1H"}"#;
    let one = format!("SELECT outcome FROM {{schema}}.insert_job('a', unique_policy => '{policy}')");
    let many =
        format!("SELECT outcome FROM {{schema}}.insert_jobs('[{{\"kind\": \"a\", \"unique_policy\": {policy}}}]')");
    let explained =
        format!("SELECT new_scheduled_at::text FROM {{schema}}.explain_unique('a', unique_policy => '{policy}')");
    for insert in [&one, &many] {
        database.execute("DELETE FROM {schema}.job").await;
        assert_eq!(database.text(insert).await, "inserted");
        let first = only(&database).await;
        assert!(delay(&first).abs_diff(DELAY) < Duration::from_secs(60), "{:?}", delay(&first));
        assert_eq!(first.state.as_str(), "scheduled");
        assert!(!database.text(&explained).await.is_empty());
        assert_eq!(database.text(insert).await, "updated");
        assert!(only(&database).await.scheduled_at > first.scheduled_at);
    }
}

#[support::test]
async fn r13_a_time_of_the_insert_itself_comes_before_the_delay(database: Database) {
    let at = OffsetDateTime::now_utc().replace_nanosecond(0).unwrap() + Duration::from_secs(600);
    let found = database.client.insert(job("a").unique(debounced())).scheduled_at(at).await.unwrap();
    assert_eq!(found.job.scheduled_at, at);
    database.execute("DELETE FROM {schema}.job").await;
    let now = database.client.insert(job("a").unique(debounced())).scheduled_now().await.unwrap();
    assert_eq!(now.job.state.as_str(), "available");
    // Another policy of the call has another delay, or none.
    let other = database.client.insert(job("b").unique(debounced())).unique(UniquePolicy::new()).await.unwrap();
    assert_eq!(other.job.state.as_str(), "available");
}

#[support::test]
async fn r13_a_debounced_job_as_json_is_due_as_in_rust(database: Database) {
    for (insert, is_delayed) in
        [(job("a").unique(debounced()), true), (job("a").unique(debounced()).scheduled_now(), false)]
    {
        database.execute("DELETE FROM {schema}.job").await;
        let jobs = serde_json::to_string(&[insert]).unwrap();
        let insert = "SELECT outcome FROM {schema}.insert_jobs($1::text::jsonb)";
        sqlx::query(database.sql(insert)).bind(jobs).execute(database.pool()).await.unwrap();
        assert_eq!(delay(&only(&database).await) > DELAY / 2, is_delayed);
    }
}
