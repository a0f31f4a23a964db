//! From jobs to rows: layers the options, checks every value, makes the keys.

use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Map, Value};
use sqlx::PgConnection;
use time::{OffsetDateTime, UtcOffset};

use super::Client;
use super::edges::edges;
use super::payload::{check_args, check_meta, read_args};
use super::placed_row::value_of;
use crate::client::passed::TimePassed;
use crate::client::place_guard::PlaceGuard;
use crate::error::{Error, Result};
use crate::period;
use crate::store::{self, Edge, NewRow};
use crate::unique::{Claim, OnConflict, Subject, UniquePolicy};
use crate::words::group::{Group, GroupBy};
use crate::words::ident::{Kind, NewIds, QueueName};
use crate::words::job::NewJob;
use crate::words::opts::{Expiry, InsertOptions, Start, Unique};
use crate::words::place_by::PlaceBy;

const DEFAULT_MAX_ATTEMPTS: u16 = 25;
const MAX_MAX_ATTEMPTS: u16 = 32_767;

/// The longest wait, as for every other duration. Sums of times stay within what both sides can
/// write.
const LONGEST_DELAY: Duration = Duration::from_secs(36_525 * 86_400);
const SCHEDULE_YEARS: std::ops::RangeInclusive<i32> = 1..=9_000;

/// Jobs, and the options of the client's that are theirs where they have none.
pub(super) struct LayeredJobs<'a> {
    jobs: Vec<NewJob>,
    defaults: &'a InsertOptions,
    max_args_bytes: usize,
    passed: TimePassed,
    /// The place that they must belong to. `None`: any.
    place: Option<&'a PlaceGuard>,
}

impl<'a> LayeredJobs<'a> {
    pub(super) fn new(client: &'a Client, jobs: Vec<NewJob>) -> Self {
        let (defaults, place) = (client.defaults(), client.inner.place.as_deref());
        Self { jobs, defaults, max_args_bytes: client.max_args_bytes(), passed: client.passed(), place }
    }

    /// The same jobs, whatever place they belong to.
    pub(super) fn for_any_place(self) -> Self {
        Self { place: None, ..self }
    }

    /// Whether a key depends on the database's time.
    pub(super) fn needs_clock(&self) -> bool {
        self.jobs.iter().any(|job| needs_clock(&job.options, self.defaults))
    }

    /// Whether an id is the caller's, and so may be there already.
    pub(super) fn has_given_ids(&self) -> bool {
        self.jobs.iter().any(|job| job.options.id.is_some() && !job.has_new_id)
    }

    /// The edges between the jobs.
    pub(super) fn edges(&self) -> Result<Vec<Edge>> {
        edges(&self.jobs)
    }

    /// Checks every job and makes its row, given the database's time where a key depends on it.
    pub(super) fn rows(self, now: Option<OffsetDateTime>) -> Result<Vec<NewRow>> {
        let mut maker = RowMaker::new(now, self.max_args_bytes, self.passed);
        let defaults = Some(self.defaults).filter(|defaults| !defaults.is_empty());
        let row = |NewJob { kind, args, options, parents, mark: _, has_new_id }| {
            let options = match defaults {
                Some(defaults) => options.or(defaults),
                None => options,
            };
            // An id that the caller did not give decides no place.
            let has_own_id = options.id.is_some() && !has_new_id;
            let way = options.place.clone().filter(|way| *way != PlaceBy::Id || has_own_id);
            let mut row = maker.row(&kind, args, options)?;
            if let (Some(place), Some(way)) = (self.place, way)
                && let Some(value) = value_of(&way, &row)?
            {
                place.check_job(row.kind.as_str(), &value)?;
            }
            if !parents.is_empty() {
                if row.is_pending {
                    let problem = "must not stand together with after";
                    return Err(Error::InvalidOption { option: "pending", problem, given: "true".to_owned() });
                }
                row.is_pending = true;
            }
            Ok(row)
        };
        self.jobs.into_iter().map(row).collect()
    }
}

/// The row of one job, with the canonical text of its key where there is one.
pub(in crate::client) async fn prepare_one(
    client: &Client,
    connection: &mut PgConnection,
    job: NewJob,
) -> Result<(NewRow, Option<String>)> {
    let NewJob { kind, args, options, .. } = job;
    let now = if needs_clock(&options, client.defaults()) {
        Some(store::database_time(connection, client.statements()).await?)
    } else {
        None
    };
    let options = options.or(client.defaults());
    let start = start_of(options.start, options.unique.as_ref());
    let unique = options.unique.clone();
    let passed = client.passed();
    let row = RowMaker::new(now, client.max_args_bytes(), passed).row(&kind, args, options)?;
    let canonical = match &unique {
        Some(Unique::Policy(policy)) => {
            let NewRow { kind, queue, args, meta, .. } = &row;
            let unread = Unread { kind, queue, args, meta, window_at: window_at(start, now, passed) };
            unread.read(policy, |subject| policy.canonical(subject))?
        }
        Some(Unique::Key(_) | Unique::No) | None => None,
    };
    Ok((row, canonical))
}

