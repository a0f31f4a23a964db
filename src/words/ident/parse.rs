//! Names and ids from text. Apart from the names, since errors carry names.

use std::str::FromStr;

#[cfg(feature = "periodic")]
use super::PeriodicName;
use super::{JobId, Kind, MAX_SCHEMA_BYTES, PlaceName, QueueName, SchemaName};
use crate::error::{Error, Result};

macro_rules! parsed {
    ($type:ident, $what:literal) => {
        impl $type {
            #[doc = concat!("Checks a ", $what, " name.")]
            ///
            /// # Errors
            ///
            /// [`Error::InvalidName`] when it is empty, longer than
            /// [`MAX_NAME_BYTES`](crate::MAX_NAME_BYTES) or holds a control character.
            pub fn new(given: impl Into<String>) -> Result<Self> {
                Self::parse(&given.into())
            }

            pub(crate) fn parse(given: &str) -> Result<Self> {
                match uniqueue_policy::name_problem(given) {
                    None => Ok(Self(given.into())),
                    Some(problem) => Err(Error::InvalidName { what: $what, problem, given: given.to_owned() }),
                }
            }
        }

        impl FromStr for $type {
            type Err = Error;

            fn from_str(given: &str) -> Result<Self> {
                Self::parse(given)
            }
        }
    };
}

parsed!(Kind, "kind");
parsed!(QueueName, "queue");
parsed!(PlaceName, "place");
#[cfg(feature = "periodic")]
parsed!(PeriodicName, "periodic job");

impl SchemaName {
    /// Checks a schema name.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidName`] when the name is not of the form above.
    pub fn new(given: impl Into<String>) -> Result<Self> {
        let given = given.into();
        let first_is_fine = given.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        let rest_is_fine = given.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        let problem = if !first_is_fine || !rest_is_fine {
            Some("must be a letter or underscore, then letters, digits, _ or -")
        } else if given.len() > MAX_SCHEMA_BYTES {
            Some("must not be longer than 50 bytes")
        } else if given.starts_with("pg_") {
            Some("must not start with pg_, which PostgreSQL reserves")
        } else {
            None
        };
        match problem {
            None => Ok(Self(given)),
            Some(problem) => Err(Error::InvalidName { what: "schema", problem, given }),
        }
    }
}

impl FromStr for SchemaName {
    type Err = Error;

    fn from_str(given: &str) -> Result<Self> {
        Self::new(given)
    }
}

impl FromStr for JobId {
    type Err = Error;

    fn from_str(given: &str) -> Result<Self> {
        given.parse().map(Self).map_err(|_| Error::InvalidJobId { given: given.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::ident::MAX_NAME_BYTES;

    #[test]
    fn empty_long_and_control_names_are_refused_by_name() {
        for bad in ["", "a\0b", "tab\t", &"x".repeat(MAX_NAME_BYTES + 1)] {
            assert!(Kind::new(bad).is_err(), "{bad:?}");
            assert!(QueueName::new(bad).is_err(), "{bad:?}");
        }
        let error = QueueName::new("").unwrap_err().to_string();
        assert_eq!(error, "invalid queue: must not be empty: \"\"");
        assert_eq!(Kind::new("é".repeat(64)).unwrap().as_str().len(), 128);
    }

    #[test]
    fn schema_names_cannot_carry_sql() {
        for bad in ["", "1a", "a b", "a\"b", "a;b", "pg_x", "é", &"x".repeat(51)] {
            assert!(SchemaName::new(bad).is_err(), "{bad:?}");
        }
        assert_eq!(SchemaName::new("my-app").unwrap().quoted(), "\"my-app\"");
    }
}
