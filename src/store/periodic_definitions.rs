//! Where live runners define periodic jobs differently.

use serde::{Deserialize, Serialize};
use sqlx::types::Json;
use sqlx::{PgConnection, Row};

use super::{Statements, query};
use crate::error::Result;

/// A periodic job that live runners define differently in their code, or that none defines.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct PeriodicDefinitions {
    pub(crate) name: String,
    /// 0: no live runner defines it.
    pub(crate) definitions: i64,
    /// A runner of each definition.
    pub(crate) runners: Vec<String>,
}

pub(crate) async fn periodic_definitions(
    connection: &mut PgConnection,
    statements: &Statements,
) -> Result<Vec<PeriodicDefinitions>> {
    let rows = query(&statements.health_periodic).fetch_all(connection).await?;
    rows.iter().map(|row| Ok(row.try_get::<Json<PeriodicDefinitions>, _>(0)?.0)).collect()
}
