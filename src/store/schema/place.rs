//! The place that a schema is.

use std::fmt;

use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::error::{Error, Result};
use crate::store::{Store, query};
use crate::words::ident::PlaceName;
use crate::words::place_by::hashed_index;

/// A place as its schema knows it, or as a map has it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct PlaceIdentity {
    pub(crate) name: PlaceName,
    /// The places that share hashed values. `None`: no list is known.
    pub(crate) hashed: Option<Vec<String>>,
    /// Whether the schema was copied from the place.
    is_copy: bool,
}

impl PlaceIdentity {
    pub(crate) const fn new(name: PlaceName, hashed: Option<Vec<String>>) -> Self {
        Self { name, hashed, is_copy: false }
    }

    /// The place to which a hashed value belongs. `None`: no list is known.
    pub(crate) fn place_of(&self, value: &str) -> Option<&str> {
        let hashed = self.hashed.as_deref()?;
        hashed_index(value, hashed.len()).map(|index| hashed[index].as_str())
    }

    /// The error of a schema that is another place than this one of a map.
    pub(crate) fn check(&self, found: Option<Self>) -> Result<()> {
        let place = || self.name.clone();
        match found {
            Some(found) if self.is_same(&found) && found.is_copy => Err(Error::PlaceCopy { place: place() }),
            Some(found) if self.is_same(&found) => Ok(()),
            found => Err(Error::MapMismatch { place: place(), found: found.map(|found| found.to_string()) }),
        }
    }

    /// A place outside of the list may not know the list, and a map may leave it out. `name_place` has the same rule.
    fn is_same(&self, other: &Self) -> bool {
        let lists = || [&self.hashed, &other.hashed].into_iter().flatten();
        let may_miss = || lists().count() == 1 && lists().flatten().all(|name| *name != *self.name.as_str());
        self.name == other.name && (self.hashed == other.hashed || may_miss())
    }
}

impl fmt::Display for PlaceIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(hashed) = &self.hashed else { return write!(f, "place {}, without hashed places", self.name) };
        let of = if hashed.iter().any(|name| *name == *self.name.as_str()) { "of" } else { "beside" };
        write!(f, "place {} {of} the hashed places {}", self.name, hashed.join(", "))
    }
}

impl Store<'_> {
    /// The place that the schema is. `None`: it has no name.
    pub(crate) async fn place_identity(self) -> Result<Option<PlaceIdentity>> {
        let row = query(&self.statements.place_identity).fetch_optional(self.connection).await?;
        row.as_ref().map(identity).transpose()
    }

    /// Makes the schema a place, or finds that it is this place already. `adopts`: the place is in this database now.
    pub(crate) async fn name_place(self, place: &PlaceIdentity, adopts: bool) -> Result<()> {
        let naming =
            query(&self.statements.name_place).bind(place.name.as_str()).bind(place.hashed.as_deref()).bind(adopts);
        naming.execute(self.connection).await?;
        Ok(())
    }
}

fn identity(row: &PgRow) -> Result<PlaceIdentity> {
    let (hashed, is_copy) = (row.try_get("hashed")?, row.try_get("is_copy")?);
    Ok(PlaceIdentity { name: PlaceName::from_stored(row.try_get("name")?), hashed, is_copy })
}
