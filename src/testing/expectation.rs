//! The jobs that a test expects in the queue.

use std::fmt::Write;
use std::time::Duration;

use serde::Serialize;
use sqlx::PgConnection;
use time::OffsetDateTime;

use crate::client::Client;
use crate::error::Result;
use crate::ident::JobId;
use crate::job::{Job, JobRow};
use crate::state::JobState;
use crate::store::{self, Criteria, Found};

/// The most jobs that a failure shows.
const SHOWN: i64 = 10;

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
#[derive(Debug)]
#[must_use = "an expectation does nothing before check()"]
pub struct Expectation<'a> {
    client: Client,
    connection: Option<&'a mut PgConnection>,
    criteria: Criteria,
    count: Option<usize>,
    /// The criteria in words.
    text: String,
    problem: Option<String>,
}

impl<'a> Expectation<'a> {
    /// Expects any job, at least one.
    pub fn new(source: impl AsRef<Client>) -> Self {
        let client = source.as_ref().clone();
        let (criteria, text) = (Criteria::default(), String::new());
        Self { client, connection: None, criteria, count: None, text, problem: None }
    }

    /// Of this kind.
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        let kind = kind.into();
        self.describe("kind", &kind);
        self.criteria.kind = Some(kind);
        self
    }

    /// Of this job type's kind.
    pub fn job<J: Job>(self) -> Self {
        self.kind(J::KIND)
    }

    /// In this queue.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        let queue = queue.into();
        self.describe("queue", &queue);
        self.criteria.queue = Some(queue);
        self
    }

    /// With args that contain these, as by PostgreSQL's `@>`: objects may have more members, at every
    /// level, and arrays more items. A whole typed job expects each of its fields.
    pub fn args(mut self, args: impl Serialize) -> Self {
        match serde_json::to_value(args) {
            Ok(args) => {
                self.describe("args containing", &args);
                self.criteria.args = Some(args);
            }
            Err(error) => self.problem = Some(format!("the expected args do not serialise: {error}")),
        }
        self
    }

    /// With meta that contains this.
    pub fn meta(mut self, meta: impl Serialize) -> Self {
        match serde_json::to_value(meta) {
            Ok(meta) => {
                self.describe("meta containing", &meta);
                self.criteria.meta = Some(meta);
            }
            Err(error) => self.problem = Some(format!("the expected meta does not serialise: {error}")),
        }
        self
    }

    /// In this state now.
    pub fn state(mut self, state: JobState) -> Self {
        self.describe("state", &state);
        self.criteria.state = Some(state);
        self
    }

    /// With this priority.
    pub fn priority(mut self, priority: i16) -> Self {
        self.describe("priority", &priority);
        self.criteria.priority = Some(priority);
        self
    }

    /// Scheduled at this time, within a second.
    pub fn scheduled_at(mut self, at: OffsetDateTime) -> Self {
        self.describe("scheduled_at", &at);
        self.criteria.scheduled_at = Some(at);
        self
    }

    /// Scheduled this long after its insert, within a second.
    pub fn scheduled_in(mut self, delay: Duration) -> Self {
        self.describe("scheduled_in", &format!("{delay:?}"));
        self.criteria.scheduled_in = Some(delay);
        self
    }

    /// With this unique key, whether it claims it or not.
    pub fn unique_key(mut self, key: impl Into<String>) -> Self {
        let key = key.into();
        self.describe("unique_key", &key);
        self.criteria.unique_key = Some(key);
        self
    }

    /// In this group: its key, as [`NewJob::group`](crate::NewJob::group) sets it or a policy makes it.
    pub fn group(mut self, group: impl Into<String>) -> Self {
        let group = group.into();
        self.describe("group", &group);
        self.criteria.group_key = Some(group);
        self
    }

    /// With this id.
    pub fn id(mut self, id: impl Into<JobId>) -> Self {
        let id = id.into();
        self.describe("id", &id);
        self.criteria.id = Some(id);
        self
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
    pub async fn check(self) -> Result<Vec<JobRow>, String> {
        let count = self.count;
        let (found, report) = self.find().await?;
        let matches = count.map_or(!found.is_empty(), |count| found.len() == count);
        if matches { Ok(found) } else { Err(report) }
    }

    /// Checks that no job matches.
    ///
    /// # Errors
    ///
    /// A text that names the jobs that match.
    pub async fn check_absent(mut self) -> Result<(), String> {
        self.count = Some(0);
        self.check().await.map(drop)
    }

    fn describe(&mut self, what: &str, value: &dyn std::fmt::Display) {
        let separator = if self.text.is_empty() { "" } else { ", " };
        // Writing to a string cannot fail.
        let _ = write!(self.text, "{separator}{what} {value}");
    }

    /// The jobs that match, and a report in case they are too few or too many.
    async fn find(self) -> Result<(Vec<JobRow>, String), String> {
        let Self { client, connection, criteria, count, text, problem } = self;
        if let Some(problem) = problem {
            return Err(problem);
        }
        let failed = |error| format!("could not read the jobs: {error}");
        let connection = &mut *client.connection_or(connection).await.map_err(failed)?;
        let statements = client.statements();
        let found = store::find_jobs(connection, statements, &criteria, true, None).await.map_err(failed)?;
        let found: Vec<_> = found.into_iter().map(|found| found.job).collect();
        if count.map_or(!found.is_empty(), |count| found.len() == count) {
            return Ok((found, String::new()));
        }
        let there = store::find_jobs(connection, statements, &criteria, false, Some(SHOWN)).await.map_err(failed)?;
        let wanted = count.map_or("at least one job".to_owned(), |count| match count {
            0 => "no job".to_owned(),
            1 => "exactly one job".to_owned(),
            count => format!("exactly {count} jobs"),
        });
        let report = report(&wanted, &text, found.len(), &there);
        Ok((found, report))
    }
}

/// The expectation, the number of matches, and the jobs in the queue.
fn report(wanted: &str, criteria: &str, found: usize, there: &[Found]) -> String {
    let with = if criteria.is_empty() { String::new() } else { format!(" with {criteria}") };
    let mut text = format!("expected {wanted}{with}; found {found}");
    let total = there.first().map_or(0, |found| found.total);
    let _ = match total {
        0 => write!(text, "\nthere is no job at all"),
        1 => write!(text, "\nthere is one job:"),
        total if total > SHOWN => write!(text, "\nthere are {total} jobs, the nearest of them:"),
        total => write!(text, "\nthere are {total} jobs:"),
    };
    for Found { job, misses, .. } in there {
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
    text
}
