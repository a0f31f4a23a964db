//! Lengths of time in JSON: a number of seconds, everywhere.

use std::time::Duration;

use serde::Serializer;

/// Writes a length of time.
pub(crate) fn serialize<S: Serializer>(length: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(length.as_secs_f64())
}

/// Writes a length of time, or null.
pub(crate) fn serialize_option<S: Serializer>(length: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    match length {
        Some(length) => serialize(length, serializer),
        None => serializer.serialize_none(),
    }
}
