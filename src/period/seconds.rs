//! Lengths of time in JSON: a number of seconds, everywhere. For `#[serde(with = "…")]`.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serializer};

/// Writes a length of time.
pub fn serialize<S: Serializer>(length: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(length.as_secs_f64())
}

/// Reads a length of time. A negative number is zero, and one past the longest length is the longest length.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let seconds = f64::deserialize(deserializer)?;
    let beyond = if seconds > 0.0 { Duration::MAX } else { Duration::ZERO };
    Ok(Duration::try_from_secs_f64(seconds).unwrap_or(beyond))
}

/// Lengths of time that may be missing.
pub mod option {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes a length of time, or null.
    pub fn serialize<S: Serializer>(length: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        match length {
            Some(length) => serializer.serialize_f64(length.as_secs_f64()),
            None => serializer.serialize_none(),
        }
    }

    /// Reads a length of time. Null and a negative number are none.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        let seconds = Option::<f64>::deserialize(deserializer)?;
        Ok(seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()))
    }
}
