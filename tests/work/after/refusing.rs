//! Parents that cannot be.

use serde_json::{Value, json};

use super::try_insert;
use support::Database;

async fn refusal(database: &Database, jobs: Value) -> (String, String) {
    let error = try_insert(database, jobs).await.unwrap_err();
    let error = error.as_database_error().unwrap();
    (error.code().unwrap().into_owned(), error.message().to_owned())
}

#[support::test]
async fn a_job_can_only_be_after_an_earlier_one_of_its_batch(database: Database) {
    let [x, y] = ["01890000-0000-7000-8000-000000000001", "01890000-0000-7000-8000-000000000002"];
    for (jobs, problem) in [
        (json!([{"kind": "a", "after": [0]}]), "job 0: invalid after: must name an earlier job of the batch: 0"),
        (
            json!([{"kind": "a"}, {"kind": "b", "after": [0, 2]}, {"kind": "c"}]),
            "job 1: invalid after: must name an earlier job of the batch: 2",
        ),
        (
            json!([{"kind": "a", "after_final": [9]}]),
            "job 0: invalid after_final: must name an earlier job of the batch: 9",
        ),
        (
            json!([{"kind": "a", "id": x, "after": [y]}, {"kind": "b", "id": y, "after": [0]}]),
            "job 0: invalid after: must name an earlier job of the batch: 01890000-0000-7000-8000-000000000002",
        ),
        (
            json!([{"kind": "a", "id": x, "after": [x]}, {"kind": "b"}]),
            "job 0: invalid after: must name an earlier job of the batch: 01890000-0000-7000-8000-000000000001",
        ),
        (json!([{"kind": "a", "after": [-1]}]), "job 0: invalid after: must be indexes and ids: -1"),
        (json!([{"kind": "a", "after": ["a"]}]), "job 0: invalid after: must be indexes and ids: \"a\""),
        (json!([{"kind": "a", "after": [null]}]), "job 0: invalid after: must be indexes and ids: null"),
        (
            json!([{"kind": "a", "after_failed": 0}]),
            "job 0: invalid after_failed: must be an array of indexes and ids: 0",
        ),
        (
            json!([{"kind": "a"}, {"kind": "b", "after": [0], "pending": true}]),
            "job 1: invalid pending: not together with after",
        ),
    ] {
        assert_eq!(refusal(&database, jobs).await, ("22023".to_owned(), problem.to_owned()));
    }
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 0);
}

#[support::test]
async fn a_parent_that_is_not_there_is_named(database: Database) {
    let missing = "01890000-0000-7000-8000-000000000009";
    let expected = ("23503".to_owned(), format!("job 1: invalid after: there is no job {missing}"));
    let jobs = json!([{"kind": "a"}, {"kind": "b", "after": [0, missing]}]);
    assert_eq!(refusal(&database, jobs).await, expected);
    let alone = database.sql("SELECT id FROM {schema}.insert_job('a', after => ARRAY[$1::uuid])");
    let alone = sqlx::query(alone).bind(uuid::Uuid::parse_str(missing).unwrap()).fetch_one(database.pool());
    let error = alone.await.unwrap_err();
    assert_eq!(error.as_database_error().unwrap().message(), format!("invalid after: there is no job {missing}"));
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 0);
}

#[support::test]
async fn a_job_that_replaces_its_own_parent_is_refused(database: Database) {
    let policy = |answer: &str| json!({"key": "k", "on_conflict": answer});
    try_insert(&database, json!([{"kind": "a", "unique_policy": policy("ignore")}])).await.unwrap();
    let jobs = json!([
        {"kind": "a", "unique_policy": policy("ignore")},
        {"kind": "a", "unique_policy": policy("replace"), "after": [0]},
    ]);
    let (code, problem) = refusal(&database, jobs).await;
    assert_eq!(code, "22023");
    assert_eq!(problem, "job 1: invalid after: a parent has the unique key of the job, and so is the same job");
}
