//! From an error of sqlx to this library's.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use sqlx::postgres::PgDatabaseError;

use super::Error;
use crate::words::ident::{JobId, PlaceName};

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        by_detail(&error).unwrap_or(Error::Database(error))
    }
}

/// The error that a function of the schema raised, with its values as the detail.
fn by_detail(error: &sqlx::Error) -> Option<Error> {
    #[derive(Deserialize)]
    struct Full {
        queue: String,
        max_waiting: u32,
        room: u32,
    }
    #[derive(Deserialize)]
    struct Misplaced {
        kind: String,
        wanted: String,
        found: String,
    }
    #[derive(Deserialize)]
    struct Moved {
        subject: String,
        to: String,
    }
    #[derive(Deserialize)]
    struct Missing {
        parent: JobId,
    }
    let error = error.as_database_error()?.try_downcast_ref::<PgDatabaseError>()?;
    match error.code() {
        "UQ003" => {
            let Full { queue, max_waiting, room } = detail(error)?;
            Some(Error::QueueFull { queue, max_waiting, room })
        }
        "UQ004" => {
            let Misplaced { kind, wanted, found } = detail(error)?;
            Some(Error::WrongPlace { kind: Some(kind), wanted: PlaceName::from_stored(&wanted), found: Some(found) })
        }
        "UQ005" => {
            let Moved { subject, to } = detail(error)?;
            Some(Error::PlaceMoved { subject, to })
        }
        _ if error.constraint() == Some("job_parent_parent") => {
            let Missing { parent } = detail(error)?;
            Some(Error::MissingParent { parent })
        }
        _ => None,
    }
}

fn detail<T: DeserializeOwned>(error: &PgDatabaseError) -> Option<T> {
    serde_json::from_str(error.detail()?).ok()
}
