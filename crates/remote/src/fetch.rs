//! Fetches of remote workers.

use std::collections::BTreeMap;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use sqlx::{Connection, PgConnection};
use time::OffsetDateTime;
use uniqueue::period::seconds;
use uniqueue::{AttemptError, Call, Client, JobRow, Kind, QueueName, Result, stored_time};
use uniqueue_admin::statement::{Arguments, arguments, rows};
use uuid::Uuid;

use crate::result::{EXTEND_JOBS, JobRun, Reported, extended, interval};

/// Starts the next jobs.
const FETCH_JOBS: &str = "
SELECT
    jsonb_build_object('id', f.id, 'run', f.run) AS run, f.kind, f.queue, f.args, f.meta, f.attempt, f.max_attempts,
    f.priority, f.crashes, f.created_at, f.scheduled_at, f.reserved_until, f.errors, f.progress, f.unique_key,
    f.group_key, f.worker_id AS worker, extract(epoch FROM f.timeout) AS timeout
FROM jsonb_to_record($1::jsonb) AS g (
    queues text[], worker text, count integer, kinds text[], reserve interval, listens boolean
)
CROSS JOIN /* schema */fetch_jobs(g.queues, g.worker, g.count, g.kinds, g.reserve, g.listens) AS f";

/// A job that [`Remote::fetch_jobs`](crate::Remote::fetch_jobs) started, or the same data of a stored job.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct FetchedJob {
    /// Its id and this run, which the result must name.
    pub run: JobRun,
    /// Its type name.
    pub kind: Kind,
    /// Its queue.
    pub queue: QueueName,
    /// The payload as JSON text.
    pub args: Box<RawValue>,
    /// JSON that travels along.
    #[serde(deserialize_with = "meta")]
    pub meta: Map<String, Value>,
    /// Which attempt this is, counted from 1.
    pub attempt: u16,
    /// How many attempts it may have.
    pub max_attempts: u16,
    /// Higher runs first.
    pub priority: i16,
    /// How many times in a row its worker died while it had the job.
    pub crashes: u16,
    /// When it was inserted, by the database's clock.
    #[serde(with = "stored_time")]
    pub created_at: OffsetDateTime,
    /// When it could run, at the earliest.
    #[serde(with = "stored_time")]
    pub scheduled_at: OffsetDateTime,
    /// When the job is taken back, unless [`Remote::extend_jobs`](crate::Remote::extend_jobs) extends the time. `None`: the
    /// job was made from a `JobRow`.
    #[serde(with = "stored_time::option")]
    pub reserved_until: Option<OffsetDateTime>,
    /// The errors of its attempts, oldest first.
    #[serde(deserialize_with = "errors")]
    pub errors: Vec<AttemptError>,
    /// The progress that a worker reported last.
    #[serde(deserialize_with = "progress")]
    pub progress: Option<Value>,
    /// The key that two jobs share when they are the same.
    pub unique_key: Option<String>,
    /// The group that it belongs to within its queue.
    pub group_key: Option<String>,
    /// The id of the worker's row among the runners. `None`: the job was made from a `JobRow`, and was never fetched.
    pub worker: Option<Uuid>,
    /// How long the job may run, by its registered kind. `None`: no limit, or the job was made from a `JobRow`.
    #[serde(with = "seconds::option")]
    pub timeout: Option<Duration>,
}

impl From<&JobRow> for FetchedJob {
    fn from(row: &JobRow) -> Self {
        Self {
            run: JobRun { id: row.id, run: row.run },
            kind: row.kind.clone(),
            queue: row.queue.clone(),
            args: row.args.clone(),
            meta: row.meta.clone(),
            attempt: row.attempt,
            max_attempts: row.max_attempts,
            priority: row.priority,
            crashes: row.crashes,
            created_at: row.created_at,
            scheduled_at: row.scheduled_at,
            reserved_until: None,
            errors: row.errors.clone(),
            progress: row.progress.clone(),
            unique_key: row.unique_key.clone(),
            group_key: row.group_key.clone(),
            worker: row.worker,
            timeout: None,
        }
    }
}

/// A value that no key is made from. A number that `serde_json` cannot hold, such as 1e400, is read as its text: one such
/// job must not fail the whole fetch.
fn value<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Value, D::Error> {
    let text = Box::<RawValue>::deserialize(deserializer)?;
    Ok(serde_json::from_str(text.get()).unwrap_or_else(|_| Value::String(text.get().to_owned())))
}

fn progress<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Option<Value>, D::Error> {
    Ok(Some(value(deserializer)?).filter(|progress| !progress.is_null()))
}

fn meta<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Map<String, Value>, D::Error> {
    Ok(match value(deserializer)? {
        Value::Object(meta) => meta,
        other => Map::from_iter([("unreadable".to_owned(), other)]),
    })
}

/// Anything but an array, which only a change by hand leaves there, is read as the text of one error.
fn errors<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Vec<AttemptError>, D::Error> {
    Ok(match value(deserializer)? {
        Value::Array(errors) => errors.into_iter().map(AttemptError::from).collect(),
        Value::Null => Vec::new(),
        other => vec![AttemptError::from(other)],
    })
}

