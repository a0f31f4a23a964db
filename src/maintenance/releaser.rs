//! Releases and cancels children whose parents have ended.
//!
//! States: *busy* and *asleep*. A busy releaser looks for ended parents every 20 ms. A sleeping releaser looks every 5 s, and
//! the end of a parent notifies it. The releaser first tells the database that it sleeps, and then looks once more, so no end
//! is missed. The next look finds an end without a notification: a transaction that ended a parent while the releaser was busy,
//! and committed while it slept, sends no notification. So a sleeping releaser looks every second while a job waits for parents.
//!
//! The releaser also walks through all edges slowly, and repairs edges after changes by hand.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::batch_size::{BATCH, BatchSize};
use super::lease::Holder;
use super::service::Service;
use crate::error::Result;
use crate::store::{self, EdgePlace, ReleaseStep};

/// The rest of a busy releaser.
const SHORT_REST: Duration = Duration::from_millis(20);

/// The rest of a quiet releaser that cannot be notified, while jobs wait for others.
const POLL_REST: Duration = Duration::from_millis(50);

/// The rest of a releaser that sleeps while jobs wait for others, or that cannot be notified while none does.
const AWAITED_REST: Duration = Duration::from_secs(1);

/// The rest of a releaser that sleeps while no job waits for others.
const LONG_REST: Duration = Duration::from_secs(5);

/// The rest between two steps of the walk through all edges.
const CHECK_REST: Duration = Duration::from_secs(10);

/// The time without an end after which the releaser falls asleep.
const QUIET: Duration = Duration::from_millis(500);

/// Walks through edges take up one part in this many of the time.
const PART_OF_CHECKS: u32 = 50;

/// How many children a step of the walk looks at.
const CHECKED: i64 = 500;

#[derive(Clone, Copy, Debug)]
enum Mode {
    Busy,
    Asleep,
    /// Quiet, and never notified.
    Polling,
}

impl Mode {
    /// How long the releaser rests. `is_awaited`: whether a job waits for others.
    const fn rest(self, is_awaited: bool) -> Duration {
        match self {
            Self::Busy => SHORT_REST,
            Self::Polling if is_awaited => POLL_REST,
            Self::Asleep if !is_awaited => LONG_REST,
            Self::Asleep | Self::Polling => AWAITED_REST,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Releaser {
    /// Signalled by a notification. `None`: the runner does not listen.
    woken: Option<Arc<Notify>>,
    /// The longest rest of a releaser that cannot be notified.
    longest_rest: Duration,
    /// Where the next step goes on.
    place: EdgePlace,
    busy_until: Instant,
    /// Where the walk goes on, and when.
    checked: Option<uuid::Uuid>,
    check_at: Instant,
    batch: BatchSize,
}

impl Releaser {
    /// `longest_rest`: of a releaser that cannot be notified.
    pub(crate) fn new(woken: Option<Arc<Notify>>, longest_rest: Duration) -> Self {
        let now = Instant::now();
        let (place, batch) = (EdgePlace::default(), BatchSize::new(BATCH));
        Self { woken, longest_rest, place, busy_until: now, checked: None, check_at: now, batch }
    }

    async fn release(&mut self, holder: &Holder) -> Result<Duration> {
        let began = Instant::now();
        let sleeps = self.woken.is_some() && began >= self.busy_until;
        let mut session = holder.connection.session().await?;
        let limit = self.batch.jobs();
        let step =
            store::release_children(session.connection(), &holder.statements, holder.id, self.place, limit, sleeps)
                .await;
        let step = match step {
            Ok(step) => step,
            Err(error) => {
                self.place = EdgePlace::default();
                return Err(error);
            }
        };
        session.end().await?;
        let ReleaseStep { next, seen, changed, has_told, is_awaited } = step;
        if changed > 0 {
            tracing::debug!(changed, "edges linked, and children released or cancelled");
        }
        self.place = next;
        let seen = usize::try_from(seen).unwrap_or_default();
        self.batch.grow_after(seen, began.elapsed());
        if seen > 0 {
            self.busy_until = Instant::now() + QUIET;
        }
        if next != EdgePlace::default() || self.batch.is_full(seen) || has_told {
            return Ok(Duration::ZERO);
        }
        if self.check_at <= began {
            self.check(holder).await?;
        }
        let mode = match self.woken {
            Some(_) if sleeps => Mode::Asleep,
            None if began >= self.busy_until => Mode::Polling,
            _ => Mode::Busy,
        };
        let rest = match self.woken {
            Some(_) => mode.rest(is_awaited),
            None => mode.rest(is_awaited).min(self.longest_rest),
        };
        Ok(rest.min(self.check_at.saturating_duration_since(Instant::now())))
    }

    /// A step of the walk through all edges.
    async fn check(&mut self, holder: &Holder) -> Result<()> {
        let began = Instant::now();
        let mut session = holder.connection.session().await?;
        let checking = store::check_edges(session.connection(), &holder.statements, self.checked, CHECKED);
        let (reached, mended) = checking.await?;
        session.end().await?;
        if mended > 0 {
            tracing::debug!(edges = mended, "edges between jobs put right");
        }
        self.checked = reached;
        // A runner that deletes jobs as they complete leaves their edges behind. They are deleted as fast as they come.
        let rest = if mended > 0 { Duration::ZERO } else { CHECK_REST };
        self.check_at = Instant::now() + rest.max(began.elapsed() * PART_OF_CHECKS);
        Ok(())
    }
}

impl Service for Releaser {
    fn name(&self) -> &'static str {
        "releaser"
    }

    fn margin(&self) -> Duration {
        Duration::from_secs(2)
    }

    async fn run_once(&mut self, holder: &Holder) -> Result<Duration> {
        match self.release(holder).await {
            Err(error) if self.batch.shrink_after(&error) => Ok(Duration::ZERO),
            rest => rest,
        }
    }

    async fn rest(&self, wait: Duration) {
        match &self.woken {
            Some(woken) => tokio::select! {
                () = woken.notified() => {}
                () = tokio::time::sleep(wait) => {}
            },
            None => tokio::time::sleep(wait).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_releaser_that_may_miss_an_end_looks_within_a_second() {
        assert!(Mode::Asleep.rest(true) <= Duration::from_secs(1));
        assert!(Mode::Polling.rest(true) < Duration::from_millis(100));
        assert!(Mode::Asleep.rest(false) > Mode::Asleep.rest(true));
    }
}
