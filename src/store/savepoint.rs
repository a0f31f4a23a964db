//! A savepoint in the caller's transaction.

use sqlx::{Error, PgConnection};

use crate::error::Result;

/// Begins a savepoint. `false`: the connection is in no transaction.
pub(crate) async fn begin_savepoint(connection: &mut PgConnection) -> Result<bool> {
    match sqlx::raw_sql("SAVEPOINT uniqueue_parts").execute(connection).await {
        Ok(_) => Ok(true),
        Err(Error::Database(error)) if error.code().as_deref() == Some("25P01") => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Ends the savepoint. `undoes`: what came after it is rolled back.
pub(crate) async fn end_savepoint(connection: &mut PgConnection, undoes: bool) -> Result<()> {
    if undoes {
        sqlx::raw_sql("ROLLBACK TO SAVEPOINT uniqueue_parts").execute(&mut *connection).await?;
    }
    sqlx::raw_sql("RELEASE SAVEPOINT uniqueue_parts").execute(connection).await?;
    Ok(())
}
