//! Arguments of commands: lengths of time, points in time, JSON (the text itself, a file, or standard input), unique policies and
//! keys.

use std::convert::Infallible;
use std::str::FromStr;
use std::time::Duration;
use std::{fmt, fs, io};

use jiff::{SignedDuration, Span, SpanRelativeTo};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;
use time::{Date, OffsetDateTime};
use uniqueue::{Client, Error, JobFilter, JobId, JobRow, NewJob, OnConflict, UniquePolicy};
use uuid::Uuid;

use crate::exit::Failure;
use crate::output::format_duration;

/// A length of time: `90s`, `1h30m`, `7d`, `500ms`, ISO 8601 such as `PT15M`, or `0`. A day is 24 hours.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct DurationArgument(pub(crate) Duration);

impl fmt::Display for DurationArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format_duration(self.0).replace(' ', ""))
    }
}

impl FromStr for DurationArgument {
    type Err = &'static str;

    fn from_str(given: &str) -> Result<Self, &'static str> {
        let length = signed(given).and_then(|length| Duration::try_from(length).ok());
        length.map(Self).ok_or("expected a length of time such as 90s, 15m, 1h30m, 7d, 500ms, PT15M or 0")
    }
}

/// Lets a job expire this long after it is due, or never for zero.
pub(crate) fn expires_in_or_never(job: NewJob, DurationArgument(length): DurationArgument) -> NewJob {
    if length.is_zero() { job.never_expires() } else { job.expires_in(length) }
}

/// Reads a length of time. Zero needs no unit. Months and years have no fixed length, so `None`.
fn signed(given: &str) -> Option<SignedDuration> {
    if given.trim() == "0" {
        return Some(SignedDuration::ZERO);
    }
    let span: Span = given.trim().parse().ok()?;
    span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()
}

/// A point in time: RFC 3339, a date (midnight UTC), `now`, or a distance from the database's now. `2h` and `-2h` are two
/// hours ago, `+2h` is in two hours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum TimeArgument {
    At(OffsetDateTime),
    Ago(Duration),
    In(Duration),
}

impl TimeArgument {
    /// The point in time. A time beyond the calendar becomes the calendar's first or last time.
    pub(crate) fn at(self, now: OffsetDateTime) -> OffsetDateTime {
        let limited = |length: Duration| time::Duration::try_from(length).unwrap_or(time::Duration::MAX);
        match self {
            Self::At(at) => at,
            Self::Ago(length) => now.saturating_sub(limited(length)),
            Self::In(length) => now.saturating_add(limited(length)),
        }
    }

    fn parse(given: &str) -> Option<Self> {
        let day = format_description!("[year]-[month]-[day]");
        if given == "now" {
            return Some(Self::Ago(Duration::ZERO));
        }
        if let Ok(at) = OffsetDateTime::parse(given, &Rfc3339) {
            return Some(Self::At(at));
        }
        if let Ok(date) = Date::parse(given, &day) {
            return Some(Self::At(date.midnight().assume_utc()));
        }
        let length = signed(given)?.unsigned_abs();
        Some(if given.starts_with('+') { Self::In(length) } else { Self::Ago(length) })
    }
}

impl FromStr for TimeArgument {
    type Err = &'static str;

    fn from_str(given: &str) -> Result<Self, &'static str> {
        Self::parse(given.trim()).ok_or(
            "expected a time such as 2026-11-21T22:30:00Z, 2026-11-21 or now, or how long ago, such as 2h; +2h is later",
        )
    }
}

/// JSON as an argument: `{"a": 1}`, `@file`, or `-` for standard input.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum JsonArgument {
    Text(String),
    File(String),
    StandardInput,
}

impl FromStr for JsonArgument {
    type Err = Infallible;

    fn from_str(given: &str) -> Result<Self, Infallible> {
        Ok(match given.strip_prefix('@') {
            Some(path) => Self::File(path.to_owned()),
            None if given == "-" => Self::StandardInput,
            None => Self::Text(given.to_owned()),
        })
    }
}

impl JsonArgument {
    /// Reads JSON text that keeps every digit. Errors name the `option`.
    pub(crate) fn raw(&self, option: &str) -> Result<Box<RawValue>, Failure> {
        let text = self.text(option)?;
        serde_json::from_str(&text).map_err(|error| {
            let from = match self {
                Self::Text(given) => format!("{given:?}"),
                Self::File(path) => path.clone(),
                Self::StandardInput => "standard input".to_owned(),
            };
            let hint = "give JSON such as '{\"user_id\": 42}', @FILE, or - for standard input";
            Failure::refused(format!("{option} is not JSON: {error}: {from}"), hint)
        })
    }

