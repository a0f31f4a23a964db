//! History: counting in memory, writing once a minute, and reading.

mod counter;
mod writer;

use std::time::Duration;

pub(crate) use self::counter::{HistoryCounter, INTERVAL, Series};
use super::{Call, Client};
use crate::error::{Error, Result};
use crate::history::{History, KindHistory, QueueHistory};
use crate::ident::{Kind, QueueName};
use crate::store::{self, HistorySpan};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

/// How long minutes and hours are kept.
const KEEP_MINUTES: Duration = Duration::from_secs(7 * 86_400);
const KEEP_HOURS: Duration = Duration::from_secs(90 * 86_400);

/// The most steps of one answer.
const MOST_STEPS: u64 = 1_500;

/// A history, to be awaited. Made by [`Client::history`].
///
/// # Errors
///
/// [`Error::InvalidName`] for an invalid kind or queue, [`Error::InvalidOption`] for a length or a step outside its limits,
/// [`Error::Database`].
pub type HistoryRequest<'a> = Call<'a, History, HistoryQuery>;

/// Which history is asked for.
#[derive(Debug)]
pub struct HistoryQuery {
    since: Duration,
    step: Option<Duration>,
    kind: Option<String>,
    queue: Option<String>,
}

impl HistoryRequest<'_> {
    /// Only jobs of this kind. Default: all kinds.
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.options.kind = Some(kind.into());
        self
    }

    /// Only jobs of this queue. Default: all queues.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.options.queue = Some(queue.into());
        self
    }

    /// The length of a step: whole minutes, and whole hours where the history is longer than 7 days. At most 1,500 steps.
    /// Default: a minute up to two hours, 10 minutes up to two days, an hour up to 8 days, and else 6 hours.
    pub fn step(mut self, step: Duration) -> Self {
        self.options.step = Some(step);
        self
    }
}

impl HistoryQuery {
    async fn ask(self, client: &Client, connection: &mut sqlx::PgConnection) -> Result<History> {
        let Self { since, step, kind, queue } = self;
        let kind = kind.map(Kind::new).transpose()?;
        let queue = queue.map(QueueName::new).transpose()?;
        check_since(since)?;
        let step = step.unwrap_or_else(|| default_step(since));
        let invalid = |problem| Err(Error::InvalidOption { option: "step", problem, given: format!("{step:?}") });
        let is_hourly = is_multiple(step, HOUR);
        if step.is_zero() || !is_multiple(step, MINUTE) {
            return invalid("must be whole minutes");
        }
        if since > KEEP_MINUTES && !is_hourly {
            return invalid("must be whole hours where the history is longer than 7 days");
        }
        if since.as_secs() / step.as_secs() > MOST_STEPS {
            return invalid("must not divide the history into more than 1,500 steps");
        }
        let span = if is_hourly { HistorySpan::Hour } else { HistorySpan::Minute };
        store::history(connection, client.statements(), span, kind.as_ref(), queue.as_ref(), since, step).await
    }
}

fn is_multiple(length: Duration, of: Duration) -> bool {
    length.as_nanos().is_multiple_of(of.as_nanos())
}

fn check_since(since: Duration) -> Result<()> {
    let is_valid = (MINUTE..=KEEP_HOURS).contains(&since);
    let problem = "must be 1 minute to 90 days";
    is_valid.then_some(()).ok_or_else(|| Error::InvalidOption { option: "since", problem, given: format!("{since:?}") })
}

fn default_step(since: Duration) -> Duration {
    match since {
        since if since <= 2 * HOUR => MINUTE,
        since if since <= 2 * DAY => 10 * MINUTE,
        since if since <= 8 * DAY => HOUR,
        _ => 6 * HOUR,
    }
}

/// The rows from which sums over a time are made: at most 121 of each kind in each queue.
fn span_of_sums(since: Duration) -> HistorySpan {
    match since {
        since if since <= 2 * HOUR => HistorySpan::Minute,
        since if since <= 2 * DAY => HistorySpan::Hour,
        _ => HistorySpan::Day,
    }
}

impl Client {
    /// The history of jobs in the last time: inserts, duplicates, results, and how long runs waited and took, step by step.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn run(client: uniqueue::Client) -> uniqueue::Result<()> {
    /// let history = client.history(Duration::from_secs(86_400)).kind("email.send").await?;
    /// for point in &history.points {
    ///     println!("{}: {} failed, 95 % ran within {:?}", point.at, point.counts.failed, point.counts.run.quantile(0.95));
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// Each process counts in memory and writes once a minute, so the last two minutes are incomplete, and a process that is
    /// killed loses the counts of its last minute. The database counts remote workers and inserts in SQL, without duplicates.
    /// Minutes are kept for 7 days, hours for 90 and days for 91. The view `kind_history` has the same counts.
    pub fn history(&self, since: Duration) -> HistoryRequest<'_> {
        let query = HistoryQuery { since, step: None, kind: None, queue: None };
        Call::with(self, query, |client, connection, query| Box::pin(query.ask(client, connection))).of_statements(2)
    }

    /// The history of each kind in the last time, the kinds with the most failures first, then the busiest ones. At most
    /// `limit` kinds, in whole minutes up to two hours, in whole hours up to two days, and else in whole days in UTC from the
    /// start of the first one on.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] for a time outside 1 minute to 90 days, [`Error::Database`].
    pub fn history_by_kind(&self, since: Duration, limit: u32) -> Call<'_, Vec<KindHistory>> {
        Call::new(self, move |client, connection| {
            Box::pin(async move {
                check_since(since)?;
                store::history_by_kind(connection, client.statements(), span_of_sums(since), since, limit).await
            })
        })
    }

    /// The history of each queue in the last time, by name, in the same minutes, hours or days as
    /// [`history_by_kind`](Client::history_by_kind).
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] for a time outside 1 minute to 90 days, [`Error::Database`].
    pub fn history_by_queue(&self, since: Duration) -> Call<'_, Vec<QueueHistory>> {
        Call::new(self, move |client, connection| {
            Box::pin(async move {
                check_since(since)?;
                store::history_by_queue(connection, client.statements(), span_of_sums(since), since).await
            })
        })
    }

    /// The history of each queue since it was first used, by name. These counts only grow, as the counters of a metrics
    /// system do. A queue that was [removed](crate::Queue::remove), or had no event for 91 days, begins anew.
    ///
    /// # Errors
    ///
    /// [`Error::Database`].
    pub fn history_totals(&self) -> Call<'_, Vec<QueueHistory>> {
        Call::new(self, |client, connection| Box::pin(store::history_totals(connection, client.statements())))
    }
}
