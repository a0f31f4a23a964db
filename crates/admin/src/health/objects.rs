//! The objects of the schema, as they are and as the migrations make them.

use serde::{Deserialize, Serialize};
use serde_json::json;
use sqlx::{AssertSqlSafe, Executor};
use uniqueue::{Call, Client, Result};

use crate::statement::{arguments, rows};

/// An object of the schema, as it is or as the migrations make it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct SchemaObject {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) of_table: Option<String>,
    pub(super) definition: String,
}

/// The objects that the migrations make, one a line. `GOLDEN=overwrite cargo test --test sql schema` writes it anew.
const OBJECTS: &str = include_str!("objects.jsonl");

/// The objects that the migrations make.
pub(super) fn golden_objects() -> Result<Vec<SchemaObject>> {
    Ok(OBJECTS.lines().map(serde_json::from_str).collect::<Result<_, _>>().map_err(|error| {
        sqlx::Error::Decode(format!("the golden objects of this build cannot be read: {error}").into())
    })?)
}

/// The objects of the schema. Needs a transaction, since it sets `search_path`.
pub(super) fn objects(client: &Client) -> Call<'_, Vec<SchemaObject>> {
    let asking = Call::new(client, |client, connection| {
        Box::pin(async move {
            let schema = client.schema().quoted();
            // Safe to splice: a schema name is checked against an alphabet without quotes.
            let path = AssertSqlSafe(format!("SET LOCAL search_path = {schema}, pg_temp"));
            connection.execute(path).await?;
            let asked = arguments(json!({ "schema": schema }));
            let mut objects = rows(client, connection, include_str!("../sql/health_objects.sql"), &asked).await?;
            objects.extend(rows(client, connection, include_str!("../sql/health_table_parts.sql"), &asked).await?);
            Ok(objects)
        })
    });
    asking.of_statements(3)
}
