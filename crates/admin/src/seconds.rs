//! Lengths of time in JSON: a number of seconds. What no [`Duration`] can hold is read as the nearest that one can.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serializer};

/// Writes a length of time.
pub(crate) fn serialize<S: Serializer>(length: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(length.as_secs_f64())
}

/// Reads a length of time.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    f64::deserialize(deserializer).map(read)
}

fn read(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX)
}

/// Lengths of time that may be missing.
pub(crate) mod option {
    use super::{Deserialize, Deserializer, Duration, Serializer, read};

    /// Writes a length of time, or null.
    pub(crate) fn serialize<S: Serializer>(length: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        match length {
            Some(length) => super::serialize(length, serializer),
            None => serializer.serialize_none(),
        }
    }

    /// Reads a length of time, or null.
    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<f64>::deserialize(deserializer)?.map(read))
    }
}
