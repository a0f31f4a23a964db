//! SQL as an equal front door: the functions `unique_key`, `insert_job`, `explain_unique` and
//! `release_claim`, with the same results as in Rust, byte for byte.

mod batches;
mod changing;
mod equality;
mod explaining;
mod inserting;
mod kinds;
mod numbers;
mod policies;
mod random;
mod settings;

use sqlx::types::Json;

use support::prelude::*;

/// What `insert_job` answered.
#[derive(Debug, Deserialize)]
struct Answer {
    id: Uuid,
    state: String,
    duplicate: bool,
    replaced: Option<Uuid>,
    unique_key: Option<String>,
    outcome: String,
}

/// Inserts with the arguments as they would be written in SQL.
async fn insert(database: &Database, arguments: &str) -> Result<Answer, sqlx::Error> {
    let text = format!("SELECT to_jsonb(i) FROM {{schema}}.insert_job({arguments}) AS i");
    let Json(answer) = sqlx::query_scalar(database.sql(&text)).fetch_one(database.pool()).await?;
    Ok(answer)
}

/// The SQLSTATE, message and detail of an error.
fn told(error: &sqlx::Error) -> (String, String, String) {
    let error = error.as_database_error().expect("an error of the database");
    let error = error.downcast_ref::<sqlx::postgres::PgDatabaseError>();
    (error.code().to_owned(), error.message().to_owned(), error.detail().unwrap_or_default().to_owned())
}