pub(in crate::client) fn needs_clock(options: &InsertOptions, defaults: &InsertOptions) -> bool {
    let unique = options.unique.as_ref().or(defaults.unique.as_ref());
    let is_windowed = matches!(unique, Some(Unique::Policy(policy)) if policy.needs_clock());
    is_windowed && !matches!(options.start.or(defaults.start), Some(Start::At(_)))
}

/// Makes rows of jobs. A value that many jobs of a batch share is made once.
struct RowMaker {
    /// The database's time, where a key depends on it.
    now: Option<OffsetDateTime>,
    max_args_bytes: usize,
    passed: TimePassed,
    ids: NewIds,
    kind: Option<Kind>,
    queue: Option<QueueName>,
}

impl RowMaker {
    fn new(now: Option<OffsetDateTime>, max_args_bytes: usize, passed: TimePassed) -> Self {
        Self { now, max_args_bytes, passed, ids: NewIds::now(), kind: None, queue: None }
    }

    /// Checks a job, and makes its row.
    fn row(&mut self, kind: &str, args: Result<Box<RawValue>, String>, options: InsertOptions) -> Result<NewRow> {
        let InsertOptions {
            id,
            queue,
            priority,
            max_attempts,
            start,
            meta,
            unique,
            group,
            group_limit,
            in_order,
            expiry,
            place: _,
        } = options;
        let kind = again(kind, &mut self.kind, Kind::parse)?;
        let queue = match queue {
            None => QueueName::default(),
            Some(queue) => again(&queue, &mut self.queue, QueueName::parse)?,
        };
        let args = args.map_err(|problem| Error::InvalidJson { what: "args", kind: kind.to_string(), problem })?;
        check_args(kind.as_str(), &args, self.max_args_bytes)?;
        check_meta(kind.as_str(), &meta)?;
        let max_attempts = max_attempts.unwrap_or(DEFAULT_MAX_ATTEMPTS);
        if !(1..=MAX_MAX_ATTEMPTS).contains(&max_attempts) {
            return Err(Error::InvalidOption {
                option: "max_attempts",
                problem: "must be 1 to 32767",
                given: max_attempts.to_string(),
            });
        }
        let given_start = start;
        let start = start_of(start, unique.as_ref());
        check_start(start)?;
        check_expiry(expiry, given_start)?;
        let start = match (start, &unique, self.now) {
            // Due in the window that its key is made for.
            (Start::After(delay), Some(Unique::Policy(policy)), Some(now)) if policy.needs_clock() => {
                Start::At(now + delay)
            }
            _ => start,
        };
        let claim = match unique {
            None | Some(Unique::No) => None,
            Some(Unique::Key(key)) => Some(key.claim()?),
            Some(Unique::Policy(policy)) => {
                let unread = Unread {
                    kind: &kind,
                    queue: &queue,
                    args: &args,
                    meta: &meta,
                    window_at: window_at(start, self.now, self.passed),
                };
                unread.read(&policy, |subject| policy.resolve(subject))?
            }
        };
        let group = match group {
            Some(GroupBy::Nothing) => None,
            None => Group::new(None, group_limit, in_order.unwrap_or_default())?,
            Some(GroupBy::Key(key)) => Group::new(Some(key), group_limit, in_order.unwrap_or_default())?,
            Some(GroupBy::Policy(policy)) => {
                let unread = Unread { kind: &kind, queue: &queue, args: &args, meta: &meta, window_at: None };
                Group::new(group_key(&policy, &unread)?, group_limit, in_order.unwrap_or_default())?
            }
        };
        if let (Some(claim), Start::After(delay)) = (&claim, start) {
            check_max_delay(claim, delay)?;
        }
        Ok(NewRow {
            id: id.unwrap_or_else(|| self.ids.generate()),
            kind,
            queue,
            args,
            meta,
            priority: priority.unwrap_or(0),
            max_attempts,
            scheduled_at: match start {
                Start::At(at) => Some(at),
                _ => None,
            },
            delay: match start {
                Start::After(delay) => Some(delay),
                _ => None,
            },
            is_pending: start == Start::WhenReleased,
            claim,
            group,
            expiry,
        })
    }
}

/// When a job is due: as its options say, or else as long from now as its policy debounces it.
fn start_of(given: Option<Start>, unique: Option<&Unique>) -> Start {
    let delay = unique.and_then(Unique::delay).map(Start::After);
    given.or(delay).unwrap_or(Start::Now)
}

/// The key of the group that a policy makes. `None`: the policy enforces nothing.
pub(super) fn group_key(policy: &UniquePolicy, unread: &Unread<'_>) -> Result<Option<String>> {
    if policy.needs_clock() {
        return Err(Error::InvalidPolicy { field: "window", problem: "a group has none".to_owned() });
    }
    unread.read(policy, |subject| policy.group_key(subject))
}