/// A fetch of a remote worker, to be awaited. Made by [`Remote::fetch_jobs`](crate::Remote::fetch_jobs).
///
/// # Errors
///
/// [`Error::Database`](uniqueue::Error::Database), also for an argument outside its limits.
#[must_use = "nothing is fetched until it is awaited"]
pub struct FetchJobs<'a> {
    client: &'a Client,
    queues: Vec<String>,
    worker: String,
    count: u32,
    kinds: Option<Vec<String>>,
    reserve: Duration,
    listens: bool,
    reserve_each: Option<ReserveEach>,
    connection: Option<&'a mut PgConnection>,
}

/// The reservation of one job. `None`: that of the whole fetch.
type ReserveEach = Box<dyn Fn(&FetchedJob) -> Option<Duration> + Send + Sync>;

impl fmt::Debug for FetchJobs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FetchJobs").field("wanted", &self.wanted()).finish_non_exhaustive()
    }
}

impl<'a> FetchJobs<'a> {
    pub(crate) fn new(client: &'a Client, queues: Vec<String>, worker: String) -> Self {
        let (count, kinds, reserve, listens) = (1, None, Duration::from_secs(60), false);
        Self { client, queues, worker, count, kinds, reserve, listens, reserve_each: None, connection: None }
    }

    /// Fetches in the caller's own transaction, or on any other connection of the caller's.
    pub fn tx(mut self, connection: &'a mut PgConnection) -> Self {
        self.connection = Some(connection);
        self
    }

    /// The most jobs: 1 to 1,000. Default: 1.
    pub fn count(mut self, count: u32) -> Self {
        self.count = count;
        self
    }

    /// Only jobs of these kinds: at least one. Default: any kind.
    pub fn kinds<I>(mut self, kinds: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.kinds = Some(kinds.into_iter().map(Into::into).collect());
        self
    }

    /// How long the jobs belong to the worker: 1 second to 1 day. Default: 1 minute. After it they are taken back, unless
    /// [`Remote::extend_jobs`](crate::Remote::extend_jobs) extends the time.
    pub fn reserve(mut self, reserve: Duration) -> Self {
        self.reserve = reserve;
        self
    }

    /// Reserves each job for as long as this function says, by its meta for example: 1 second to 1 day. `None`: for the
    /// time of [`reserve`](Self::reserve). Default: all jobs have the time of the fetch.
    ///
    /// The fetch is one transaction with the reservations, so a process that dies leaves no job reserved for longer than its
    /// own time. Jobs of the same time share a statement.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use uniqueue::Client;
    /// # use uniqueue_remote::Remote;
    /// # async fn run(client: Client) -> uniqueue::Result<()> {
    /// let jobs = Remote::new(&client).fetch_jobs(["videos"], "worker-1").count(10);
    /// let jobs = jobs.reserve_each(|job| Some(Duration::from_secs(job.meta.get("seconds")?.as_u64()?))).await?;
    /// # Ok(()) }
    /// ```
    pub fn reserve_each(mut self, of: impl Fn(&FetchedJob) -> Option<Duration> + Send + Sync + 'static) -> Self {
        self.reserve_each = Some(Box::new(of));
        self
    }

    /// If the fetch returns no job, the next insert wakes the worker, which waits with [`WakeUps`](crate::WakeUps).
    pub fn listens(mut self) -> Self {
        self.listens = true;
        self
    }

    /// The arguments of [`FETCH_JOBS`].
    fn wanted(&self) -> Arguments {
        arguments(json!({
            "queues": self.queues, "worker": self.worker, "count": self.count, "kinds": self.kinds,
            "reserve": interval(self.reserve), "listens": self.listens,
        }))
    }
}

impl<'a> IntoFuture for FetchJobs<'a> {
    type Output = Result<Vec<FetchedJob>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        let wanted = self.wanted();
        let Self { client, reserve, reserve_each, connection, .. } = self;
        let call = Call::new(client, move |client, connection| {
            Box::pin(async move {
                let Some(of) = reserve_each else { return rows(client, connection, FETCH_JOBS, &wanted).await };
                // The caller's transaction ends the reservations as well.
                if connection.is_in_transaction() {
                    return fetch_and_reserve(client, connection, &wanted, reserve, of).await;
                }
                let mut tx = connection.begin_with("BEGIN ISOLATION LEVEL READ COMMITTED").await?;
                let jobs = fetch_and_reserve(client, &mut tx, &wanted, reserve, of).await?;
                tx.commit().await?;
                Ok(jobs)
            })
        });
        match connection {
            Some(connection) => call.tx(connection).into_future(),
            None => call.into_future(),
        }
    }
}

/// Fetches jobs, and reserves those that have another time than that of the fetch.
async fn fetch_and_reserve(
    client: &Client,
    connection: &mut PgConnection,
    wanted: &Arguments,
    reserve: Duration,
    of: ReserveEach,
) -> Result<Vec<FetchedJob>> {
    let mut jobs: Vec<FetchedJob> = rows(client, connection, FETCH_JOBS, wanted).await?;
    let mut others: BTreeMap<Duration, Vec<JobRun>> = BTreeMap::new();
    for job in &jobs {
        if let Some(own) = of(job).filter(|own| *own != reserve) {
            others.entry(own).or_default().push(job.run);
        }
    }
    for (own, runs) in others {
        for held in rows::<Reported>(client, connection, EXTEND_JOBS, &extended(&runs, own)).await? {
            if let Some(job) = jobs.iter_mut().find(|job| job.run == held.run) {
                job.reserved_until = held.reserved_until.or(job.reserved_until);
            }
        }
    }
    Ok(jobs)
}
