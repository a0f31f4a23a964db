//! Times and lengths of time, as people write and read them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use time::format_description::well_known::Rfc3339;
use time::macros::format_description;
use time::{Date, OffsetDateTime};

/// A length of time for people: its two largest units, such as `2h 5m`.
pub(crate) fn span(length: Duration) -> String {
    let (seconds, micros) = (length.as_secs(), length.as_micros());
    let two = |large: u64, unit: char, small: u64, lesser: char| match small {
        0 => format!("{large}{unit}"),
        small => format!("{large}{unit} {small}{lesser}"),
    };
    match seconds {
        0 if micros == 0 => "0s".to_owned(),
        0 if micros < 10_000 => format!("{:.1}ms", length.as_secs_f64() * 1_000.0),
        0 => format!("{}ms", length.as_millis()),
        1..10 => format!("{:.1}s", length.as_secs_f64()),
        10..60 => format!("{seconds}s"),
        60..3_600 => two(seconds / 60, 'm', seconds % 60, 's'),
        3_600..86_400 => two(seconds / 3_600, 'h', seconds % 3_600 / 60, 'm'),
        _ => two(seconds / 86_400, 'd', seconds % 86_400 / 3_600, 'h'),
    }
}

/// How far a time is from now, by the database's clock: `5m 12s ago`, `in 2h`.
pub(crate) fn ago(at: OffsetDateTime, now: OffsetDateTime) -> String {
    match (now - at).try_into() {
        Ok(passed) => format!("{} ago", span(passed)),
        Err(_) => format!("in {}", span((at - now).unsigned_abs())),
    }
}

/// A time as RFC 3339 in UTC, to the second: it can be pasted where a time is asked for.
pub(crate) fn time(at: OffsetDateTime) -> String {
    let to_the_second = at.to_offset(time::UtcOffset::UTC).replace_nanosecond(0).unwrap_or(at);
    to_the_second.format(&Rfc3339).unwrap_or_else(|_| to_the_second.to_string())
}

/// A length of time as it is given: `90s`, `1h30m`, `7d`, `500ms`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Span(pub(crate) Duration);

impl FromStr for Span {
    type Err = Unreadable;

    fn from_str(given: &str) -> Result<Self, Unreadable> {
        let refused = || Unreadable("a length of time such as 90s, 15m, 2h, 1h30m, 7d or 500ms");
        let (mut rest, mut total) = (given.trim(), Duration::ZERO);
        if rest.is_empty() {
            return Err(refused());
        }
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).filter(|digits| *digits > 0).ok_or_else(refused)?;
            let (number, after) = rest.split_at(digits);
            let letters = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
            let (unit, after) = after.split_at(letters);
            let milliseconds: u64 = match unit {
                "ms" => 1,
                "s" => 1_000,
                "m" | "min" => 60_000,
                "h" => 3_600_000,
                "d" => 86_400_000,
                "w" => 7 * 86_400_000,
                _ => return Err(refused()),
            };
            let number: u64 = number.parse().map_err(|_| refused())?;
            let part = number.checked_mul(milliseconds).map(Duration::from_millis).ok_or_else(refused)?;
            total = total.checked_add(part).ok_or_else(refused)?;
            rest = after.trim_start();
        }
        Ok(Self(total))
    }
}

/// A time as it is given: RFC 3339, a date (its start in UTC), `now`, or from now on: `2h` or `-2h` is two hours ago,
/// `+2h` in two hours. Now is the database's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Moment {
    At(OffsetDateTime),
    Ago(Duration),
    In(Duration),
}

impl Moment {
    /// The time that is meant. What lies outside the years that a time can have becomes the nearest.
    pub(crate) fn at(self, now: OffsetDateTime) -> OffsetDateTime {
        let limited = |length: Duration| time::Duration::try_from(length).unwrap_or(time::Duration::MAX);
        match self {
            Moment::At(at) => at,
            Moment::Ago(length) => now.saturating_sub(limited(length)),
            Moment::In(length) => now.saturating_add(limited(length)),
        }
    }
}