/// A job that is due after the longest delay of its policy could never be pushed. The database checks a `scheduled_at`.
fn check_max_delay(claim: &Claim, delay: Duration) -> Result<()> {
    let max_delay = claim.update.max_delay().filter(|_| claim.on_conflict == OnConflict::Update);
    match max_delay {
        Some(max_delay) if delay >= max_delay => Err(Error::InvalidPolicy {
            field: "max_delay",
            problem: format!(
                "must be longer than the delay: {} and {}",
                period::write(max_delay),
                period::write(delay)
            ),
        }),
        _ => Ok(()),
    }
}

/// Parses a name, or shares the `last` one's text where it is the same again.
fn again<N: AsRef<str> + Clone>(given: &str, last: &mut Option<N>, parse: fn(&str) -> Result<N>) -> Result<N> {
    if let Some(last) = last.as_ref().filter(|last| last.as_ref() == given) {
        return Ok(last.clone());
    }
    Ok(last.insert(parse(given)?).clone())
}

fn check_start(start: Start) -> Result<()> {
    match start {
        Start::After(delay) if delay > LONGEST_DELAY => Err(Error::InvalidOption {
            option: "scheduled_in",
            problem: "must not be longer than 100 years",
            given: format!("{delay:?}"),
        }),
        Start::At(at) => check_schedule(at),
        Start::Now | Start::After(_) | Start::WhenReleased => Ok(()),
    }
}

/// The time by which a job has to start: later than the time that it is scheduled for, in the years that the table holds.
fn check_expiry(expiry: Option<Expiry>, start: Option<Start>) -> Result<()> {
    match (expiry, start) {
        (Some(Expiry::At(at)), Some(Start::At(due))) if at <= due => Err(Error::InvalidOption {
            option: "expires_at",
            problem: "must be after scheduled_at",
            given: format!("{at} and {due}"),
        }),
        (Some(Expiry::At(at)), _) => check_year("expires_at", at),
        (Some(Expiry::In(length)), _) if length.as_micros() == 0 || length > LONGEST_DELAY => {
            Err(Error::InvalidOption {
                option: "expires_in",
                problem: "must be more than 0 and at most 100 years",
                given: format!("{length:?}"),
            })
        }
        _ => Ok(()),
    }
}

pub(in crate::client) fn check_schedule(at: OffsetDateTime) -> Result<()> {
    check_year("scheduled_at", at)
}

fn check_year(option: &'static str, at: OffsetDateTime) -> Result<()> {
    // In UTC, as the database does: an offset moves the year. Beyond 9999 there is no year in UTC.
    if at.checked_to_offset(UtcOffset::UTC).is_some_and(|at| SCHEDULE_YEARS.contains(&at.year())) {
        return Ok(());
    }
    Err(Error::InvalidOption { option, problem: "must be in the years 1 to 9000", given: at.to_string() })
}

/// The parts of a job that a policy may read, as JSON text.
pub(super) struct Unread<'a> {
    pub(super) kind: &'a Kind,
    pub(super) queue: &'a QueueName,
    pub(super) args: &'a RawValue,
    pub(super) meta: &'a Map<String, Value>,
    pub(super) window_at: Option<OffsetDateTime>,
}

impl Unread<'_> {
    /// Shows `make` the subject. Args and meta are read only when the policy's key needs them.
    pub(super) fn read<T>(&self, policy: &UniquePolicy, make: impl FnOnce(&Subject<'_>) -> Result<T>) -> Result<T> {
        let args = if policy.needs_args() { read_args(self.kind.as_str(), self.args)? } else { Value::Null };
        let meta = if policy.needs_meta() { Value::Object(self.meta.clone()) } else { Value::Null };
        make(&Subject {
            kind: self.kind.as_str(),
            queue: self.queue.as_str(),
            args: &args,
            meta: &meta,
            window_at: self.window_at,
        })
    }
}

/// The time that decides a window: the job's own where it has one, else the database's now.
fn window_at(start: Start, now: Option<OffsetDateTime>, passed: TimePassed) -> Option<OffsetDateTime> {
    let due = match start {
        Start::At(at) => Some(at),
        Start::After(delay) => now.map(|now| now + delay),
        Start::Now | Start::WhenReleased => now,
    };
    due.map(|due| passed.window_at(due))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_checked_once_and_shared_where_it_comes_again() {
        let mut last = None;
        let mut next = |given| again(given, &mut last, Kind::parse);
        let first = next("a").unwrap();
        assert_eq!(next("a").unwrap().as_str().as_ptr(), first.as_str().as_ptr());
        assert!(next("").is_err());
        assert_eq!(next("b").unwrap().as_str(), "b");
        assert_eq!(next("a").unwrap(), first);
    }
}
