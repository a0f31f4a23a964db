//! From an error of sqlx to this library's.

use serde::Deserialize;
use sqlx::postgres::PgDatabaseError;

use super::Error;
use crate::ident::JobId;

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        queue_full(&error).or_else(|| missing_parent(&error)).unwrap_or(Error::Database(error))
    }
}

/// The error of an insert that the limit of a queue refused.
fn queue_full(error: &sqlx::Error) -> Option<Error> {
    #[derive(Deserialize)]
    struct Detail {
        queue: String,
        max_waiting: u32,
        room: u32,
    }
    let error = error.as_database_error()?.try_downcast_ref::<PgDatabaseError>()?;
    if error.code() != "UQ003" {
        return None;
    }
    let Detail { queue, max_waiting, room } = serde_json::from_str(error.detail()?).ok()?;
    Some(Error::QueueFull { queue, max_waiting, room })
}

/// The error of an insert after a job that does not exist.
fn missing_parent(error: &sqlx::Error) -> Option<Error> {
    #[derive(Deserialize)]
    struct Detail {
        parent: JobId,
    }
    let error = error.as_database_error()?.try_downcast_ref::<PgDatabaseError>()?;
    if error.constraint() != Some("job_parent_parent") {
        return None;
    }
    let Detail { parent } = serde_json::from_str(error.detail()?).ok()?;
    Some(Error::MissingParent { parent })
}
