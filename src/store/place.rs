//! The place that a schema is.

use std::fmt;

use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row, SqlStr};

use super::{Statements, query};
use crate::error::Result;
use crate::ident::PlaceName;

/// A place as its schema knows it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct PlaceIdentity {
    pub(crate) name: PlaceName,
    /// The places that share hashed values. `None`: this place is not among them.
    pub(crate) hashed: Option<Vec<String>>,
}

impl fmt::Display for PlaceIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.hashed {
            Some(hashed) => write!(f, "place {} of the hashed places {}", self.name, hashed.join(", ")),
            None => write!(f, "place {}, not a hashed one", self.name),
        }
    }
}

/// The place that the schema is. `None`: it has no name. `statement` is the one of [`Statements`] of this name.
pub(crate) async fn place_identity(connection: &mut PgConnection, statement: &SqlStr) -> Result<Option<PlaceIdentity>> {
    let row = query(statement).fetch_optional(connection).await?;
    row.as_ref().map(identity).transpose()
}

/// Makes the schema a place, or finds that it is this place already.
pub(crate) async fn name_place(
    connection: &mut PgConnection,
    statements: &Statements,
    place: &PlaceIdentity,
) -> Result<PlaceIdentity> {
    let naming = query(&statements.name_place).bind(place.name.as_str()).bind(place.hashed.as_deref());
    identity(&naming.fetch_one(connection).await?)
}

fn identity(row: &PgRow) -> Result<PlaceIdentity> {
    Ok(PlaceIdentity { name: PlaceName::from_stored(row.try_get("name")?), hashed: row.try_get("hashed")? })
}

impl Statements {
    /// The statement of [`place_identity`].
    pub(crate) fn place_identity(&self) -> SqlStr {
        self.place_identity.clone()
    }
}
