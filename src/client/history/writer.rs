//! Writing history: one statement a minute, while there is something to write.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::counter::{Batch, HistoryCounter, InFlight, until_interval_ends};
use crate::client::connections::time_limit;
use crate::client::{Client, Inner};
use crate::error::{AnswerFuture, Result};
use crate::words::event::{Event, Happened};
use crate::words::job::Inserted;
use crate::words::tally::{Counted, Measured, Tally};

/// How long a write may take. A database that does not answer gets the batch again a minute later.
const LONGEST_WRITE: Duration = Duration::from_secs(10);

impl Client {
    /// Writes what this client, its clones and its runners have counted for the history and not written yet.
    ///
    /// This happens once a minute by itself, and when a runner stops. Call it at the end of a process that lives for less
    /// than that, such as a script that inserts: otherwise its counts of the last minute are lost.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database). The counts are kept, and written later.
    pub async fn write_history(&self) -> Result<()> {
        let counter = self.history_counter();
        let mut in_flight = counter.in_flight.lock().await;
        self.send_history(&mut in_flight).await?;
        counter.take(&mut in_flight, Instant::now());
        self.send_history(&mut in_flight).await
    }

    /// Sends the batch in flight, if there is one.
    fn send_history<'a>(&'a self, in_flight: &'a mut InFlight) -> AnswerFuture<'a, ()> {
        Box::pin(async move {
            let Some(batch) = &in_flight.batch else { return Ok(()) };
            let (writer, minutes) = (self.history_counter().writer, json!([document(batch)]));
            let writing = async {
                let mut connection = self.connection().await?;
                let written = self.store(&mut connection).write_history(writer, batch.number, &minutes).await;
                connection.settle(written)
            };
            time_limit::within(LONGEST_WRITE, writing).await?;
            in_flight.batch = None;
            Ok(())
        })
    }

    pub(crate) fn history_counter(&self) -> &HistoryCounter {
        &self.inner.history
    }

    /// Counts the answers of an insert.
    pub(crate) fn count_inserted(&self, answers: &[Inserted]) {
        let like = |a: &Inserted, b: &Inserted| a.job.kind == b.job.kind && a.job.queue == b.job.queue;
        for run in answers.chunk_by(like) {
            if let Some(series) = self.history_counter().series(&run[0].job.kind, &run[0].job.queue) {
                // An insert that was sent again with its id is neither.
                let count = |is: fn(&&Inserted) -> bool| run.iter().filter(is).count() as u64;
                series.count(|tally| {
                    tally.count(Counted::Inserted, count(|answer| answer.is_new));
                    tally.count(Counted::Duplicates, count(|answer| answer.duplicate));
                });
            }
        }
        self.note_counts();
    }

    /// Counts a rare event.
    pub(crate) fn count_event(&self, event: &Event) {
        if let Happened::Discarded { .. } = event.happened
            && let Some(series) = self.history_counter().series(&event.kind, &event.queue)
        {
            series.count(|tally| tally.count(Counted::Discarded, 1));
            self.note_counts();
        }
    }

    /// Starts the task that writes, unless it runs. To be called after something was counted.
    pub(crate) fn note_counts(&self) {
        if self.history_counter().note() {
            start(&self.inner);
        }
    }
}

fn start(inner: &Arc<Inner>) {
    // Outside of a runtime nothing is written until there is one.
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    if !inner.history.is_writing.swap(true, Ordering::AcqRel) {
        runtime.spawn(write(Writing { client: Arc::downgrade(inner), is_given_up: false }));
    }
}

/// The right to write. Given up when the task ends, also with its runtime.
struct Writing {
    client: Weak<Inner>,
    is_given_up: bool,
}

impl Drop for Writing {
    fn drop(&mut self) {
        if !self.is_given_up
            && let Some(inner) = self.client.upgrade()
        {
            inner.history.is_writing.store(false, Ordering::Release);
        }
    }
}

/// Writes at the end of each minute, until there is nothing to write. It keeps no client alive.
async fn write(mut writing: Writing) {
    let Some(interval) = writing.client.upgrade().map(|inner| inner.history.interval) else { return };
    loop {
        tokio::time::sleep(until_interval_ends(interval)).await;
        let Some(inner) = writing.client.upgrade() else { return };
        let history = &inner.history;
        history.take(&mut *history.in_flight.lock().await, Instant::now());
        // Each process at a time of its own, so that the writes of many do not meet.
        let delay = interval / 12_000 * (history.writer.as_u128() % 1_000) as u32;
        drop(inner);
        tokio::time::sleep(delay).await;
        let Some(inner) = writing.client.upgrade() else { return };
        let client = Client { inner };
        let history = client.history_counter();
        if let Err(error) = client.send_history(&mut *history.in_flight.lock().await).await {
            tracing::warn!(%error, "history not written yet, trying again");
            continue;
        }
        history.is_writing.store(false, Ordering::Release);
        // A count made meanwhile saw a running task and started none.
        if !history.has_counts() || history.is_writing.swap(true, Ordering::AcqRel) {
            // Another task may have the right by now.
            writing.is_given_up = true;
            return;
        }
    }
}

/// The counts of a batch as `_write_history` takes them, with the sums over kinds and queues.
fn document(batch: &Batch) -> Value {
    let mut all = Tally::default();
    let mut queues = std::collections::BTreeMap::<&str, Tally>::new();
    let mut counts = Vec::with_capacity(batch.counts.len() + 2);
    for ((kind, queue), of_kind) in &batch.counts {
        counts.push(row(kind.as_str(), queue.as_str(), of_kind));
        queues.entry(queue.as_str()).or_default().add(of_kind);
        all.add(of_kind);
    }
    counts.extend(queues.iter().map(|(queue, of_queue)| row("", queue, of_queue)));
    counts.push(row("", "", &all));
    json!({ "age": batch.middle.elapsed().as_secs_f64(), "counts": counts })
}

fn row(kind: &str, queue: &str, tally: &Tally) -> Value {
    let ((waits, wait_seconds), (runs, run_seconds)) = (tally.measured(Measured::Wait), tally.measured(Measured::Run));
    json!({
        "kind": kind,
        "queue": queue,
        "inserted": tally.counted(Counted::Inserted),
        "duplicates": tally.counted(Counted::Duplicates),
        "completed": tally.counted(Counted::Completed),
        "failed": tally.counted(Counted::Failed),
        "discarded": tally.counted(Counted::Discarded),
        "waits": waits,
        "runs": runs,
        "wait_seconds": wait_seconds,
        "run_seconds": run_seconds,
    })
}
