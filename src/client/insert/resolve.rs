//! From a job to its row: layers the options, checks every value, makes the key.

use std::borrow::Cow;

use serde_json::value::RawValue;
use sqlx::PgConnection;
use time::{OffsetDateTime, UtcOffset};

use super::Client;
use crate::client::connections::place_guard::PlaceGuard;
use crate::client::testing_clock::TimePassed;
use crate::error::{Error, Result};
use crate::json::{check_text, check_value, read_args};
use crate::period;
use crate::store::NewRow;
use crate::unique::{Subject, UniquePolicy};
use crate::words::group::{Group, GroupBy};
use crate::words::ident::{Kind, NewIds, QueueName};
use crate::words::job::NewJob;
use crate::words::opts::{DEFAULT_MAX_ATTEMPTS, Expiry, InsertOptions, MAX_MAX_ATTEMPTS, Start};
use crate::words::place_by::{PlaceBy, member};

const SCHEDULE_YEARS: std::ops::RangeInclusive<i32> = 1..=9_000;

/// The most bytes of a job's meta as JSON text. `insert_job` has the same limit.
const MAX_META_BYTES: usize = 1 << 20;

/// Makes rows of jobs. A value that many jobs of a call share is made once.
pub(in crate::client) struct Resolver<'a> {
    /// The options of jobs that have none. `None`: the client has none, either.
    defaults: Option<&'a InsertOptions>,
    /// The place that the jobs must belong to. `None`: any.
    place: Option<&'a PlaceGuard>,
    /// The database's time, where a key depends on it.
    now: Option<OffsetDateTime>,
    max_args_bytes: usize,
    passed: TimePassed,
    ids: NewIds,
    kind: Option<Kind>,
    queue: Option<QueueName>,
}

impl<'a> Resolver<'a> {
    pub(in crate::client) fn new(client: &'a Client, now: Option<OffsetDateTime>) -> Self {
        Self {
            defaults: Some(client.defaults()).filter(|defaults| !defaults.is_empty()),
            place: client.inner.place.as_deref(),
            now,
            max_args_bytes: client.max_args_bytes(),
            passed: client.passed(),
            ids: NewIds::now(),
            kind: None,
            queue: None,
        }
    }

    /// The same, whatever place the jobs belong to.
    pub(in crate::client) fn for_any_place(self) -> Self {
        Self { place: None, ..self }
    }

    /// Checks a job, and makes its row.
    pub(in crate::client) fn resolve(&mut self, job: NewJob) -> Result<NewRow> {
        let has_given_id = job.has_given_id();
        let NewJob { kind, args, options, parents, mark: _, has_new_id: _ } = job;
        let options = match self.defaults {
            Some(defaults) => options.or(defaults),
            None => options,
        };
        // An id that the caller did not give decides no place.
        let way = options.place.clone().filter(|way| *way != PlaceBy::Id || has_given_id);
        let mut row = self.row(&kind, args, options)?;
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
    }

    fn row(&mut self, kind: &str, args: Result<Box<RawValue>, String>, options: InsertOptions) -> Result<NewRow> {
        let kind = again(kind, &mut self.kind, Kind::parse)?;
        let queue = match &options.queue {
            None => QueueName::default(),
            Some(queue) => again(queue, &mut self.queue, QueueName::parse)?,
        };
        let args = args.map_err(|problem| Error::InvalidJson { what: "args", kind: kind.to_string(), problem })?;
        // They are text, and stay text: this looks at each byte of every insert.
        check_text("args", kind.as_str(), args.get(), self.max_args_bytes)?;
        if !options.meta.is_empty() {
            check_value("meta", kind.as_str(), &options.meta, MAX_META_BYTES)?;
        }
        // When it is due: as its options say, or else as long from now as its policy debounces it.
        let debounce = || options.unique.as_ref()?.delay().map(Start::After);
        let start = options.start.or_else(debounce);
        let mut row = NewRow {
            id: options.id.unwrap_or_else(|| self.ids.generate()),
            kind,
            queue,
            args,
            meta: options.meta,
            priority: options.priority.unwrap_or(0),
            max_attempts: options.max_attempts.unwrap_or(DEFAULT_MAX_ATTEMPTS),
            scheduled_at: if let Some(Start::At(at)) = start { Some(at) } else { None },
            delay: if let Some(Start::After(delay)) = start { Some(delay) } else { None },
            is_pending: start == Some(Start::WhenReleased),
            claim: None,
            group: None,
            expiry: options.expiry,
        };
        check(&row)?;
        if let Some(policy) = &options.unique {
            // Due in the window that its key is made for.
            if let (true, Some(now), Some(delay)) = (policy.needs_clock(), self.now, row.delay) {
                (row.scheduled_at, row.delay) = (Some(now + delay), None);
            }
            row.claim = self.read(&row, policy, |subject| policy.resolve(subject))?;
        }
        let key = match options.group {
            Some(GroupBy::Nothing) => return check_max_delay(row),
            None => None,
            Some(GroupBy::Key(key)) => Some(key),
            Some(GroupBy::Policy(policy)) => self.group_key(&row, &policy)?,
        };
        row.group = Group::new(key, options.group_limit, options.in_order.unwrap_or_default())?;
        check_max_delay(row)
    }

