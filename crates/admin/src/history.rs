//! The history of jobs: counts over time.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sqlx::PgConnection;
use time::OffsetDateTime;
use uniqueue::period::seconds;
use uniqueue::{Call, Client, Error, Kind, QueueName, Result, stored_time};

use crate::ask::AnswerFuture;
use crate::statement::{self, Arguments, arguments, rows};
use crate::{Admin, Ask, HistoryCounts};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

/// How long minutes and hours are kept.
const KEEP_MINUTES: Duration = Duration::from_secs(7 * 86_400);
const KEEP_HOURS: Duration = Duration::from_secs(90 * 86_400);

/// The most steps of one answer.
const MOST_STEPS: u64 = 1_500;

/// The number of buckets of a histogram.
const BUCKETS: usize = 81;

/// One step of a history.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[non_exhaustive]
pub struct HistoryPoint {
    /// The start of the step.
    #[serde(with = "stored_time")]
    pub at: OffsetDateTime,
    /// The counts of the step.
    pub counts: HistoryCounts,
}

/// The moment at which runners of a new version began to work.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[non_exhaustive]
pub struct Deploy {
    /// The start of the first runner of this version.
    #[serde(with = "stored_time")]
    pub at: OffsetDateTime,
    /// The version, as [`Runner::version`](uniqueue::Runner::version) gave it.
    pub version: String,
}

/// The history of jobs, as [`Admin::history`] returns it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[non_exhaustive]
pub struct History {
    /// The start of the first step.
    #[serde(with = "stored_time")]
    pub since: OffsetDateTime,
    /// The database's time. The two minutes before it are incomplete.
    #[serde(with = "stored_time")]
    pub until: OffsetDateTime,
    /// The length of a step.
    #[serde(with = "seconds")]
    pub step: Duration,
    /// The steps, the oldest first, without gaps.
    pub points: Vec<HistoryPoint>,
    /// The deploys in this time, the oldest first, at most 100.
    pub deploys: Vec<Deploy>,
}

impl History {
    /// The histories of several places together, each of the same time in the same steps. `None`: of no place.
    #[must_use]
    pub fn merged(all: impl IntoIterator<Item = Self>) -> Option<Self> {
        let mut all = all.into_iter();
        let mut merged = all.next()?;
        let mut points: BTreeMap<_, _> = merged.points.drain(..).map(|point| (point.at, point.counts)).collect();
        for Self { since, until, step: _, points: others, deploys } in all {
            merged.since = merged.since.min(since);
            merged.until = merged.until.max(until);
            for point in others {
                points.entry(point.at).or_default().merge(&point.counts);
            }
            merged.deploys.extend(deploys);
        }
        merged.points = points.into_iter().map(|(at, counts)| HistoryPoint { at, counts }).collect();
        // A version comes to each place at a time of its own. The first one counts, until another version comes.
        merged.deploys.sort_by_key(|deploy| deploy.at);
        merged.deploys.dedup_by(|later, earlier| later.version == earlier.version);
        Some(merged)
    }

    /// The sum of all steps.
    #[must_use]
    pub fn total(&self) -> HistoryCounts {
        self.points.iter().fold(HistoryCounts::default(), |mut total, point| {
            total.merge(&point.counts);
            total
        })
    }
}

/// The history of one kind.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[non_exhaustive]
pub struct KindHistory {
    /// The kind.
    pub kind: Kind,
    /// The counts, without histograms.
    pub counts: HistoryCounts,
}

impl KindHistory {
    /// The histories of the kinds of several places together, the kinds with the most failures first, then the busiest
    /// ones, as [`Admin::history_by_kind`] returns those of one place.
    #[must_use]
    pub fn merged(all: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let mut sums: BTreeMap<Kind, HistoryCounts> = BTreeMap::new();
        for Self { kind, counts } in all {
            sums.entry(kind).or_default().merge(&counts);
        }
        let mut kinds: Vec<_> = sums.into_iter().map(|(kind, counts)| Self { kind, counts }).collect();
        // Kinds with the same counts stay in the order of their names.
        kinds.sort_by_key(|Self { counts, .. }| Reverse((counts.failed, counts.completed, counts.inserted)));
        kinds
    }
}