impl FromStr for Moment {
    type Err = Unreadable;

    fn from_str(given: &str) -> Result<Self, Unreadable> {
        let day = format_description!("[year]-[month]-[day]");
        let given = given.trim();
        if given == "now" {
            return Ok(Moment::Ago(Duration::ZERO));
        }
        if let Ok(at) = OffsetDateTime::parse(given, &Rfc3339) {
            return Ok(Moment::At(at));
        }
        if let Ok(date) = Date::parse(given, &day) {
            return Ok(Moment::At(date.midnight().assume_utc()));
        }
        let moment = match given.strip_prefix('+') {
            Some(later) => later.parse().map(|Span(length)| Moment::In(length)),
            None => given.trim_start_matches('-').parse().map(|Span(length)| Moment::Ago(length)),
        };
        moment.map_err(|_| {
            Unreadable(
                "a time such as 2026-11-21T22:30:00Z, 2026-11-21 or now, or how long ago, such as 2h; +2h is later",
            )
        })
    }
}

/// What was given is no such thing; it holds what would be.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Unreadable(&'static str);

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}", self.0)
    }
}

impl std::error::Error for Unreadable {}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    #[test]
    fn lengths_are_told_in_their_two_largest_units() {
        let told = |milliseconds| span(Duration::from_millis(milliseconds));
        assert_eq!([0, 4, 320, 4_250, 42_000].map(told), ["0s", "4.0ms", "320ms", "4.2s", "42s"]);
        assert_eq!([60_000, 312_000, 7_500_000, 90_000_000].map(told), ["1m", "5m 12s", "2h 5m", "1d 1h"]);
        assert_eq!(span(Duration::from_micros(730)), "0.7ms");
    }

    #[test]
    fn lengths_are_read_in_units_that_add_up() {
        let read = |text: &str| text.parse::<Span>().map(|Span(length)| length.as_millis());
        assert_eq!(read("90s"), Ok(90_000));
        assert_eq!(read("1h30m"), Ok(5_400_000));
        assert_eq!(read("1d 12h"), Ok(129_600_000));
        assert_eq!(read("2w"), Ok(1_209_600_000));
        assert_eq!(read("500ms"), Ok(500));
        for bad in ["", "5", "h", "2 parsecs", "-2h", "1.5h", "99999999999999999999d", "18446744073709551615w", "2h;"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_time_is_absolute_or_counted_from_now() {
        let now = datetime!(2026-11-21 12:00 UTC);
        let read = |text: &str| text.parse::<Moment>().map(|moment| moment.at(now));
        assert_eq!(read("2026-11-21T14:30:00+02:00"), Ok(datetime!(2026-11-21 12:30 UTC)));
        assert_eq!(read("2026-11-20"), Ok(datetime!(2026-11-20 0:00 UTC)));
        assert_eq!(read("now"), Ok(now));
        assert_eq!(read("2h"), Ok(datetime!(2026-11-21 10:00 UTC)));
        assert_eq!(read("-2h"), read("2h"));
        assert_eq!(read("+2h"), Ok(datetime!(2026-11-21 14:00 UTC)));
        assert!(read("1000000000w").is_ok());
        for bad in ["", "yesterday", "2026-13-01", "12:00", "+"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times_can_be_pasted_back() {
        let at = datetime!(2026-11-21 22:30:05.123456 UTC);
        assert_eq!(time(at), "2026-11-21T22:30:05Z");
        assert_eq!(time(at).parse(), Ok(Moment::At(at.replace_nanosecond(0).unwrap())));
        assert_eq!(ago(at, at + time::Duration::seconds(312)), "5m 12s ago");
        assert_eq!(ago(at, at - time::Duration::hours(2)), "in 2h");
    }
}
