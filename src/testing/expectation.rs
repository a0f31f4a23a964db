//! The jobs that a test expects in the queue.

use std::collections::HashSet;
use std::fmt::{self, Write};
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use sqlx::PgConnection;
use time::OffsetDateTime;

use crate::client::Client;
use crate::error::Result;
use crate::words::filter::JobFilter;
use crate::words::ident::JobId;
use crate::words::job::JobRow;
use crate::words::state::JobState;

/// The most jobs that a failure shows.
const SHOWN: usize = 10;

/// The most jobs among which a failure looks for the nearest ones.
const COMPARED: u32 = 10_000;

/// The most characters of a job's args that a failure shows.
const ARGS_SHOWN: usize = 160;

/// Jobs that a test expects in the queue, or expects not to be there. Properties that are not given may be anything.
///
/// [`assert_inserted!`](crate::assert_inserted) and
/// [`assert_not_inserted!`](crate::assert_not_inserted) make one from their arguments, which are
/// named as the methods here, and fail with the text of [`Expectation::check`]. By hand:
///
/// ```
/// # use serde_json::json;
/// # use uniqueue::{NewJob, testing};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let database = testing::Database::new().await?;
/// # database.client().insert(NewJob::new("ping", &json!({}))).await?;
/// let jobs = testing::Expectation::new(&database).kind("ping").count(1).check().await?;
/// assert_eq!(jobs[0].attempt, 0);
/// # Ok(()) }
/// ```
#[must_use = "an expectation does nothing before check()"]
pub struct Expectation<'a> {
    client: Client,
    connection: Option<&'a mut PgConnection>,
    criteria: Vec<Criterion>,
    count: Option<usize>,
    problem: Option<String>,
}

/// One expected property.
struct Criterion {
    name: &'static str,
    /// The property in words.
    text: String,
    condition: Condition,
}

enum Condition {
    /// A condition that is added to a filter.
    Filter(Box<dyn Fn(JobFilter) -> JobFilter + Send + Sync>),
    /// One that no filter has.
    Row(Box<dyn Fn(&JobRow) -> bool + Send + Sync>),
}

impl<'a> Expectation<'a> {
    /// Expects any job, at least one.
    pub fn new(source: impl AsRef<Client>) -> Self {
        Self { client: source.as_ref().clone(), connection: None, criteria: Vec::new(), count: None, problem: None }
    }

    /// Of this kind.
    pub fn kind(self, kind: impl Into<String>) -> Self {
        let kind = kind.into();
        self.filtered("kind", format!("kind {kind}"), move |filter| filter.kind(&kind))
    }

    /// In this queue.
    pub fn queue(self, queue: impl Into<String>) -> Self {
        let queue = queue.into();
        self.filtered("queue", format!("queue {queue}"), move |filter| filter.queue(&queue))
    }

    /// With args that contain these, as by PostgreSQL's `@>`: objects may have more members, at every
    /// level, and arrays more items. A whole typed job expects each of its fields.
    pub fn args(self, args: impl Serialize) -> Self {
        self.containing("args", args, |filter, args| filter.args(args))
    }

    /// With meta that contains this.
    pub fn meta(self, meta: impl Serialize) -> Self {
        self.containing("meta", meta, |filter, meta| filter.meta(meta))
    }

    /// In this state now.
    pub fn state(self, state: JobState) -> Self {
        self.filtered("state", format!("state {state}"), move |filter| filter.states(state))
    }

    /// With this priority.
    pub fn priority(self, priority: i16) -> Self {
        self.filtered("priority", format!("priority {priority}"), move |filter| filter.priority(priority))
    }

    /// Scheduled at this time, within a second.
    pub fn scheduled_at(self, at: OffsetDateTime) -> Self {
        self.compared("scheduled_at", format!("scheduled_at {at}"), move |job| is_near(job.scheduled_at - at))
    }

    /// Scheduled this long after its insert, within a second.
    pub fn scheduled_in(self, delay: Duration) -> Self {
        self.compared("scheduled_in", format!("scheduled_in {delay:?}"), move |job| {
            is_near(job.scheduled_at - job.created_at - delay)
        })
    }

    /// With this unique key, whether it claims it or not.
    pub fn unique_key(self, key: impl Into<String>) -> Self {
        let key = Some(key.into());
        let text = format!("unique_key {}", key.as_deref().unwrap_or_default());
        self.compared("unique_key", text, move |job| job.unique_key == key)
    }

    /// In this group: its key, as [`NewJob::group`](crate::NewJob::group) sets it or a policy makes it.
    pub fn group(self, group: impl Into<String>) -> Self {
        let group = group.into();
        self.filtered("group", format!("group {group}"), move |filter| filter.group(&group))
    }

    /// With this id.
    pub fn id(self, id: impl Into<JobId>) -> Self {
        let id = id.into();
        self.filtered("id", format!("id {id}"), move |filter| filter.ids([id]))
    }

    /// Exactly this number of jobs. Default: at least one.
    pub const fn count(mut self, count: usize) -> Self {
        self.count = Some(count);
        self
    }

    /// Reads inside the caller's own transaction, which sees its uncommitted jobs.
    pub fn tx(mut self, connection: &'a mut PgConnection) -> Self {
        self.connection = Some(connection);
        self
    }

