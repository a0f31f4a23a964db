//! Deletes final jobs past their retention, wherever they are among those that stay.
//!
//! A round begins with the bounds: jobs whose ids are younger than the shortest retention stay, so they are not read.
//! Ids from clients whose clocks are ahead, and ids that follow no clock, lie beyond the young ones, in [`IdRanges`] of
//! their own. Then the round visits the ranges that are due: one after another while visits delete much, and else a
//! limited number, so that a table full of retained jobs costs little.

use std::time::{Duration, Instant};

use sqlx::PgConnection;
use uuid::Uuid;

use super::batch_size::BatchSize;
use super::id_ranges::{IdRanges, RANGE, RangeVisit, due_at};
use super::lease::Holder;
use super::service::Service;
use super::set_aside::RefusedJobs;
use super::step::{self, Ran, Step};
use crate::error::Result;
use crate::store::{self, IdRange, PruneBounds, Pruned, RetentionLimits, Statements};
use crate::words::retention::Retention;

/// The number of visits in a round that may delete little.
const VISITS: u32 = 50;

/// A visit deletes little if less than one in this many of its jobs went.
const FEW: i64 = 10;

/// The most records of suppressed duplicates that one statement folds.
const RECORDS_TO_FOLD: i32 = 10_000;

/// The most counts of calls in SQL that one statement adds to the history, and the most old rows that it deletes.
const COUNTS_TO_FOLD: i32 = 10_000;

/// The most statements of each of these in a round.
const FOLDS: u32 = 20;

/// The most rows of groups that one statement deletes.
const GROUPS_TO_PRUNE: i64 = 1_000;

/// How long the log of changes is kept.
const KEEP_CHANGES: Duration = Duration::from_secs(90 * 86_400);

/// After this many rounds, jobs that were not final are read again, if they may be deleted by then. So are the
/// neighbours of jobs that the database refused to delete.
const ROUNDS_TO_FINISH: u32 = 20;

#[derive(Debug)]
pub(crate) struct Pruner {
    interval: Duration,
    keep: RetentionLimits,
    settings: String,
    round: Option<Round>,
    /// Ids up to the young ones, and those beyond.
    sections: [IdRanges; 2],
    /// The last visit to each section.
    visited: [Option<Uuid>; 2],
    batch: BatchSize,
    /// Refused jobs, which are tried again with their neighbours but not logged again.
    refused: RefusedJobs,
}

#[derive(Debug)]
struct Round {
    young_from: Uuid,
    young_to: Uuid,
    /// When a job that is not final may be deleted, at the earliest.
    open_for: Duration,
    visits_left: u32,
    /// The section that the round is at. Each is paged through from where the last round left it, and once more from its
    /// start.
    section: usize,
    is_from_start: bool,
}

/// A range to visit.
struct DueRange {
    /// Its begin in its section.
    begin: Uuid,
    range: IdRange,
    is_last: bool,
}

impl Pruner {
    pub(crate) fn new(interval: Duration, retention: Retention) -> Self {
        let Retention { completed, cancelled, discarded } = retention;
        let now = Instant::now();
        Self {
            interval,
            keep: RetentionLimits { completed, cancelled, discarded },
            settings: String::new(),
            round: None,
            sections: [IdRanges::new(now), IdRanges::new(now)],
            visited: [None; 2],
            batch: BatchSize::new(RANGE),
            refused: RefusedJobs::default(),
        }
    }

    /// Begins a round. `None`: every job is kept.
    async fn begin_round(&mut self, holder: &Holder, now: Instant) -> Result<Option<Round>> {
        let mut session = holder.connection.session().await?;
        let bounds = store::prune_bounds(session.connection(), &holder.statements, self.keep).await?;
        session.end().await?;
        let PruneBounds { young_from, young_to, shortest, settings } = bounds;
        if settings != self.settings {
            self.settings = settings;
            self.sections.iter_mut().for_each(|ranges| ranges.make_all_due(now));
        }
        let open_for = shortest.unwrap_or_default().max(self.interval * ROUNDS_TO_FINISH);
        Ok(young_from.map(|young_from| Round {
            young_from,
            young_to,
            open_for,
            visits_left: VISITS,
            section: 0,
            is_from_start: false,
        }))
    }

    /// The next range that is due in this round.
    fn next_due(&mut self, round: &mut Round, now: Instant) -> Option<DueRange> {
        while round.visits_left > 0 {
            let ranges = self.sections.get(round.section)?;
            let Some((begin, end)) = ranges.next_due(self.visited[round.section], now) else {
                self.visited[round.section] = None;
                if round.is_from_start {
                    round.section += 1;
                }
                round.is_from_start = !round.is_from_start;
                continue;
            };
            self.visited[round.section] = Some(begin);
            let (upto, limit) = (end.unwrap_or(Uuid::max()), self.batch.jobs());
            let range = match round.section {
                0 => IdRange { from: begin, upto: upto.min(round.young_from), limit },
                _ => IdRange { from: begin.max(round.young_to), upto, limit },
            };
            return Some(DueRange { begin, range, is_last: end.is_none() });
        }
        None
    }

