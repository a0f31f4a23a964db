//! Jobs that run after others.

mod building;
mod changing;
mod races;
mod releasing;
mod replacing;
mod resuming;

use support::prelude::*;

/// Inserts jobs with `insert_jobs`.
async fn insert(database: &Database, jobs: Value) -> Vec<JobId> {
    try_insert(database, jobs).await.unwrap()
}

async fn try_insert(database: &Database, jobs: Value) -> sqlx::Result<Vec<JobId>> {
    let insert = database.sql("SELECT id FROM {schema}.insert_jobs($1) ORDER BY index");
    let ids: Vec<Uuid> = sqlx::query_scalar(insert).bind(jobs).fetch_all(database.pool()).await?;
    Ok(ids.into_iter().map(JobId::from).collect())
}

/// The code and the message of the error of an insert.
async fn refusal(database: &Database, jobs: Value) -> (String, String) {
    let error = try_insert(database, jobs).await.unwrap_err();
    let error = error.as_database_error().unwrap();
    (error.code().unwrap().into_owned(), error.message().to_owned())
}

/// A job of a kind after these, by index.
fn after(kind: &str, parents: &[usize]) -> Value {
    json!({"kind": kind, "after": parents})
}

/// Runs steps of the releaser until no edge is left to look at. Returns the numbers of released and cancelled children.
async fn settle(database: &Database) -> i64 {
    let mut changed = 0;
    let step = "SELECT linked + seen, released + cancelled FROM {schema}._release_step(1000, NULL, NULL, NULL)";
    for _ in 0..20 {
        let (seen, settled): (i32, i32) = sqlx::query_as(database.sql(step)).fetch_one(database.pool()).await.unwrap();
        changed += i64::from(settled);
        if seen == 0 {
            break;
        }
    }
    changed
}

/// Gives a job a final state, and settles the rest. Returns as [`settle`] does.
async fn end(database: &Database, id: JobId, state: &str) -> i64 {
    database.set_state(id, state).await;
    settle(database).await
}

/// Each kind with its state, such as `a completed, b pending`.
async fn states(database: &Database) -> String {
    database
        .text("SELECT coalesce(string_agg(kind || ' ' || state, ', ' ORDER BY kind, created_at), '') FROM {schema}.job")
        .await
}

/// The states when a job has this one and the rest is settled.
async fn states_at_end(database: &Database, id: JobId, state: &str) -> String {
    end(database, id, state).await;
    states(database).await
}

/// The last error of a job.
async fn error_of(database: &Database, id: JobId) -> String {
    database.text(&format!("SELECT errors -> -1 ->> 'error' FROM {{schema}}.job WHERE id = '{id}'")).await
}

async fn open_edges(database: &Database) -> i64 {
    database.number("SELECT count(*) FROM {schema}.job_parent WHERE outcome IS NULL").await
}
