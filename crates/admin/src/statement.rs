//! Statements whose rows are JSON objects.
//!
//! A statement has one parameter, `$1`, a JSON object with its arguments by name. The marker `/* schema */` before a name becomes
//! the queue's schema. Each row is answered as one object of its columns, so a column has the name of the field that it fills.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sqlx::types::Json;
use sqlx::{AssertSqlSafe, PgConnection, Row};
use uniqueue::{Call, Client, JobId, Result};

/// The arguments of a statement by their names.
pub type Arguments = Map<String, Value>;

/// The mark of a statement that is planned anew for each call, so that the plan knows the arguments.
const PLANNED_ANEW: &str = "/* planned anew */";

/// The rows of a statement.
pub async fn rows<T>(
    client: &Client,
    connection: &mut PgConnection,
    statement: &str,
    arguments: &(impl Serialize + Sync + ?Sized),
) -> Result<Vec<T>>
where
    T: DeserializeOwned + Send + Unpin + 'static,
{
    let is_prepared = !statement.contains(PLANNED_ANEW);
    // Safe to splice: a schema name is checked against an alphabet without quotes.
    let statement = statement.replace("/* schema */", &format!("{}.", client.schema().quoted()));
    // A statement that writes may stand in WITH, and in no subquery.
    let asking = AssertSqlSafe(format!("WITH answer AS (\n{statement}\n) SELECT to_jsonb(answer) FROM answer"));
    let query = sqlx::query(asking).persistent(is_prepared).bind(Json(arguments));
    let rows = query.fetch_all(connection).await?;
    rows.iter().map(|row| Ok(row.try_get::<Json<T>, _>(0)?.0)).collect()
}

/// The members of a JSON object as arguments.
pub fn arguments(object: Value) -> Arguments {
    match object {
        Value::Object(members) => members,
        _ => Arguments::new(),
    }
}

/// A look-up of all rows of a statement.
pub fn ask<'a, T>(client: &'a Client, statement: &'static str, arguments: Arguments) -> Call<'a, Vec<T>>
where
    T: DeserializeOwned + Send + Unpin + 'static,
{
    collect(client, statement, arguments, |rows| rows)
}

/// A look-up whose answer is made from the rows of a statement.
pub fn collect<'a, R, T>(
    client: &'a Client,
    statement: &'static str,
    arguments: Arguments,
    answer: fn(Vec<R>) -> T,
) -> Call<'a, T>
where
    R: DeserializeOwned + Send + Unpin + 'static,
    T: Send + 'static,
{
    Call::new(client, move |client, connection| {
        Box::pin(async move { rows(client, connection, statement, &arguments).await.map(answer) })
    })
}

/// A change whose answer is made from the rows of a statement. With an actor it is logged with this verb and this subject.
pub(crate) fn change_to<'a, R, T>(
    client: &'a Client,
    verb: &'static str,
    subject: Value,
    statement: &'static str,
    arguments: impl Serialize + Send + Sync + 'static,
    answer: fn(Vec<R>) -> T,
) -> Call<'a, T>
where
    R: DeserializeOwned + Send + Unpin + 'static,
    T: Send + 'static,
{
    Call::change(client, verb, subject, move |client, connection| {
        Box::pin(async move { rows(client, connection, statement, &arguments).await.map(answer) })
    })
}

/// A row that is only the id of a job.
#[derive(Deserialize)]
pub(crate) struct OfId {
    pub(crate) id: JobId,
}