    /// The jobs that match, in the order of their inserts.
    ///
    /// # Errors
    ///
    /// When none matches, or another number than expected: a text with the expectation and the jobs in the queue, the
    /// most similar first.
    pub async fn check(mut self) -> Result<Vec<JobRow>, String> {
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        let failed = |error| format!("could not read the jobs: {error}");
        let (client, criteria) = (&self.client, &self.criteria);
        let mut found = matching(client, &mut self.connection, criteria).await.map_err(failed)?;
        found.sort_by_key(|job| (job.created_at, job.id));
        let is_expected = self.count.map_or(!found.is_empty(), |count| found.len() == count);
        if is_expected {
            return Ok(found);
        }
        let wanted = self.count.map_or("at least one job".to_owned(), |count| match count {
            0 => "no job".to_owned(),
            1 => "exactly one job".to_owned(),
            count => format!("exactly {count} jobs"),
        });
        let criteria: Vec<_> = self.criteria.iter().map(|criterion| criterion.text.as_str()).collect();
        let with = if criteria.is_empty() { String::new() } else { format!(" with {}", criteria.join(", ")) };
        let mut text = format!("expected {wanted}{with}; found {}", found.len());
        nearest(client, &mut self.connection, &self.criteria, &mut text).await.map_err(failed)?;
        Err(text)
    }

    fn containing(
        mut self,
        name: &'static str,
        expected: impl Serialize,
        add: fn(JobFilter, Value) -> JobFilter,
    ) -> Self {
        match serde_json::to_value(expected) {
            Ok(expected) => self
                .filtered(name, format!("{name} containing {expected}"), move |filter| add(filter, expected.clone())),
            Err(error) => {
                self.problem = Some(format!("the expected {name} cannot be serialised: {error}"));
                self
            }
        }
    }

    fn filtered(
        mut self,
        name: &'static str,
        text: String,
        condition: impl Fn(JobFilter) -> JobFilter + Send + Sync + 'static,
    ) -> Self {
        self.criteria.push(Criterion { name, text, condition: Condition::Filter(Box::new(condition)) });
        self
    }

    fn compared(
        mut self,
        name: &'static str,
        text: String,
        condition: impl Fn(&JobRow) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.criteria.push(Criterion { name, text, condition: Condition::Row(Box::new(condition)) });
        self
    }
}

impl fmt::Debug for Expectation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let criteria: Vec<_> = self.criteria.iter().map(|criterion| &criterion.text).collect();
        f.debug_struct("Expectation").field("criteria", &criteria).field("count", &self.count).finish_non_exhaustive()
    }
}

fn is_near(difference: time::Duration) -> bool {
    difference.abs() <= Duration::from_secs(1)
}

async fn list(client: &Client, connection: &mut Option<&mut PgConnection>, filter: JobFilter) -> Result<Vec<JobRow>> {
    match connection {
        Some(connection) => client.jobs(filter).tx(connection).await,
        None => client.jobs(filter).await,
    }
}

/// The jobs that meet all criteria.
async fn matching(
    client: &Client,
    connection: &mut Option<&mut PgConnection>,
    criteria: &[Criterion],
) -> Result<Vec<JobRow>> {
    let filter =
        criteria.iter().fold(JobFilter::all().limit(u32::MAX), |filter, criterion| match &criterion.condition {
            Condition::Filter(add) => add(filter),
            Condition::Row(_) => filter,
        });
    let mut jobs = list(client, connection, filter).await?;
    for criterion in criteria {
        if let Condition::Row(is_met) = &criterion.condition {
            jobs.retain(is_met);
        }
    }
    Ok(jobs)
}

/// Adds the jobs in the queue that miss the fewest criteria, those first.
async fn nearest(
    client: &Client,
    connection: &mut Option<&mut PgConnection>,
    criteria: &[Criterion],
    text: &mut String,
) -> Result<()> {
    let jobs = list(client, connection, JobFilter::all().oldest_first().limit(COMPARED)).await?;
    let total = match connection {
        Some(connection) => client.count_jobs(JobFilter::all(), u32::MAX).tx(connection).await?,
        None => client.count_jobs(JobFilter::all(), u32::MAX).await?,
    };
    let mut there: Vec<_> = jobs.into_iter().map(|job| (job, Vec::new())).collect();
    for Criterion { name, condition, .. } in criteria {
        let met: HashSet<JobId> = match condition {
            Condition::Filter(add) => {
                let among = JobFilter::new().ids(there.iter().map(|(job, _)| job.id)).limit(COMPARED);
                list(client, connection, add(among)).await?.into_iter().map(|job| job.id).collect()
            }
            Condition::Row(is_met) => there.iter().filter(|(job, _)| is_met(job)).map(|(job, _)| job.id).collect(),
        };
        there.iter_mut().filter(|(job, _)| !met.contains(&job.id)).for_each(|(_, misses)| misses.push(*name));
    }
    there.sort_by_key(|(job, misses)| (misses.len(), misses.contains(&"kind"), job.created_at, job.id));
    // Writing to a string cannot fail.
    let _ = match total.counted() {
        0 => write!(text, "\nthere is no job at all"),
        1 => write!(text, "\nthere is one job:"),
        total if total > SHOWN as u64 => write!(text, "\nthere are {total} jobs, the nearest of them:"),
        total => write!(text, "\nthere are {total} jobs:"),
    };
    for (job, misses) in there.iter().take(SHOWN) {
        let args = job.args.get();
        let shown: String = args.chars().take(ARGS_SHOWN).collect();
        let more = if shown.len() < args.len() { "…" } else { "" };
        let _ = write!(
            text,
            "\n  {} in {}, {}, args {shown}{more}, scheduled_at {}, id {}",
            job.kind, job.queue, job.state, job.scheduled_at, job.id
        );
        let _ = if misses.is_empty() {
            write!(text, " (fits)")
        } else {
            write!(text, " (differs in {})", misses.join(", "))
        };
    }
    Ok(())
}
