//! How the place of a job is found.

use std::borrow::Cow;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::json::canonical_json;
use crate::unique::named_args;
use crate::words::ident::MAX_NAME_BYTES;

/// The value of a job that decides its place, among the places that share hashed values
/// ([`PlaceMap`](crate::PlaceMap)). A kind declares one, and every insert of the kind goes by it: another place refuses it
/// ([`Error::WrongPlace`](crate::Error::WrongPlace)). A job without the value may be in any place.
///
/// As text, in a registered kind and in `#[job(place = "…")]`: `unique_key`, `group`, `id`, or the name of a member of the
/// args. A member with one of these three names is written as a JSON Pointer, such as `/id`.
///
/// ```
/// use uniqueue::PlaceBy;
///
/// assert_eq!("unique_key".parse::<PlaceBy>()?, PlaceBy::UniqueKey);
/// assert_eq!("tenant".parse::<PlaceBy>()?, PlaceBy::arg("tenant"));
/// # Ok::<(), uniqueue::Error>(())
/// ```
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum PlaceBy {
    /// The unique key. Then a key has one holder in all places. A policy with a window is an error unless the insert gives
    /// `scheduled_at`, since the clocks of two servers differ.
    UniqueKey,
    /// The key of the group. Then the group's limit and its order hold in all places.
    Group,
    /// The id. Jobs are spread evenly, and an insert that is sent twice meets itself. An id that the insert does not give
    /// decides nothing.
    Id,
    /// A member of the args, by name or by JSON Pointer. A member that is text counts as it is, any other value as its
    /// [canonical JSON](crate::json::canonical_json).
    Arg(Cow<'static, str>),
}

impl PlaceBy {
    /// A member of the args, by name or by JSON Pointer.
    pub const fn arg(selector: &'static str) -> Self {
        Self::Arg(Cow::Borrowed(selector))
    }

    /// The text of a registered kind.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::UniqueKey => "unique_key",
            Self::Group => "group",
            Self::Id => "id",
            Self::Arg(selector) => selector,
        }
    }

    /// A text that the database checked when it was stored.
    pub(crate) fn from_stored(text: &str) -> Self {
        match text {
            "unique_key" => Self::UniqueKey,
            "group" => Self::Group,
            "id" => Self::Id,
            selector => Self::Arg(Cow::Owned(selector.to_owned())),
        }
    }
}

impl FromStr for PlaceBy {
    type Err = Error;

    fn from_str(given: &str) -> Result<Self> {
        if given.is_empty() || given.len() > MAX_NAME_BYTES {
            let problem = "must be unique_key, group, id or a member of the args, of 1 to 128 bytes";
            return Err(Error::InvalidOption { option: "place", problem, given: format!("{given:?}") });
        }
        Ok(Self::from_stored(given))
    }
}

impl Serialize for PlaceBy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for PlaceBy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<str>::deserialize(deserializer).map(|text| Self::from_stored(&text))
    }
}

/// The text of a member of the args. `None`: the args have no such member. `_place_value` in SQL makes the same.
pub(crate) fn member(args: &Value, selector: &str) -> Result<Option<String>> {
    let named = named_args(args);
    let value = if selector.starts_with('/') { named.pointer(selector) } else { named.get(selector) };
    value
        .map(|value| match value {
            Value::String(text) => Ok(text.clone()),
            value => canonical_json(value),
        })
        .transpose()
}

/// The index of the place of a value among this number of hashed places. `place_of` in SQL finds the same. `None`: there are none.
pub(crate) fn hashed_index(value: &str, count: usize) -> Option<usize> {
    let digest = Sha256::digest(value.as_bytes());
    let number = digest.iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    usize::try_from(number.checked_rem(count as u64)?).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_text_reads_back_as_the_same_way() {
        for way in [PlaceBy::UniqueKey, PlaceBy::Group, PlaceBy::Id, PlaceBy::arg("tenant"), PlaceBy::arg("/id")] {
            assert_eq!(way.as_str().parse::<PlaceBy>().unwrap(), way);
        }
        assert!("".parse::<PlaceBy>().is_err() && "x".repeat(129).parse::<PlaceBy>().is_err());
    }

    #[test]
    fn a_member_is_found_by_name_and_by_pointer() {
        let member = |args: &Value, selector| member(args, selector).unwrap();
        let args = json!({"a.b": "text", "n": {"id": 7}, "gone": null});
        assert_eq!(member(&args, "a.b").as_deref(), Some("text"));
        assert_eq!(member(&args, "/n/id").as_deref(), Some("7"));
        assert_eq!(member(&args, "gone").as_deref(), Some("null"));
        assert_eq!(member(&args, "none"), None);
        assert_eq!(member(&json!([{"id": "x"}, 2]), "id").as_deref(), Some("x"));
    }
}
