//! `insert_jobs`: R10 through the SQL door.

use sqlx::types::Json;

use super::told;
use support::prelude::*;

/// One row of the answer.
#[derive(Debug, Deserialize, PartialEq)]
struct Answer {
    index: usize,
    id: Option<Uuid>,
    state: Option<String>,
    duplicate: bool,
    replaced: Option<Uuid>,
    unique_key: Option<String>,
    outcome: String,
    earlier: Option<i32>,
}

async fn insert(database: &Database, jobs: &Value, more: &str) -> Result<Vec<Answer>, sqlx::Error> {
    let insert = database.sql(&format!("SELECT to_jsonb(i) FROM {{schema}}.insert_jobs($1{more}) AS i"));
    let answers: Vec<Json<Answer>> = sqlx::query_scalar(insert).bind(jobs).fetch_all(database.pool()).await?;
    assert!(answers.iter().enumerate().all(|(place, Json(answer))| answer.index == place));
    Ok(answers.into_iter().map(|Json(answer)| answer).collect())
}

fn keyed(key: &str, on_conflict: &str) -> Value {
    json!({"kind": "a", "unique_policy": {"key": key, "on_conflict": on_conflict}})
}

#[support::test]
async fn members_that_are_left_out_have_the_defaults_of_insert_job(database: Database) {
    let nulls = json!({
        "kind": "bare", "args": null, "queue": null, "meta": null, "priority": null, "max_attempts": null,
        "scheduled_at": null, "id": null, "unique_policy": null, "pending": null,
    });
    let zoned = json!({"kind": "bare", "scheduled_at": "2999-01-01T00:00:00+02:00"});
    let jobs = json!([zoned, {"kind": "bare"}, nulls, {"kind": "bare", "pending": true}]);
    let answers = insert(&database, &jobs, "").await.unwrap();
    let states: Vec<_> = answers.iter().map(|answer| answer.state.as_deref().unwrap()).collect();
    assert_eq!(states, ["scheduled", "available", "available", "pending"]);
    let jobs = async |n: usize| database.client.job(JobId::from(answers[n].id.unwrap())).await.unwrap().unwrap();
    assert_eq!(jobs(0).await.scheduled_at, datetime!(2998-12-31 22:00 UTC));
    let (bare, nulls) = (jobs(1).await, jobs(2).await);
    assert_eq!((bare.args.get(), nulls.args.get()), ("{}", "null"));
    for job in [bare, nulls] {
        assert_eq!((job.queue.as_str(), job.priority, job.max_attempts), ("default", 0, 25));
        assert!(job.meta.is_empty() && job.unique_key.is_none());
    }
    assert_eq!(insert(&database, &json!([]), "").await.unwrap(), []);
}

#[support::test]
async fn r10_a_rejected_sql_batch_inserts_nothing_and_is_rows_or_an_error_as_asked(database: Database) {
    let client = &database.client;
    let waiting = client.insert(job("a").unique_key(UniqueKey::raw("waits"))).await.unwrap().id();
    let key = UniqueKey::raw("runs").scope(UniqueScope::Active);
    let running = client.insert(job("a").unique_key(key)).await.unwrap().id();
    database.set_state(running, "running").await;
    let jobs = json!([
        {"kind": "plain"}, keyed("waits", "reject"), keyed("waits", "ignore"), keyed("runs", "replace"),
        keyed("new", "reject"), keyed("new", "reject"),
    ]);
    let error = insert(&database, &jobs, "").await.unwrap_err();
    let (code, message, detail) = told(&error);
    assert_eq!((&*code, &*message), ("23505", "duplicates: 3 of 6 jobs were rejected, and nothing was inserted"));
    let detail: Value = serde_json::from_str(&detail).unwrap();
    assert_eq!(detail[0], json!({"index": 1, "holder": waiting, "state": "available"}));
    assert_eq!(detail[1], json!({"index": 3, "holder": running, "state": "running"}));
    assert_eq!(detail[2], json!({"index": 5, "earlier": 4}), "no id that never exists");

    // As rows the caller's transaction goes on.
    let mut tx = database.pool().begin().await.unwrap();
    let insert_rows = database.sql("SELECT * FROM {schema}.insert_jobs($1, on_reject => 'row')");
    let rows = sqlx::query(insert_rows).bind(&jobs).fetch_all(&mut *tx).await.unwrap();
    let not_inserted = ("not_inserted", None, None, None);
    let wanted = [
        not_inserted,
        ("rejected", Some(waiting.as_uuid()), Some("available"), None),
        not_inserted,
        ("rejected", Some(running.as_uuid()), Some("running"), None),
        not_inserted,
        ("rejected", None, None, Some(4)),
    ];
    for (row, wanted) in rows.iter().zip(wanted) {
        assert_eq!((row.get("outcome"), row.get("id"), row.get("state"), row.get("earlier")), wanted);
    }
    assert_eq!(rows.len(), 6);
    tx.commit().await.unwrap();
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 2);

    // One job, the same.
    for (key, holder) in [("waits", waiting), ("runs", running)] {
        let single = format!(
            "SELECT i.outcome || ' ' || i.id || ' ' || i.duplicate FROM {{schema}}.insert_job(
                'a', unique_policy => '{{\"key\": \"{key}\", \"on_conflict\": \"reject\"}}', on_reject => 'row') AS i"
        );
        assert_eq!(database.text(&single).await, format!("rejected {holder} true"));
    }
}