/// The history of one queue.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[non_exhaustive]
pub struct QueueHistory {
    /// The queue.
    pub queue: QueueName,
    /// The counts.
    pub counts: HistoryCounts,
}

impl Ask<'_, History> {
    /// Only jobs of this kind. Default: all kinds.
    pub fn kind(self, kind: impl Into<String>) -> Self {
        self.with("kind", kind.into())
    }

    /// Only jobs of this queue. Default: all queues.
    pub fn queue(self, queue: impl Into<String>) -> Self {
        self.with("queue", queue.into())
    }

    /// The length of a step: whole minutes, and whole hours where the history is longer than 7 days. At most 1,500 steps.
    /// Default: a minute up to two hours, 10 minutes up to two days, an hour up to 8 days, and else 6 hours.
    pub fn step(self, step: Duration) -> Self {
        self.lasting("step", step)
    }
}

fn ask<'c>(
    client: &'c Client,
    connection: &'c mut PgConnection,
    statement: &'static str,
    mut arguments: Arguments,
) -> AnswerFuture<'c, History> {
    Box::pin(async move {
        let text = |name: &str| arguments.get(name).and_then(Value::as_str);
        let kind = text("kind").map(Kind::new).transpose()?;
        let queue = text("queue").map(QueueName::new).transpose()?;
        let length = |name: &str| arguments.get(name).and_then(Value::as_f64).map(Duration::from_secs_f64);
        let since = length("since").unwrap_or(HOUR);
        let span = checked_span(since, length("step"))?;
        // The sums over kinds and queues have rows of their own. The statement makes the sum of one kind over its queues.
        let any_queue = if kind.is_none() { Some("") } else { None };
        arguments.insert("queue".to_owned(), json!(queue.as_ref().map(QueueName::as_str).or(any_queue)));
        arguments.insert("kind".to_owned(), json!(kind.as_ref().map_or("", Kind::as_str)));
        arguments.insert("step".to_owned(), json!(span.1.as_secs()));
        arguments.insert("span".to_owned(), json!(span.0));
        let statement = statement.replace("/* waits */", &sums("waits")).replace("/* runs */", &sums("runs"));
        let answer: Vec<History> = rows(client, connection, &statement, &arguments).await?;
        Ok(answer.into_iter().next().ok_or(sqlx::Error::RowNotFound)?)
    })
}

/// The sums of the buckets of a histogram of many rows.
fn sums(column: &str) -> String {
    let sums: Vec<_> = (1..=BUCKETS).map(|bucket| format!("sum(h.{column}[{bucket}])")).collect();
    sums.join(", ")
}

/// Which rows are read, and the length of a step.
fn checked_span(since: Duration, step: Option<Duration>) -> Result<(&'static str, Duration)> {
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
    Ok((if is_hourly { "hour" } else { "minute" }, step))
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
fn span_of_sums(since: Duration) -> &'static str {
    match since {
        since if since <= 2 * HOUR => "minute",
        since if since <= 2 * DAY => "hour",
        _ => "day",
    }
}

/// The rows of the last time, of minutes, hours or days.
fn of_time<'a, R, T>(
    client: &'a Client,
    statement: &'static str,
    since: Duration,
    limit: u32,
    answer: fn(Vec<R>) -> T,
) -> Call<'a, T>
where
    R: DeserializeOwned + Send + Unpin + 'static,
    T: Send + 'static,
{
    Call::new(client, move |client, connection| {
        Box::pin(async move {
            check_since(since)?;
            let span = json!({ "span": span_of_sums(since), "since": since.as_secs_f64(), "limit": limit });
            rows(client, connection, statement, &arguments(span)).await.map(answer)
        })
    })
}

impl QueueHistory {
    /// The sums of rows that come by queue.
    fn merged(rows: Vec<Self>) -> Vec<Self> {
        let mut queues: Vec<Self> = Vec::new();
        for row in rows {
            match queues.last_mut() {
                Some(last) if last.queue == row.queue => last.counts.merge(&row.counts),
                _ => queues.push(row),
            }
        }
        queues
    }
}

