//! The time that a list of jobs covers: how far back it goes, or a range of one's own, by the insert or by the last failure.

use time::macros::format_description;
use time::{Date, PrimitiveDateTime};

use crate::failure::Failure;
use crate::fields::Fields;
use crate::pages::prelude::*;

/// How far back a list goes: name, length. The last has no limit.
pub(crate) const SINCE: [(&str, &str, Option<Duration>); 5] = [
    ("1h", "1 h", Some(Duration::from_secs(3_600))),
    ("24h", "24 h", Some(Duration::from_secs(86_400))),
    ("7d", "7 d", Some(Duration::from_secs(7 * 86_400))),
    ("30d", "30 d", Some(Duration::from_secs(30 * 86_400))),
    ("all", "any time", None),
];

/// How much the clocks of clients, which make the ids, may differ from the database's.
pub(crate) const CLOCKS: Duration = Duration::from_secs(3_600);

/// The time that a list covers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Range {
    /// Whether the time of the last failure counts. Else the time of the insert does.
    pub(crate) is_by_failure: bool,
    /// One of [`SINCE`], where neither end is given.
    pub(crate) since: usize,
    pub(crate) from: Option<OffsetDateTime>,
    pub(crate) to: Option<OffsetDateTime>,
}

impl Default for Range {
    /// The last 24 hours.
    fn default() -> Self {
        Self { is_by_failure: false, since: 1, from: None, to: None }
    }
}

impl Range {
    /// The end of the inserts in the range, no later than now.
    pub(crate) fn inserted_before(&self, now: OffsetDateTime) -> OffsetDateTime {
        self.to.filter(|_| !self.is_by_failure).map_or(now, |to| to.min(now))
    }

    pub(crate) fn read(fields: &Fields) -> Result<Self, Failure> {
        let since = fields.get("since").unwrap_or("24h");
        let moment = |name| {
            let read = |text: &str| {
                read_time(text)
                    .ok_or_else(|| Failure::Bad(format!("{name} is not a time such as 2026-01-15T09:30: {text:?}")))
            };
            fields.get(name).map(read).transpose()
        };
        Ok(Self {
            is_by_failure: fields.get("by") == Some("failure"),
            since: SINCE.iter().position(|(name, ..)| *name == since).unwrap_or(1),
            from: moment("from")?,
            to: moment("to")?,
        })
    }

    /// Whether the range was given by its ends.
    pub(crate) fn is_own(&self) -> bool {
        self.from.is_some() || self.to.is_some()
    }

    /// How far back the list goes. `None`: it has no limit.
    fn start(&self, now: OffsetDateTime) -> Option<OffsetDateTime> {
        if self.is_own() { self.from } else { SINCE[self.since].2.map(|since| now - since) }
    }

    /// The lowest id of the range. `None`: it has no limit. A job that failed lately may have been inserted long ago.
    pub(crate) fn oldest(&self, now: OffsetDateTime) -> Option<JobId> {
        let start = self.start(now).filter(|_| !self.is_by_failure)?;
        Some(JobId::first_at(start.checked_sub(time::Duration::try_from(CLOCKS).unwrap_or_default())?))
    }

    /// The conditions for the library.
    pub(crate) fn add_to(&self, filter: JobFilter, now: OffsetDateTime) -> JobFilter {
        let (after, before): (fn(_, _) -> _, fn(_, _) -> _) = match self.is_by_failure {
            true => (JobFilter::failed_after, JobFilter::failed_before),
            false => (JobFilter::created_after, JobFilter::created_before),
        };
        // The time of a job has no index. Its id has one.
        filter.given(self.start(now), after).given(self.to, before).given(self.oldest(now), JobFilter::id_at_least)
    }

    /// The fields of the URL.
    pub(crate) fn pairs(&self) -> Vec<(&'static str, String)> {
        let mut pairs = Vec::new();
        if self.is_by_failure {
            pairs.push(("by", "failure".to_owned()));
        }
        if self.since != 1 && !self.is_own() {
            pairs.push(("since", SINCE[self.since].0.to_owned()));
        }
        pairs.extend(self.from.map(|at| ("from", written(at))));
        pairs.extend(self.to.map(|at| ("to", written(at))));
        pairs
    }

    /// The options of the command.
    pub(crate) fn options(&self) -> Vec<String> {
        let mut words = Vec::new();
        match (self.is_own(), SINCE[self.since].2, self.is_by_failure) {
            (true, ..) | (false, None, _) => {}
            (false, Some(_), true) => words.push(format!("--failed-after {}", SINCE[self.since].0)),
            (false, Some(_), false) => words.push(format!("--newer-than {}", SINCE[self.since].0)),
        }
        let name = if self.is_by_failure { "failed" } else { "created" };
        words.extend(self.from.map(|at| format!("--{name}-after {}Z", written(at))));
        words.extend(self.to.map(|at| format!("--{name}-before {}Z", written(at))));
        words
    }
}

/// A time in UTC, as a field of a form has it.
pub(crate) fn written(at: OffsetDateTime) -> String {
    let format = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]");
    at.to_offset(time::UtcOffset::UTC).format(format).unwrap_or_default()
}

/// A time in UTC: with seconds, without, or a date.
fn read_time(text: &str) -> Option<OffsetDateTime> {
    let text = text.trim().trim_end_matches('Z').replace(' ', "T");
    let seconds = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]");
    let minutes = format_description!("[year]-[month]-[day]T[hour]:[minute]");
    let date = format_description!("[year]-[month]-[day]");
    PrimitiveDateTime::parse(&text, seconds)
        .or_else(|_| PrimitiveDateTime::parse(&text, minutes))
        .or_else(|_| Date::parse(&text, date).map(|date| date.midnight()))
        .map(PrimitiveDateTime::assume_utc)
        .ok()
}