#[support::test]
async fn a_job_that_cannot_be_read_is_named_by_its_index(database: Database) {
    let good = json!({"kind": "k"});
    for (bad, problem) in [
        (json!(5), "must be an object: 5"),
        (json!({"kind": "k", "prio": 1}), "unknown member: \"prio\""),
        (json!({}), "invalid kind: must not be null"),
        (json!({"kind": 1}), "invalid kind: must be a string: 1"),
        (json!({"kind": "k", "queue": []}), "invalid queue: must be a string: []"),
        (json!({"kind": "k", "queue": ""}), "invalid queue: must not be empty: \"\""),
        (json!({"kind": "k", "pending": "yes"}), "invalid pending: must be true or false: \"yes\""),
        (json!({"kind": "k", "priority": 1.5}), "invalid priority: must be -32768 to 32767: 1.5"),
        (json!({"kind": "k", "priority": "1"}), "invalid priority: must be -32768 to 32767: \"1\""),
        (json!({"kind": "k", "max_attempts": 0}), "invalid max_attempts: must be 1 to 32767: 0"),
        (json!({"kind": "k", "meta": []}), "invalid meta of \"k\": must be an object: []"),
        (json!({"kind": "k", "id": "x"}), "invalid id: must be a UUID: \"x\""),
        (json!({"kind": "k", "id": 7}), "invalid id: must be a string: 7"),
        (json!({"kind": "k", "scheduled_at": 7}), "invalid scheduled_at: must be a string: 7"),
        (
            json!({"kind": "k", "scheduled_at": "tomorrow"}),
            "invalid scheduled_at: must be a time with its zone, such as 2026-02-12T15:15:00Z: \"tomorrow\"",
        ),
        (
            json!({"kind": "k", "scheduled_at": "2026-02-12 15:15"}),
            "invalid scheduled_at: must be a time with its zone, such as 2026-02-12T15:15:00Z: \"2026-02-12 15:15\"",
        ),
        (
            json!({"kind": "k", "scheduled_at": "2026-13-01T00:00Z"}),
            "invalid scheduled_at: must be a time with its zone, such as 2026-02-12T15:15:00Z: \"2026-13-01T00:00Z\"",
        ),
        (
            json!({"kind": "k", "scheduled_at": "2026-13-01"}),
            "invalid scheduled_at: must be a time with its zone, such as 2026-02-12T15:15:00Z: \"2026-13-01\"",
        ),
        (
            json!({"kind": "k", "unique_policy": {"like": "sidekiq"}}),
            "invalid unique policy: like: must be one of faktory, ojs, river, zizq: \"sidekiq\"",
        ),
        (json!({"kind": "k", "unique_policy": []}), "invalid unique policy: unique_policy: must be an object: []"),
    ] {
        let error = insert(&database, &json!([good, good, bad]), "").await.expect_err(problem);
        assert_eq!(told(&error), ("22023".to_owned(), format!("job 2: {problem}"), String::new()));
    }
    for (jobs, more, message) in [
        (json!({}), "", "invalid jobs: must be an array of objects: {}"),
        (json!([]), ", on_reject => 'raise'", "invalid on_reject: must be error or row: \"raise\""),
        (json!([]), ", on_reject => NULL", "invalid on_reject: must be error or row: null"),
        (json!([]), ", max_wait => '-1 s'", "invalid max_wait: must not be negative: -00:00:01"),
    ] {
        assert_eq!(told(&insert(&database, &jobs, more).await.unwrap_err()).1, message);
    }
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 0);
}

#[tokio::test]
async fn r10_overlapping_batches_of_both_doors_never_deadlock() {
    const SIZE: usize = 200;
    const BATCHES: usize = 25;
    let database = Arc::new(Database::with_connections(8).await);
    let write = |writer| {
        let database = database.clone();
        async move {
            for batch in 0..BATCHES {
                let mut keys: Vec<_> = (0..SIZE).map(|n| format!("{batch} {n}")).collect();
                if writer % 4 < 2 {
                    keys.reverse();
                }
                let made: Vec<_> = if writer % 2 == 0 {
                    let rust = |key| job("a").unique_key(UniqueKey::raw(key).scope(UniqueScope::Active));
                    let answers = database.client.insert_many(keys.iter().map(rust)).await.unwrap();
                    answers.into_iter().map(|answer| answer.job.unique_key.unwrap()).collect()
                } else {
                    // Some of them key by key.
                    let on_conflict = if batch % 3 == 0 { "replace" } else { "ignore" };
                    let jobs: Vec<_> = keys.iter().map(|key| keyed(key, on_conflict)).collect();
                    let answers = insert(&database, &json!(jobs), "").await.unwrap();
                    answers.into_iter().map(|answer| answer.unique_key.unwrap()).collect()
                };
                assert_eq!(made, keys);
            }
        }
    };
    together((0..8).map(write)).await;
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job WHERE claims").await, (BATCHES * SIZE) as i64);
}