    /// Reads a value, with the numbers that PostgreSQL would store.
    pub(crate) fn value(&self, option: &str) -> Result<Value, Failure> {
        Ok(uniqueue::json::parse_json(self.raw(option)?.get())?)
    }

    /// Reads the members of an object.
    pub(crate) fn members(&self, option: &str) -> Result<Map<String, Value>, Failure> {
        match self.value(option)? {
            Value::Object(members) => Ok(members),
            other => {
                let hint = "give an object such as '{\"tenant\": 7}'";
                Err(Failure::refused(format!("{option} is not an object: {other}"), hint))
            }
        }
    }

    fn text(&self, option: &str) -> Result<String, Failure> {
        let (read, from) = match self {
            Self::Text(given) => return Ok(given.clone()),
            Self::File(path) => (fs::read_to_string(path), path.as_str()),
            Self::StandardInput => (io::read_to_string(io::stdin()), "standard input"),
        };
        let hint = "give a readable file of UTF-8 text";
        read.map_err(|error| Failure::environment(format!("cannot read {option} from {from}"), hint, error))
    }
}

/// A unique policy as an argument: a JSON document, a file's name with or without `@`, or `-` for standard input.
#[derive(Clone, Debug)]
pub(crate) struct PolicyArgument(JsonArgument);

impl FromStr for PolicyArgument {
    type Err = Infallible;

    fn from_str(given: &str) -> Result<Self, Infallible> {
        let given: JsonArgument = given.parse()?;
        Ok(Self(match given {
            JsonArgument::Text(text) if !text.trim_start().starts_with('{') && text.trim() != "null" => {
                JsonArgument::File(text)
            }
            document => document,
        }))
    }
}

impl PolicyArgument {
    /// Reads the policy of `--policy`. Without an `on_conflict` of its own a duplicate is ignored.
    pub(crate) fn policy(&self) -> Result<UniquePolicy, Failure> {
        Ok(UniquePolicy::from_json_with_default(&self.0.value("--policy")?, OnConflict::Ignore)?)
    }

    /// Reads the policy, or `null`, which gives the policy of a registered kind up. Errors name the `option`.
    pub(crate) fn policy_or_none(&self, option: &str) -> Result<Option<UniquePolicy>, Failure> {
        match self.0.value(option)? {
            Value::Null => Ok(None),
            document => Ok(Some(UniquePolicy::from_json_with_default(&document, OnConflict::Ignore)?)),
        }
    }
}

/// Gives a job its policy, which is that of `--policy`, or of `--key` as the document `{"key": …}`. The policy `null` gives
/// that of the registered kind up. `unique` is the option of a job that takes a policy.
pub(crate) fn with_policy(
    job: NewJob,
    policy: Option<&PolicyArgument>,
    key: Option<&str>,
    unique: fn(NewJob, UniquePolicy) -> NewJob,
) -> Result<NewJob, Failure> {
    if let Some(key) = key {
        return Ok(job.unique(UniquePolicy::from_json_with_default(&json!({ "key": key }), OnConflict::Ignore)?));
    }
    Ok(match policy.map(|policy| policy.policy_or_none("--policy")).transpose()? {
        Some(Some(policy)) => unique(job, policy),
        Some(None) => job.not_unique(),
        None => job,
    })
}

/// Gives a job its meta.
pub(crate) fn with_meta(job: NewJob, meta: &JsonArgument) -> Result<NewJob, Failure> {
    Ok(meta.members("--meta")?.into_iter().fold(job, |job, (name, value)| job.meta(name, value)))
}

/// Reads a unique key.
pub(crate) fn unique_key(given: &str) -> Result<String, String> {
    match given.len() {
        1..=512 => Ok(given.to_owned()),
        0 => Err("a unique key is not empty".to_owned()),
        bytes => Err(format!("a unique key has at most 512 bytes, and this has {bytes}")),
    }
}

/// The fewest digits that name a job.
const FEWEST_DIGITS: usize = 4;

/// How many jobs with the same first digits are named.
const LISTED: u32 = 5;

/// A job's id, or the first digits of it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum IdArgument {
    Id(JobId),
    /// Lower-case digits without hyphens.
    Digits(String),
}

impl FromStr for IdArgument {
    type Err = Error;