    /// Shows `make` a row as a policy reads it. The time
    /// that decides a window is the job's own where it has one, else the database's now.
    fn read<T>(&self, row: &NewRow, policy: &UniquePolicy, make: impl FnOnce(&Subject<'_>) -> Result<T>) -> Result<T> {
        let window_at = row.scheduled_at.or(self.now).map(|due| self.passed.window_at(due));
        policy.read_job(row.kind.as_str(), row.queue.as_str(), &row.args, &row.meta, window_at, make)
    }

    /// The key of the group that a policy makes. `None`: the policy enforces nothing.
    fn group_key(&self, row: &NewRow, policy: &UniquePolicy) -> Result<Option<String>> {
        if policy.needs_clock() {
            return Err(Error::InvalidPolicy { field: "window", problem: "a group has none".to_owned() });
        }
        self.read(row, policy, |subject| policy.group_key(subject))
    }
}

/// The row of one job, with the canonical text of its key where there is one.
pub(in crate::client) async fn prepare_one(
    client: &Client,
    connection: &mut PgConnection,
    job: NewJob,
) -> Result<(NewRow, Option<String>)> {
    let now = clock(client, connection, std::slice::from_ref(&job)).await?;
    let mut resolver = Resolver::new(client, now).for_any_place();
    let unique = job.options.unique.clone().or_else(|| client.defaults().unique.clone());
    let row = resolver.resolve(job)?;
    let canonical = match &unique {
        Some(policy) => resolver.read(&row, policy, |subject| policy.canonical(subject))?,
        None => None,
    };
    Ok((row, canonical))
}

#[cfg(feature = "testing")]
impl Client {
    /// The row that the insert of a job would send at this time.
    pub(crate) fn row_of(&self, job: NewJob, now: OffsetDateTime) -> Result<NewRow> {
        Resolver::new(self, Some(now)).resolve(job)
    }
}

/// The database's time, if a key depends on it.
pub(super) async fn clock(
    client: &Client,
    connection: &mut PgConnection,
    jobs: &[NewJob],
) -> Result<Option<OffsetDateTime>> {
    if !jobs.iter().any(|job| needs_clock(&job.options, client.defaults())) {
        return Ok(None);
    }
    client.store(connection).database_time().await.map(Some)
}

pub(in crate::client) fn needs_clock(options: &InsertOptions, defaults: &InsertOptions) -> bool {
    let unique = options.unique.as_ref().or(defaults.unique.as_ref());
    unique.is_some_and(UniquePolicy::needs_clock) && !matches!(options.start.or(defaults.start), Some(Start::At(_)))
}

/// Returns the row. A job that is due after the longest delay of its policy could never be pushed: that is an error. The
/// database checks a `scheduled_at`.
fn check_max_delay(row: NewRow) -> Result<NewRow> {
    let update = row.claim.as_ref().and_then(|claim| claim.terms.changes());
    match (update.and_then(|update| update.max_delay), row.delay) {
        (Some(max_delay), Some(delay)) if delay >= max_delay => Err(Error::InvalidPolicy {
            field: "max_delay",
            problem: format!(
                "must be longer than the delay: {} and {}",
                period::write(max_delay),
                period::write(delay)
            ),
        }),
        _ => Ok(row),
    }
}

/// Checks the values of a row.
fn check(row: &NewRow) -> Result<()> {
    let refuse = |option, problem, given| Err(Error::InvalidOption { option, problem, given });
    match (row.delay, row.scheduled_at) {
        (Some(delay), _) if delay > period::LONGEST => {
            return refuse("scheduled_in", "must not be longer than 100 years", format!("{delay:?}"));
        }
        (_, Some(at)) => check_year("scheduled_at", at)?,
        _ => {}
    }
    match (row.expiry, row.scheduled_at) {
        (Some(Expiry::At(at)), Some(due)) if at <= due => {
            return refuse("expires_at", "must be after scheduled_at", format!("{at} and {due}"));
        }
        (Some(Expiry::At(at)), _) => check_year("expires_at", at)?,
        (Some(Expiry::In(length)), _) if length.as_micros() == 0 || length > period::LONGEST => {
            return refuse("expires_in", "must be more than 0 and at most 100 years", format!("{length:?}"));
        }
        _ => {}
    }
    match (1..=MAX_MAX_ATTEMPTS).contains(&row.max_attempts) {
        true => Ok(()),
        false => refuse("max_attempts", "must be 1 to 32767", row.max_attempts.to_string()),
    }
}

/// Parses a name, or shares the `last` one's text where it is the same again.
fn again<N: AsRef<str> + Clone>(given: &str, last: &mut Option<N>, parse: fn(&str) -> Result<N>) -> Result<N> {
    if let Some(last) = last.as_ref().filter(|last| last.as_ref() == given) {
        return Ok(last.clone());
    }
    Ok(last.insert(parse(given)?).clone())
}

/// Checks that a time is in the years that the table holds.
pub(in crate::client) fn check_year(option: &'static str, at: OffsetDateTime) -> Result<()> {
    // In UTC, as the database does: an offset moves the year. Beyond 9999 there is no year in UTC.
    if at.checked_to_offset(UtcOffset::UTC).is_some_and(|at| SCHEDULE_YEARS.contains(&at.year())) {
        return Ok(());
    }
    Err(Error::InvalidOption { option, problem: "must be in the years 1 to 9000", given: at.to_string() })
}

/// The value of a job that decides its place. `None`: it has no such value.
pub(in crate::client) fn value_of<'a>(way: &PlaceBy, row: &'a NewRow) -> Result<Option<Cow<'a, str>>> {
    Ok(match way {
        PlaceBy::UniqueKey => row.key().map(Into::into),
        PlaceBy::Group => row.group.as_ref().map(|group| group.key.as_str().into()),
        PlaceBy::Id => Some(row.id.to_string().into()),
        PlaceBy::Arg(selector) => member(&read_args(row.kind.as_str(), &row.args)?, selector)?.map(Cow::from),
    })
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
