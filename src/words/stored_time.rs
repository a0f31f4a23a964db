//! A `timestamptz` as PostgreSQL writes it in JSON, for rows that are answered as JSON. It is written as RFC 3339 has it.
//!
//! `infinity`, and every time that RFC 3339 cannot write, is read as the nearest time that it can: one row must not hide the
//! others.

use serde::{Deserialize, Deserializer};
use time::format_description::well_known::Rfc3339;
use time::macros::datetime;
use time::{OffsetDateTime, UtcOffset};

/// The earliest time that RFC 3339 can write.
const FIRST: OffsetDateTime = datetime!(0000-01-01 0:00 UTC);

/// The latest one, in PostgreSQL's microseconds.
const LAST: OffsetDateTime = datetime!(9999-12-31 23:59:59.999999 UTC);

#[doc(no_inline)]
pub use time::serde::rfc3339::serialize;

/// Reads a time.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<OffsetDateTime, D::Error> {
    Ok(read(&String::deserialize(deserializer)?))
}

/// Times that may be missing.
pub mod option {
    use super::{Deserialize, Deserializer, OffsetDateTime, read};

    #[doc(no_inline)]
    pub use time::serde::rfc3339::option::serialize;

    /// Reads a time, or null.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<OffsetDateTime>, D::Error> {
        Ok(Option::<String>::deserialize(deserializer)?.map(|text| read(&text)))
    }
}

/// Reads the time of a text that PostgreSQL wrote. Its offset has seconds for times before zones had whole minutes.
fn read(text: &str) -> OffsetDateTime {
    let has_seconds =
        text.len() > 9 && text.as_bytes()[text.len() - 3] == b':' && text.as_bytes()[text.len() - 6] == b':';
    let has_seconds = has_seconds && matches!(text.as_bytes()[text.len() - 9], b'+' | b'-');
    let (text, seconds) = if has_seconds { text.split_at(text.len() - 3) } else { (text, "") };
    match OffsetDateTime::parse(text, &Rfc3339) {
        Ok(at) => {
            let seconds = seconds.get(1..).and_then(|seconds| seconds.parse().ok()).unwrap_or(0);
            let is_west = at.offset().is_negative();
            let seconds = time::Duration::seconds(if is_west { seconds } else { -seconds });
            at.to_offset(UtcOffset::UTC).saturating_add(seconds).clamp(FIRST, LAST)
        }
        Err(_) if text.starts_with('-') || text.ends_with(" BC") => FIRST,
        Err(_) => LAST,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_whatever_its_zone() {
        let at = datetime!(2026-11-28 17:30:57.123456 UTC);
        assert_eq!(read("2026-11-28T17:30:57.123456+00:00"), at);
        assert_eq!(read("2026-11-28T23:00:57.123456+05:30"), at);
        // Amsterdam before 1937.
        assert_eq!(read("1900-01-01T00:19:32+00:19:32"), datetime!(1900-01-01 0:00 UTC));
        assert_eq!(read("1899-12-31T23:39:15-00:20:45"), datetime!(1900-01-01 0:00 UTC));
    }

    #[test]
    fn a_time_beyond_rfc_3339_is_the_nearest_one() {
        assert_eq!(read("infinity"), LAST);
        assert_eq!(read("10000-01-01T00:00:00+00:00"), LAST);
        assert_eq!(read("-infinity"), FIRST);
        assert_eq!(read("0044-03-15T00:00:00+00:00 BC"), FIRST);
    }
}