    fn from_str(given: &str) -> Result<Self, Error> {
        given.parse().map(Self::Id).or_else(|error| {
            // The hyphens of an id that was cut off stand where those of a whole one do.
            let is_cut = given.char_indices().all(|(at, c)| match at {
                8 | 13 | 18 | 23 => c == '-',
                _ => c.is_ascii_hexdigit(),
            });
            let digits = given.replace('-', "").to_ascii_lowercase();
            if is_cut && (FEWEST_DIGITS..32).contains(&digits.len()) { Ok(Self::Digits(digits)) } else { Err(error) }
        })
    }
}

impl IdArgument {
    /// Finds the job, or why the argument does not name one job. Ids with the same first digits are neighbours in the order of
    /// ids.
    pub(crate) async fn find(&self, client: &Client) -> Result<std::result::Result<JobRow, String>, Error> {
        let digits = match self {
            Self::Id(id) => return Ok(client.job(id).await?.ok_or_else(|| format!("no such job: {id}"))),
            Self::Digits(digits) => digits,
        };
        let end =
            |filler: &str| format!("{digits}{}", filler.repeat(32 - digits.len())).parse::<Uuid>().unwrap_or_default();
        let named = JobFilter::new().id_at_least(end("0")).id_at_most(end("f"));
        let mut found = client.jobs(named.oldest_first().limit(LISTED + 1)).await?;
        Ok(match found.len() {
            0 => Err(format!("no such job: {digits}")),
            1 => Ok(found.remove(0)),
            count => {
                let more = if count > LISTED as usize { "\n  …" } else { "" };
                let ids: Vec<_> = found.iter().take(LISTED as usize).map(|job| format!("  {}", job.id)).collect();
                Err(format!("several jobs begin with {digits}:\n{}{more}", ids.join("\n")))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    #[test]
    fn lengths_are_read_in_units_that_add_up() {
        let read = |text: &str| text.parse::<DurationArgument>().map(|DurationArgument(length)| length.as_millis());
        assert_eq!(read("90s"), Ok(90_000));
        assert_eq!(read("1h30m"), Ok(5_400_000));
        assert_eq!(read("1.5h"), Ok(5_400_000));
        assert_eq!(read("PT1H30M"), Ok(5_400_000));
        assert_eq!(read("1d 12h"), Ok(129_600_000));
        assert_eq!(read("15min"), Ok(900_000));
        assert_eq!(read("2w"), Ok(1_209_600_000));
        assert_eq!(read("500ms"), Ok(500));
        for zero in ["0", "0s", "PT0S"] {
            assert_eq!(read(zero), Ok(0), "{zero}");
        }
        for bad in ["", "5", "h", "2 parsecs", "-2h", "2h ago", "1mo", "1y", "99999999999999999999d", "2h;"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_written_can_be_read_again() {
        for text in ["0s", "500ms", "90s", "1h30m", "7d"] {
            let length: DurationArgument = text.parse().unwrap();
            assert_eq!(length.to_string().parse(), Ok(length), "{text}");
        }
    }

    #[test]
    fn a_time_is_absolute_or_counted_from_now() {
        let now = datetime!(2026-11-21 12:00 UTC);
        let read = |text: &str| text.parse::<TimeArgument>().map(|time| time.at(now));
        assert_eq!(read("2026-11-21T14:30:00+02:00"), Ok(datetime!(2026-11-21 12:30 UTC)));
        assert_eq!(read("2026-11-20"), Ok(datetime!(2026-11-20 0:00 UTC)));
        assert_eq!(read("now"), Ok(now));
        assert_eq!(read("2h"), Ok(datetime!(2026-11-21 10:00 UTC)));
        assert_eq!(read("-2h"), read("2h"));
        assert_eq!(read("2h ago"), read("2h"));
        assert_eq!(read("+2h"), Ok(datetime!(2026-11-21 14:00 UTC)));
        // Before the year -9999, the first of the calendar.
        assert_eq!(read("1000000w"), Ok(time::PrimitiveDateTime::MIN.assume_utc()));
        for bad in ["", "yesterday", "2026-13-01", "12:00", "+", "--2h"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_id_may_be_cut_off_anywhere() {
        let whole = "019abc12-3456-7def-8a12-3456789abcde";
        let parsed = |given: &str| given.parse::<IdArgument>().ok();
        assert_eq!(parsed(whole), Some(IdArgument::Id(whole.parse().unwrap())));
        for length in FEWEST_DIGITS..whole.len() {
            let digits = whole[..length].replace('-', "");
            assert_eq!(parsed(&whole[..length].to_uppercase()), Some(IdArgument::Digits(digits)), "{length}");
        }
        for wrong in ["", "019", "019abc1-", "019abc123", "nope", "019abc12-3456-7def-8a12-3456789abcdef0"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }
}
