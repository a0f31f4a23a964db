//! Times of a request: RFC 3339, or a length from now on. A length in ISO 8601 has weeks and shorter units, whose length is fixed.

use std::time::Duration;

use serde_json::json;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uniqueue::NewJob;

use crate::fields::{Fields, wrong};
use crate::problem::Problem;

/// A time as a request gives it.
enum Moment {
    At(OffsetDateTime),
    /// `+PT5S`: counted by the database's clock.
    In(Duration),
}

fn read(fields: Fields<'_>, name: &str) -> Result<Option<Moment>, Problem> {
    let Some(text) = fields.text(name)? else { return Ok(None) };
    let moment = match text.strip_prefix('+') {
        Some(length) => read_length(length).map(Moment::In),
        None => OffsetDateTime::parse(text, &Rfc3339).ok().map(Moment::At),
    };
    let must_be = "a time such as 2026-02-12T10:30:00Z, or a length from now on such as +PT5S";
    moment.map(Some).ok_or_else(|| wrong(name, must_be, &json!(text)))
}

/// Sets when a job starts and expires.
pub(crate) fn apply(mut job: NewJob, fields: Fields<'_>) -> Result<NewJob, Problem> {
    let start = match read(fields, "delay_until")? {
        Some(start) => Some(start),
        None => read(fields, "scheduled_at")?,
    };
    let is_scheduled = start.is_some();
    job = match start {
        Some(Moment::At(at)) => job.scheduled_at(at),
        Some(Moment::In(length)) => job.scheduled_in(length),
        None => job,
    };
    if fields.is_set("pending")? {
        if is_scheduled {
            return Err(Problem::invalid("invalid pending: must not stand together with a time"));
        }
        job = job.pending();
    }
    Ok(match read(fields, "expires_at")? {
        Some(Moment::At(at)) => job.expires_at(at),
        Some(Moment::In(length)) => job.expires_in(length),
        None => job,
    })
}

/// A time of an answer, in UTC.
pub(crate) fn text(at: OffsetDateTime) -> String {
    at.to_offset(time::UtcOffset::UTC).format(&Rfc3339).unwrap_or_default()
}

/// Reads a length such as `PT1S`, `PT0.5S` or `P1DT12H`. `None`: it is none, or has months or years.
pub(crate) fn read_length(text: &str) -> Option<Duration> {
    match text {
        // The library's lengths are above zero.
        "PT0S" => Some(Duration::ZERO),
        _ if text.starts_with('P') => uniqueue::period::parse(text).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_in_their_order_and_nothing_else_is() {
        let millis = |text| read_length(text).map(|length| length.as_millis());
        assert_eq!(millis("PT1S"), Some(1_000));
        assert_eq!(millis("PT0.5S"), Some(500));
        assert_eq!(millis("P1DT1H1M1S"), Some(90_061_000));
        assert_eq!(millis("P2W"), Some(1_209_600_000));
        for wrong in ["", "P", "PT", "1S", "PT1", "P1Y", "P1M", "PT1S1M", "PT.S", "PT1.S", "PT-1S", "PT1e9S", "PTé"] {
            assert_eq!(read_length(wrong), None, "{wrong}");
        }
        assert_eq!(read_length("PT99999999999999S"), None);
    }
}
