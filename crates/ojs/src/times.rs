//! Times of a request: RFC 3339, or a length from now on.

use serde_json::json;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uniqueue::NewJob;

use crate::duration;
use crate::fields::{Fields, wrong};
use crate::problem::Problem;

/// A time as a request gives it.
enum Moment {
    At(OffsetDateTime),
    /// `+PT5S`: counted by the database's clock.
    In(std::time::Duration),
}

fn read(fields: Fields<'_>, name: &str) -> Result<Option<Moment>, Problem> {
    let Some(text) = fields.text(name)? else { return Ok(None) };
    let moment = match text.strip_prefix('+') {
        Some(length) => duration::read(length).map(Moment::In),
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
