//! The counts of a process until it writes them to the history.
//!
//! ```text
//! series ──take, each minute──▶ in flight ──answer──▶ written
//!                                ▲  │
//!                                └──┘ lost answer, or refused: sent again with the same number
//! ```
//!
//! Invariants: An insert looks its series up under one short lock; a result of a runner locks only its series. Neither waits
//! for the database. A batch that may have been committed is sent again unchanged, with its number, and the database counts
//! it once. Memory is bounded: at most [`MAX_SERIES`] series, and no counts are taken while a batch is in flight.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use uuid::Uuid;

use crate::words::ident::{Kind, QueueName};
use crate::words::tally::Tally;

/// How often counts are written, by default and at least.
pub(crate) const INTERVAL: Duration = Duration::from_secs(60);

/// How often counts are written at most.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);

/// The most pairs of kind and queue that are counted. Others are not counted until some of these rest.
const MAX_SERIES: usize = 10_000;

/// The counts of one kind in one queue since they were taken last.
#[derive(Debug, Default)]
pub(crate) struct Series {
    counts: Mutex<Tally>,
}

impl Series {
    pub(crate) fn count(&self, count: impl FnOnce(&mut Tally)) {
        count(&mut lock(&self.counts));
    }

    fn take(&self) -> Tally {
        std::mem::take(&mut *lock(&self.counts))
    }
}

/// All series. A kind may have as many queues as there are series.
#[derive(Debug, Default)]
struct AllSeries {
    by_kind: HashMap<Kind, HashMap<QueueName, Arc<Series>>>,
    /// The number of series.
    len: usize,
}

/// The counts of a process in a span of time, with a number that no other batch has.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) number: i64,
    /// The middle of the time.
    pub(crate) middle: Instant,
    pub(crate) counts: BTreeMap<(Kind, QueueName), Tally>,
}

/// The batch in flight, and the number of the last one.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    pub(crate) batch: Option<Batch>,
    last: i64,
}

/// The counts of one client, and its clones and runners.
#[derive(Debug)]
pub(crate) struct HistoryCounter {
    pub(crate) writer: Uuid,
    /// How often it is written.
    pub(super) interval: Duration,
    series: Mutex<AllSeries>,
    /// When the counts begin that are not taken yet. `None`: there are none.
    since: Mutex<Option<Instant>>,
    is_counting: AtomicBool,
    /// Whether the task that writes runs.
    pub(super) is_writing: AtomicBool,
    /// Held while a batch is sent.
    pub(super) in_flight: tokio::sync::Mutex<InFlight>,
}

impl HistoryCounter {
    pub(crate) fn new(interval: Duration) -> Self {
        Self {
            writer: Uuid::now_v7(),
            interval: interval.clamp(SHORTEST_INTERVAL, INTERVAL),
            series: Mutex::default(),
            since: Mutex::default(),
            is_counting: AtomicBool::new(false),
            is_writing: AtomicBool::new(false),
            in_flight: tokio::sync::Mutex::default(),
        }
    }

    /// The series of a kind in a queue. `None`: there are too many.
    pub(crate) fn series(&self, kind: &Kind, queue: &QueueName) -> Option<Arc<Series>> {
        let mut all = lock(&self.series);
        if let Some(known) = all.by_kind.get(kind).and_then(|of_kind| of_kind.get(queue)) {
            return Some(Arc::clone(known));
        }
        if all.len >= MAX_SERIES {
            return None;
        }
        let new = Arc::<Series>::default();
        all.by_kind.entry(kind.clone()).or_default().insert(queue.clone(), Arc::clone(&new));
        all.len += 1;
        Some(new)
    }

    /// Notes that something was counted. Answers whether the task that writes is to be started.
    pub(crate) fn note(&self) -> bool {
        if !self.is_counting.load(Ordering::Acquire) && !self.is_counting.swap(true, Ordering::AcqRel) {
            lock(&self.since).get_or_insert_with(Instant::now);
        }
        // It may have ended with its runtime.
        !self.is_writing.load(Ordering::Acquire)
    }

    /// Whether counts wait to be taken.
    pub(crate) fn has_counts(&self) -> bool {
        self.is_counting.load(Ordering::Acquire)
    }

