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

use support::prelude::*;

/// What `insert_job` answered.
#[derive(Debug)]
struct Answer {
    id: Uuid,
    state: String,
    duplicate: bool,
    replaced: Option<Uuid>,
    unique_key: Option<String>,
    outcome: String,
}

impl Answer {
    fn of(row: &PgRow) -> Self {
        Self {
            id: row.get("id"),
            state: row.get("state"),
            duplicate: row.get("duplicate"),
            replaced: row.get("replaced"),
            unique_key: row.get("unique_key"),
            outcome: row.get("outcome"),
        }
    }
}

/// Inserts with the arguments as they would be written in SQL.
async fn insert(database: &Database, arguments: &str) -> Result<Answer, sqlx::Error> {
    let text = format!("SELECT i.* FROM {{schema}}.insert_job({arguments}) AS i");
    sqlx::query(database.sql(&text)).fetch_one(database.pool()).await.map(|row| Answer::of(&row))
}

/// The SQLSTATE, message and detail of an error.
fn told(error: &sqlx::Error) -> (String, String, String) {
    let error = error.as_database_error().expect("an error of the database");
    let error = error.downcast_ref::<sqlx::postgres::PgDatabaseError>();
    (error.code().to_owned(), error.message().to_owned(), error.detail().unwrap_or_default().to_owned())
}
