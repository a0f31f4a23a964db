//! The default database: `DATABASE_URL`, else a throw-away server.

use std::env;

use super::Postgres;
use super::failure::failure;
use crate::Result;

/// A database to connect to: a given one, or an embedded server.
#[derive(Debug)]
pub enum Database {
    /// The one that `DATABASE_URL` names.
    Given {
        /// The value of `DATABASE_URL`.
        url: String,
    },
    /// A throw-away server, which stops when this is dropped.
    Embedded(Postgres),
}

impl Database {
    /// The URL to connect to.
    pub fn url(&self) -> &str {
        match self {
            Self::Given { url } => url,
            Self::Embedded(postgres) => postgres.url(),
        }
    }
}

/// The database that `DATABASE_URL` names, else a throw-away server.
///
/// An empty `DATABASE_URL` counts as none. A given one is not checked: the first connection does that.
///
/// # Errors
///
/// [`Error::Embedded`](crate::Error::Embedded) when `DATABASE_URL` is not Unicode, and as for [`Postgres::start`].
pub async fn find_or_start() -> Result<Database> {
    match env::var("DATABASE_URL") {
        Ok(url) if !url.trim().is_empty() => Ok(Database::Given { url }),
        Ok(_) | Err(env::VarError::NotPresent) => Ok(Database::Embedded(Postgres::start().await?)),
        // The value may hold a password.
        Err(env::VarError::NotUnicode(_)) => {
            Err(failure("DATABASE_URL is not unicode", "percent-encode the bytes that are not ASCII"))
        }
    }
}
