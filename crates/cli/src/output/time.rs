//! Points in time as text.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uniqueue::format_duration;

/// Writes how far a time is from now, by the database's clock: `5m 12s ago`, `in 2h`.
pub(crate) fn format_relative(at: OffsetDateTime, now: OffsetDateTime) -> String {
    match (now - at).try_into() {
        Ok(passed) => format!("{} ago", format_duration(passed)),
        Err(_) => format!("in {}", format_duration((at - now).unsigned_abs())),
    }
}

/// Writes a time as RFC 3339 in UTC, to the second, so that it can be pasted as an argument.
pub(crate) fn format_time(at: OffsetDateTime) -> String {
    // Beyond the year 9999 there is no time in UTC.
    let at = at.checked_to_offset(time::UtcOffset::UTC).unwrap_or(at);
    let to_the_second = at.replace_nanosecond(0).unwrap_or(at);
    to_the_second.format(&Rfc3339).unwrap_or_else(|_| to_the_second.to_string())
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;
    use crate::time_argument::TimeArgument;

    #[test]
    fn times_can_be_pasted_as_arguments() {
        let at = datetime!(2026-11-21 22:30:05.123456 UTC);
        assert_eq!(format_time(at), "2026-11-21T22:30:05Z");
        assert_eq!(format_time(at).parse(), Ok(TimeArgument::At(at.replace_nanosecond(0).unwrap())));
        assert_eq!(format_relative(at, at + time::Duration::seconds(312)), "5m 12s ago");
        assert_eq!(format_relative(at, at - time::Duration::hours(2)), "in 2h");
        // In UTC it is in the year 10000.
        assert_eq!(format_time(datetime!(9999-12-31 23:59:59 -23:59)), "9999-12-31T23:59:59-23:59");
    }
}
