//! The objects of the schema, as they are and as the migrations make them.

use serde::{Deserialize, Serialize};
use sqlx::types::Json;
use sqlx::{PgConnection, Row};

use super::{Query, Statements, query};
use crate::error::Result;

/// An object of the schema, as it is or as the migrations make it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct SchemaObject {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) of_table: Option<String>,
    pub(crate) definition: String,
}

/// The objects that the migrations make, one a line. `GOLDEN=overwrite cargo test --test sql schema` writes it anew.
const OBJECTS: &str = include_str!("objects.jsonl");

/// The objects that the migrations make.
pub(crate) fn golden_objects() -> Result<Vec<SchemaObject>> {
    Ok(OBJECTS.lines().map(serde_json::from_str).collect::<Result<_, _>>().map_err(|error| {
        sqlx::Error::Decode(format!("the golden objects of this build cannot be read: {error}").into())
    })?)
}

/// The objects of the schema. Needs a transaction, since it sets `search_path`.
pub(crate) async fn schema_objects(
    connection: &mut PgConnection,
    statements: &Statements,
) -> Result<Vec<SchemaObject>> {
    let schema = statements.schema().quoted();
    query(&statements.set_search_path).bind(format!("{schema}, pg_temp")).execute(&mut *connection).await?;
    let mut objects = rows(query(&statements.health_objects).bind(&schema), &mut *connection).await?;
    objects.extend(rows(query(&statements.health_table_parts).bind(&schema), connection).await?);
    Ok(objects)
}

async fn rows(query: Query, connection: &mut PgConnection) -> Result<Vec<SchemaObject>> {
    let rows = query.persistent(false).fetch_all(connection).await?;
    rows.iter().map(|row| Ok(row.try_get::<Json<SchemaObject>, _>(0)?.0)).collect()
}
