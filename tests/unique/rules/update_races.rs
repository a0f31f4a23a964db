//! R13: `update` beside other callers and runners.

use super::updates::updating;
use support::prelude::*;

/// A list that grows while it waits.
#[derive(Debug, Deserialize, Job, Serialize)]
#[job(kind = "a")]
struct Items {
    items: Vec<usize>,
}

#[tokio::test]
async fn r13_concurrent_appends_lose_no_item_and_repeat_none() {
    append(false).await;
}

#[tokio::test]
async fn r13_concurrent_appends_lose_no_item_while_a_runner_starts_their_jobs() {
    append(true).await;
}

async fn append(is_worked: bool) {
    let writers = soak(8, 16);
    let each = soak(15, 100);
    let database = Database::with_connections(writers as u32).await;
    static WORKED: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    if is_worked {
        let work = async |job: RunningJob<Items>| WORKED.lock().unwrap().extend(job.args.items);
        database.start(quick(&database.client).worker(work)).await;
    }
    let write = |writer| {
        let client = database.client.clone();
        async move {
            for n in 0..each {
                let item = json!({"items": [writer * each + n]});
                // Some in a transaction that is rolled back first.
                if n % 3 == 0 {
                    let mut tx = client.pool().begin().await.unwrap();
                    client.insert(updating(&item, Update::append().max_items(20))).tx(&mut tx).await.unwrap();
                    tx.rollback().await.unwrap();
                }
                client.insert(updating(&item, Update::append().max_items(20))).await.unwrap();
            }
        }
    };
    together((0..writers).map(write)).await;
    let rows = sqlx::query(database.sql("SELECT args FROM {schema}.job")).fetch_all(database.pool()).await.unwrap();
    let mut items = Vec::new();
    for row in rows {
        let args: Value = row.get(0);
        let list: Vec<usize> = serde_json::from_value(args["items"].clone()).unwrap();
        assert!(list.len() <= 20);
        items.extend(list);
    }
    items.sort_unstable();
    assert_eq!(items, (0..writers * each).collect::<Vec<_>>());
    if is_worked {
        database.until("SELECT count(*) FROM {schema}.job WHERE state <> 'completed'", 0).await;
        database.end().await;
        let mut worked = WORKED.lock().unwrap();
        worked.sort_unstable();
        assert_eq!(*worked, items, "each item was worked once");
    }
}

#[support::test]
async fn r13_a_debounced_job_runs_within_max_delay_under_events_that_never_end(database: Database, client: &Client) {
    let max_delay = Duration::from_millis(1_500);
    let event = || updating(&json!({}), Update::latest().push(max_delay)).scheduled_in(Duration::from_millis(700));
    let first = client.insert(event()).await.unwrap().job;
    // Each event comes before the job is due. By the order of their times, the last that moves it cannot move it far.
    loop {
        let answer = client.insert(event()).await.unwrap();
        assert!(answer.updated, "the holder waits, since nothing fetches it");
        assert!(answer.job.scheduled_at <= first.created_at + max_delay);
        if answer.job.scheduled_at < answer.answered_at {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let due = client.job(first.id).await.unwrap().unwrap();
    assert_eq!(due.scheduled_at, first.created_at + max_delay);
}

#[support::test]
async fn r13_a_runner_starts_a_debounced_job_within_max_delay_under_events_that_never_end(database: Database) {
    let client = &database.client;
    database.start(quick(client).worker(|_: RunningJob<Items>| std::future::ready(()))).await;
    let max_delay = Duration::from_millis(1_500);
    let event = json!({"items": [1]});
    let event = || updating(&event, Update::latest().push(max_delay)).scheduled_in(Duration::from_millis(700));
    let first = client.insert(event()).await.unwrap().job;
    let mut starts = 0;
    let started = loop {
        starts += u32::from(!client.insert(event()).await.unwrap().updated);
        if let Some(started) = client.job(first.id).await.unwrap().unwrap().attempted_at {
            break started;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let waited = started - first.created_at;
    assert!(waited >= max_delay && waited < max_delay + soak(1, 3) * Duration::from_secs(1), "it waited for {waited}");
    assert!(starts <= 1, "an event after the start is the next job");
}

const DELAY: Duration = Duration::from_secs(1_800);
const LONGEST: Duration = HOUR;

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
        assert!(delay(&first).abs_diff(DELAY) < MINUTE, "{:?}", delay(&first));
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