    /// Takes the counts of all series, to be sent next. While a batch is in flight they stay where they are.
    pub(super) fn take(&self, in_flight: &mut InFlight, now: Instant) {
        if in_flight.batch.is_some() {
            return;
        }
        // Before the counts, so that a count that comes meanwhile is noted again.
        self.is_counting.store(false, Ordering::Release);
        let began = lock(&self.since).take().unwrap_or(now);
        let mut counts = BTreeMap::new();
        let mut all = lock(&self.series);
        all.by_kind.retain(|kind, of_kind| {
            of_kind.retain(|queue, series| {
                let taken = series.take();
                let is_resting = taken == Tally::default();
                if !is_resting {
                    counts.insert((kind.clone(), queue.clone()), taken);
                }
                // A series that a runner holds stays.
                !is_resting || Arc::strong_count(series) > 1
            });
            !of_kind.is_empty()
        });
        all.len = all.by_kind.values().map(HashMap::len).sum();
        if !counts.is_empty() {
            in_flight.last += 1;
            let middle = began + now.saturating_duration_since(began) / 2;
            in_flight.batch = Some(Batch { number: in_flight.last, middle, counts });
        }
    }
}

/// Nothing panics while it holds one of these locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long until the end of the interval, which is a minute, by this machine's clock. Only the phase is taken from it: the
/// database decides which minute it was.
pub(super) fn until_interval_ends(interval: Duration) -> Duration {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let into = now.as_nanos() % interval.as_nanos().max(1);
    interval - Duration::from_nanos(u64::try_from(into).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::tally::Counted;

    fn names(n: usize) -> (Kind, QueueName) {
        (Kind::from_stored(&format!("kind {n}")), QueueName::new("default").unwrap())
    }

    fn count(counter: &HistoryCounter, n: usize) {
        let (kind, queue) = names(n);
        if let Some(series) = counter.series(&kind, &queue) {
            series.count(|tally| tally.count(Counted::Inserted, 1));
            counter.note();
        }
    }

    fn inserted(in_flight: &mut InFlight) -> u64 {
        let batch = in_flight.batch.take();
        batch.iter().flat_map(|batch| batch.counts.values()).map(|tally| tally.counted(Counted::Inserted)).sum()
    }

    #[test]
    fn while_nothing_can_be_written_minutes_are_added_together_and_no_count_is_lost() {
        let counter = HistoryCounter::new(INTERVAL);
        let mut in_flight = InFlight::default();
        for _ in 0..30 {
            (0..MAX_SERIES / 4).for_each(|n| count(&counter, n));
            counter.take(&mut in_flight, Instant::now());
        }
        assert_eq!(inserted(&mut in_flight), MAX_SERIES as u64 / 4);
        counter.take(&mut in_flight, Instant::now());
        assert_eq!(in_flight.batch.as_ref().map(|batch| batch.number), Some(2));
        assert_eq!(inserted(&mut in_flight), 29 * (MAX_SERIES as u64 / 4));
        assert!(!counter.has_counts());
    }

    #[test]
    fn there_are_never_more_series_than_the_limit() {
        let counter = HistoryCounter::new(INTERVAL);
        let mut in_flight = InFlight::default();
        (0..MAX_SERIES + 10).for_each(|n| count(&counter, n));
        assert!(counter.series(&names(MAX_SERIES + 11).0, &names(0).1).is_none());
        counter.take(&mut in_flight, Instant::now());
        assert_eq!(inserted(&mut in_flight), MAX_SERIES as u64);
        // Series without new counts make room.
        counter.take(&mut in_flight, Instant::now());
        assert!(counter.series(&names(MAX_SERIES + 11).0, &names(0).1).is_some());
    }

    #[test]
    fn the_task_that_writes_is_started_again_where_its_runtime_ended() {
        let counter = HistoryCounter::new(INTERVAL);
        assert!(counter.note() && counter.note());
        counter.is_writing.store(true, Ordering::Release);
        assert!(!counter.note() && counter.has_counts());
        counter.is_writing.store(false, Ordering::Release);
        assert!(counter.note());
    }
}
