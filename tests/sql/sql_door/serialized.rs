//! A `NewJob` as JSON: what `insert_jobs` inserts for it is what the client inserts.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use uniqueue::{Job, JobId, JobRow, NewJob, OnConflict, OnReentry, UniqueKey, UniquePolicy, UniqueScope};
use uuid::Uuid;

use support::Database;

#[derive(Deserialize, Job, Serialize)]
#[job(kind = "mail", queue = "emails", priority = -3, max_attempts = 4, unique(queue, period = "PT1H"))]
struct Mail {
    #[job(unique)]
    to: String,
    #[job(unique)]
    #[serde(skip_serializing_if = "Option::is_none")]
    copy: Option<String>,
    amount: f64,
}

fn mail(copy: Option<&str>) -> Mail {
    Mail { to: "ada@example.com".into(), copy: copy.map(str::to_owned), amount: 0.1 }
}

/// Jobs with every option, each with a key of its own.
fn jobs() -> Vec<NewJob> {
    let hour = Duration::from_secs(3600);
    let later = time::macros::datetime!(2999-01-02 03:04:05.678901 UTC);
    let key = UniqueKey::raw("a \"raw\" key").ttl(hour).until_start().on_reentry(OnReentry::Discard);
    let args = json!({"tenant": 7, "order": {"id": 12_345_678_901_234_567_890_u64, "text": "é \\ \u{1F980}"}});
    let args = || NewJob::new("order", &args);
    let by_part = UniquePolicy::new().by_arg_fields(["/order/id"]).by_meta(["tenant"]).exclude_kind();
    vec![
        NewJob::from(mail(None)),
        NewJob::from(mail(Some("bob@example.com"))).queue("bulk").priority(9).meta("trace", "x"),
        args(),
        args().id(JobId::from(Uuid::now_v7())).pending(),
        args().unique_key(key),
        args().unique(by_part.on_conflict(OnConflict::Replace)).meta("tenant", json!([1, null])),
        args().unique(UniquePolicy::new().by_args().window(hour).scope(UniqueScope::Exists)).scheduled_at(later),
        args().unique(UniquePolicy::river().by_args()),
        args().unique(UniquePolicy::river()),
        args().unique(UniquePolicy::faktory(hour)).max_attempts(1),
        args().unique(UniquePolicy::zizq()),
    ]
}

/// What the insert decides of a row.
fn decided(row: &JobRow) -> impl PartialEq + std::fmt::Debug + use<> {
    let claims_for = row.unique_until.map(|until| until - row.created_at.max(row.scheduled_at));
    let is_later = row.scheduled_at > row.created_at;
    (
        (row.kind.to_string(), row.queue.to_string(), row.args.get().to_owned(), row.meta.clone()),
        (row.priority, row.max_attempts, row.state, is_later.then_some(row.scheduled_at)),
        (row.unique_key.clone(), row.unique_states, claims_for),
    )
}

#[tokio::test]
async fn a_job_that_is_inserted_as_json_is_the_one_that_the_client_inserts() {
    let [by_client, by_json] = [Database::new().await, Database::new().await];
    let text = serde_json::to_string(&jobs()).unwrap();
    let insert = by_json.sql("SELECT id FROM {schema}.insert_jobs($1::text::jsonb) ORDER BY index");
    let ids: Vec<Uuid> = sqlx::query_scalar(insert).bind(&text).fetch_all(by_json.pool()).await.unwrap();
    let inserted = by_client.client.insert_many(jobs()).await.unwrap();
    assert_eq!(ids.len(), inserted.len());
    for (id, inserted) in ids.into_iter().zip(&inserted) {
        let row = by_json.client.job(JobId::from(id)).await.unwrap().unwrap();
        assert_eq!(decided(&row), decided(&inserted.job));
    }
    // Each meets the other's key.
    let unique: Vec<NewJob> = [0, 4, 7, 9].into_iter().map(|place| jobs().swap_remove(place)).collect();
    for (job, place) in unique.into_iter().zip([0, 4, 7, 9]) {
        let met = by_json.client.insert(job).await;
        match met {
            Ok(met) => assert!(met.duplicate, "job {place}"),
            Err(error) => assert_eq!(error.rejections().len(), 1, "job {place}: {error}"),
        }
    }
}

#[test]
fn what_sql_cannot_say_is_an_error() {
    let delayed = NewJob::new("a", &json!({})).scheduled_in(Duration::from_secs(5));
    let error = serde_json::to_string(&delayed).unwrap_err().to_string();
    assert_eq!(error, "scheduled_in needs the database's clock: 5s; hint: give scheduled_at instead");
    let invalid = NewJob::new("a", &json!({})).unique(UniquePolicy::new().window(Duration::from_millis(1)));
    assert!(serde_json::to_string(&invalid).is_err());
}