    async fn visit(&mut self, holder: &Holder, round: &Round, due: &DueRange) -> Result<Pruned> {
        let prune = Prune { range: due.range, keep: self.keep, open_for: round.open_for };
        let ran = step::run(holder, &prune, &[], self.batch.is_single(), &mut self.refused).await?;
        let Ran { done, found, has_rest, failed } = ran;
        if let Some(error) = failed {
            return Err(error);
        }
        let next_in = done.iter().filter_map(|pruned| pruned.next_in).min();
        if let (None, Some(pruned)) = (&found, done.first()) {
            // Jobs grow old beyond the end of the last range all the time.
            return Ok(if due.is_last { Pruned { next_in: Some(Duration::ZERO), ..*pruned } } else { *pruned });
        }
        let ids = found.unwrap_or_default();
        // Refused jobs stay behind, to be tried again after a day or when another job of the range may be deleted.
        let jobs = i64::try_from(ids.len()).unwrap_or(i64::MAX);
        let deleted: i64 = done.iter().map(|pruned| pruned.deleted).sum();
        // The rest of the range is visited as usual.
        let reached = ids.iter().max().copied().filter(|_| due.is_last || jobs >= due.range.limit);
        // Another bisection may delete more of the rest, until one deletes nothing.
        let next_in = if (has_rest && deleted > 0) || (due.is_last && reached.is_none()) {
            Some(Duration::ZERO)
        } else {
            next_in.map(|next_in| next_in.max(self.interval * ROUNDS_TO_FINISH))
        };
        Ok(Pruned { deleted, remaining: jobs - deleted, reached, next_in })
    }

    /// Folds the records of suppressed duplicates since the last round, adds up and prunes the history, and prunes the log of
    /// changes and the rows of groups. This step comes last, so that a failure of the audit keeps no job from being pruned.
    async fn end_round(&self, holder: &Holder) -> Result<Duration> {
        let mut session = holder.connection.session().await?;
        for _ in 0..FOLDS {
            let folded = store::fold_duplicates(session.connection(), &holder.statements, RECORDS_TO_FOLD).await?;
            if folded < RECORDS_TO_FOLD {
                break;
            }
        }
        for _ in 0..FOLDS {
            if store::tend_history(session.connection(), &holder.statements, COUNTS_TO_FOLD).await? < COUNTS_TO_FOLD {
                break;
            }
        }
        store::prune_changes(session.connection(), &holder.statements, KEEP_CHANGES).await?;
        while store::prune_groups(session.connection(), &holder.statements).await? == GROUPS_TO_PRUNE {}
        session.end().await?;
        Ok(self.interval)
    }
}

impl Service for Pruner {
    fn name(&self) -> &'static str {
        "pruner"
    }

    fn margin(&self) -> Duration {
        Duration::from_secs(10)
    }

    /// Visits one range.
    async fn run_once(&mut self, holder: &Holder) -> Result<Duration> {
        let now = Instant::now();
        let round = match self.round.take() {
            Some(round) => Some(round),
            None => self.begin_round(holder, now).await?,
        };
        let Some(mut round) = round else { return self.end_round(holder).await };
        let Some(due) = self.next_due(&mut round, now) else { return self.end_round(holder).await };
        let pruned = match self.visit(holder, &round, &due).await {
            // The range is still due, and another round comes to it.
            Err(error) if self.batch.shrink_after(&error) => return Ok(Duration::ZERO),
            pruned => pruned?,
        };
        self.batch.grow_after(Prune::count(&pruned), now.elapsed());
        let Pruned { deleted, remaining, reached, next_in } = pruned;
        let visit = RangeVisit { remaining, reached, due_at: due_at(now, next_in, self.interval) };
        self.sections[round.section].record(due.begin, visit, now);
        if deleted * FEW < deleted + remaining {
            round.visits_left -= 1;
        }
        self.round = Some(round);
        Ok(Duration::ZERO)
    }
}

#[derive(Debug)]
struct Prune {
    range: IdRange,
    keep: RetentionLimits,
    open_for: Duration,
}

impl Step for Prune {
    const VERB: &'static str = "prune";
    type Done = Pruned;

    async fn run(
        &self,
        connection: &mut PgConnection,
        statements: &Statements,
        only: Option<&[Uuid]>,
    ) -> Result<Pruned> {
        let range = match only {
            None => self.range,
            // Every part is a range of its own.
            Some(ids) => {
                let from = ids.iter().min().copied().unwrap_or(Uuid::nil());
                let upto = ids.iter().max().copied().unwrap_or(Uuid::nil());
                IdRange { from, upto, ..self.range }
            }
        };
        store::prune(connection, statements, range, self.keep, self.open_for).await
    }

    async fn find(&self, connection: &mut PgConnection, statements: &Statements, _: &[Uuid]) -> Result<Vec<Uuid>> {
        store::jobs_in_range(connection, statements, self.range).await
    }

    fn count(pruned: &Pruned) -> usize {
        usize::try_from(pruned.deleted).unwrap_or_default()
    }
}