impl<'a> Admin<'a> {
    /// The history of jobs in the last time: inserts, duplicates, results, and how long runs waited and took, step by step.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn run(client: uniqueue::Client) -> uniqueue::Result<()> {
    /// let history = uniqueue_admin::Admin::new(&client).history(Duration::from_secs(86_400)).kind("email.send").await?;
    /// for point in &history.points {
    ///     println!("{}: {} failed, 95 % ran within {:?}", point.at, point.counts.failed, point.counts.run.quantile(0.95));
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// Each process counts in memory and writes once a minute, so the last two minutes are incomplete, and a process that is
    /// killed loses the counts of its last minute. The database counts remote workers and inserts in SQL, without duplicates.
    /// Minutes are kept for 7 days, hours for 90 and days for 91. The view `kind_history` has the same counts.
    pub fn history(self, since: Duration) -> Ask<'a, History> {
        Ask::made_by(self.client, include_str!("sql/history.sql"), 1, ask).lasting("since", since)
    }

    /// The history of each kind in the last time, the kinds with the most failures first, then the busiest ones. At most
    /// `limit` kinds, in whole minutes up to two hours, in whole hours up to two days, and else in whole days in UTC from the
    /// start of the first one on.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] for a time outside 1 minute to 90 days, [`Error::Database`].
    pub fn history_by_kind(self, since: Duration, limit: u32) -> Call<'a, Vec<KindHistory>> {
        of_time(self.client, include_str!("sql/history_by_kind.sql"), since, limit, |rows| rows)
    }

    /// The history of each queue in the last time, by name, in the same minutes, hours or days as
    /// [`history_by_kind`](Self::history_by_kind).
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] for a time outside 1 minute to 90 days, [`Error::Database`].
    pub fn history_by_queue(self, since: Duration) -> Call<'a, Vec<QueueHistory>> {
        of_time(self.client, include_str!("sql/history_by_queue.sql"), since, 0, QueueHistory::merged)
    }

    /// The history of each queue since it was first used, by name. These counts only grow, as the counters of a metrics
    /// system do. A queue that was [removed](uniqueue::Queue::remove), or had no event for 91 days, begins anew.
    ///
    /// # Errors
    ///
    /// [`Error::Database`].
    pub fn history_totals(self) -> Call<'a, Vec<QueueHistory>> {
        statement::ask(self.client, include_str!("sql/history_totals.sql"), Arguments::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Histogram;

    fn counted(failed: u64, completed: u64) -> HistoryCounts {
        let mut counts = HistoryCounts::default();
        (counts.failed, counts.completed) = (failed, completed);
        counts
    }

    #[test]
    fn places_are_merged_step_by_step() {
        let at = |minute: i64| OffsetDateTime::UNIX_EPOCH + time::Duration::minutes(minute);
        let place = |first: i64, version: &str| {
            let mut counts = counted(0, 2);
            counts.wait = Histogram::from((vec![1], 0.03));
            let points = (first..first + 3).map(|minute| HistoryPoint { at: at(minute), counts }).collect();
            let deploys = vec![Deploy { at: at(first), version: version.to_owned() }];
            History { since: at(first), until: at(first + 3), step: Duration::from_secs(60), points, deploys }
        };
        // The clock of one place is a step ahead.
        let merged = History::merged([place(1, "2"), place(0, "2"), place(0, "1")]).unwrap();
        assert_eq!((merged.since, merged.until), (at(0), at(4)));
        let completed: Vec<_> = merged.points.iter().map(|point| (point.at, point.counts.completed)).collect();
        assert_eq!(completed, [(at(0), 4), (at(1), 6), (at(2), 6), (at(3), 2)]);
        assert_eq!(merged.total().wait.count(), 9);
        let deploys: Vec<_> = merged.deploys.iter().map(|deploy| (deploy.at, deploy.version.as_str())).collect();
        assert_eq!(deploys, [(at(0), "2"), (at(0), "1"), (at(1), "2")]);
        assert_eq!(History::merged([]), None);
    }

    #[test]
    fn kinds_of_places_are_summed_and_those_that_fail_come_first() {
        let of = |kind: &str, failed, completed| KindHistory {
            kind: Kind::new(kind).unwrap(),
            counts: counted(failed, completed),
        };
        let merged = KindHistory::merged([of("d", 0, 1), of("c", 0, 1), of("b", 2, 0), of("a", 1, 9), of("a", 1, 0)]);
        assert_eq!(merged, [of("a", 2, 9), of("b", 2, 0), of("c", 0, 1), of("d", 0, 1)]);
    }
}
