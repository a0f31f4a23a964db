//! The value of a row that decides its place.

use std::borrow::Cow;

use super::payload::read_args;
use crate::error::Result;
use crate::store::NewRow;
use crate::words::place_by::{PlaceBy, member};

/// The value of a job that decides its place. `None`: it has no such value.
pub(super) fn value_of<'a>(way: &PlaceBy, row: &'a NewRow) -> Result<Option<Cow<'a, str>>> {
    Ok(match way {
        PlaceBy::UniqueKey => row.claim.as_ref().map(|claim| claim.key.as_str().into()),
        PlaceBy::Group => row.group.as_ref().map(|group| group.key.as_str().into()),
        PlaceBy::Id => Some(row.id.to_string().into()),
        PlaceBy::Arg(selector) => member(&read_args(row.kind.as_str(), &row.args)?, selector)?.map(Cow::from),
    })
}
