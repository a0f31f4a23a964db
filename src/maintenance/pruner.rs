//! Deletes final jobs past their retention, wherever they are among those that stay.
//!
//! A round begins with the bounds: jobs whose ids are younger than the shortest retention cannot go,
//! so they are not looked at. Ids from clients whose clocks are ahead, and ids that follow no clock,
//! are beyond the young ones, in a walk of their own. Then all stretches of ids that are due are
//! visited (see [`walk`](super::walk)), at once while much is deleted, and else so many a round, so
//! that a table full of what may not go costs little.

use std::time::{Duration, Instant};

use sqlx::PgConnection;
use uuid::Uuid;

use super::connection::Session;
use super::portion::Portion;
use super::sifting::{Aside, Sifted, Step, is_refusal, run_in, sift};
use super::walk::{STRETCH, Visit, Walk, due_at};
use super::{Holder, Service};
use crate::error::Result;
use crate::retention::Retention;
use crate::store::{self, Keep, PruneBounds, Pruned, Statements, Stretch};

/// So many visits that delete little end a round.
const VISITS: u32 = 50;

/// A visit is worth it when this part of the jobs it looked at went.
const WORTH: i64 = 10;

/// So many notes of suppressed duplicates are folded by one statement, and so many statements a round.
const NOTES: i32 = 10_000;
const FOLDS: u32 = 20;

/// After so many rounds, jobs that were not final are looked at again, if they could be gone by then; and so are those
/// beside one that the database refused to delete, which would be refused each time.
const ROUNDS_TO_FINISH: u32 = 20;

#[derive(Debug)]
pub(crate) struct Pruner {
    interval: Duration,
    keep: Keep,
    settings: String,
    round: Option<Round>,
    /// Ids up to the young ones, and those beyond.
    walks: [Walk; 2],
    /// Where the last visit of each walk was.
    visited: [Option<Uuid>; 2],
    portion: Portion,
    /// What was refused lately, and need not be named again.
    refused: Aside,
}

#[derive(Debug)]
struct Round {
    young_from: Uuid,
    young_to: Uuid,
    /// When a job that is not final may go, at the earliest, as far as it is worth looking.
    open_for: Duration,
    visits_left: u32,
    /// Which walk it is at. Each is gone through once from where the last round left it, and once
    /// more from its start.
    walk: usize,
    is_from_start: bool,
}

impl Pruner {
    pub(crate) fn new(interval: Duration, retention: Retention) -> Self {
        let Retention { completed, cancelled, discarded } = retention;
        let now = Instant::now();
        Self {
            interval,
            keep: Keep { completed, cancelled, discarded },
            settings: String::new(),
            round: None,
            walks: [Walk::new(now), Walk::new(now)],
            visited: [None; 2],
            portion: Portion::new(STRETCH),
            refused: Aside::default(),
        }
    }

    fn begin(&mut self, bounds: PruneBounds, now: Instant) -> Option<Round> {
        if bounds.settings != self.settings {
            self.settings = bounds.settings;
            self.walks.iter_mut().for_each(|walk| walk.forget(now));
        }
        let young_from = bounds.young_from?;
        let open_for = bounds.shortest.unwrap_or_default().max(self.interval * ROUNDS_TO_FINISH);
        let young_to = bounds.young_to;
        Some(Round { young_from, young_to, open_for, visits_left: VISITS, walk: 0, is_from_start: false })
    }

    /// The next stretch that is due in this round: the start by which its walk knows it, the ids to look
    /// at, and whether it is the last.
    fn next(&mut self, round: &mut Round, now: Instant) -> Option<(Uuid, Stretch, bool)> {
        while let Some(walk) = self.walks.get(round.walk) {
            let Some((begin, end)) = walk.next_due(self.visited[round.walk], now) else {
                self.visited[round.walk] = None;
                if round.is_from_start {
                    round.walk += 1;
                }
                round.is_from_start = !round.is_from_start;
                continue;
            };
            self.visited[round.walk] = Some(begin);
            let is_last = end.is_none();
            let end = end.unwrap_or(Uuid::max());
            let limit = self.portion.jobs();
            let stretch = match round.walk {
                0 => Stretch { after: begin, upto: end.min(round.young_from), limit },
                _ => Stretch { after: begin.max(round.young_to), upto: end, limit },
            };
            return Some((begin, stretch, is_last));
        }
        None
    }
}

impl Pruner {
    /// Folds what was noted of suppressed duplicates since the last round. Last, so that whatever may be
    /// wrong with the audit keeps no job from being pruned.
    async fn end_round(&self, holder: &Holder, mut session: Session) -> Result<Duration> {
        for _ in 0..FOLDS {
            if store::fold_duplicates(session.connection(), &holder.statements, NOTES).await? < NOTES {
                break;
            }
        }
        session.end().await?;
        Ok(self.interval)
    }
}

/// One visit.
#[derive(Debug)]
struct Pruning {
    stretch: Stretch,
    keep: Keep,
    open_for: Duration,
    rest_after_refusals: Duration,
}

impl Pruning {
    /// A visit to a stretch of which the database refuses some jobs, or to one job that may take too long. They are left
    /// behind, to be tried again in a day, or when something else of the stretch may go.
    async fn sift(&self, holder: &Holder, is_last: bool, refused: &mut Aside) -> Result<Pruned> {
        let mut session = holder.connection.session().await?;
        let ids = store::stretch_jobs(session.connection(), &holder.statements, self.stretch).await?;
        session.end().await?;
        let (jobs, last) = (ids.len(), ids.last().copied());
        let Sifted { done, is_cut, failed } = sift(holder, self, ids, refused).await;
        if let Some(error) = failed {
            return Err(error);
        }
        let jobs = i64::try_from(jobs).unwrap_or(i64::MAX);
        let deleted: i64 = done.iter().map(|pruned| pruned.deleted).sum();
        // What grows old beyond them is visited as ever.
        let reached = last.filter(|_| is_last || jobs >= self.stretch.limit);
        // Another sifting may find more of what is left, until one finds nothing.
        let next_in = if (is_cut && deleted > 0) || (is_last && reached.is_none()) {
            Some(Duration::ZERO)
        } else {
            let next_in = done.iter().filter_map(|pruned| pruned.next_in).min();
            next_in.map(|next_in| next_in.max(self.rest_after_refusals))
        };
        Ok(Pruned { deleted, remaining: jobs - deleted, reached, next_in })
    }
}

impl Step for Pruning {
    const DOES: &'static str = "prune";
    type Done = Pruned;

    async fn run(
        &self,
        connection: &mut PgConnection,
        statements: &Statements,
        only: Option<&[Uuid]>,
    ) -> Result<Pruned> {
        let stretch = match only {
            None => self.stretch,
            // They come in the order of ids, and so do all parts of them.
            Some(ids) => {
                let after = ids.first().map_or(0, |first| first.as_u128()).saturating_sub(1);
                let upto = ids.last().copied().unwrap_or(Uuid::nil());
                Stretch { after: Uuid::from_u128(after), upto, ..self.stretch }
            }
        };
        store::prune(connection, statements, stretch, self.keep, self.open_for).await
    }

    fn count(pruned: &Pruned) -> usize {
        usize::try_from(pruned.deleted).unwrap_or_default()
    }
}

impl Service for Pruner {
    const NAME: &'static str = "pruner";

    fn margin(&self) -> Duration {
        Duration::from_secs(10)
    }

    async fn run_once(&mut self, holder: &Holder) -> Result<Duration> {
        let statements = &holder.statements;
        let mut session = holder.connection.session().await?;
        let now = Instant::now();
        let mut round = match self.round.take() {
            Some(round) => round,
            None => {
                let bounds = store::prune_bounds(session.connection(), statements, self.keep).await?;
                match self.begin(bounds, now) {
                    Some(round) => round,
                    None => return self.end_round(holder, session).await,
                }
            }
        };
        let next = if round.visits_left > 0 { self.next(&mut round, now) } else { None };
        let Some((begin, stretch, is_last)) = next else {
            return self.end_round(holder, session).await;
        };
        let pruning = Pruning {
            stretch,
            keep: self.keep,
            open_for: round.open_for,
            rest_after_refusals: self.interval * ROUNDS_TO_FINISH,
        };
        let pruned = if self.portion.is_single() {
            session.end().await?;
            pruning.sift(holder, is_last, &mut self.refused).await
        } else {
            match run_in(session, statements, &pruning, None).await {
                // Jobs grow old beyond the end of the last stretch all the time.
                Ok(pruned) if is_last => Ok(Pruned { next_in: Some(Duration::ZERO), ..pruned }),
                Err(error) if is_refusal(&error) => pruning.sift(holder, is_last, &mut self.refused).await,
                pruned => pruned,
            }
        };
        let pruned = match pruned {
            // The stretch is still due, and another round comes to it.
            Err(error) if self.portion.is_cut(&error) => return Ok(Duration::ZERO),
            pruned => pruned?,
        };
        self.portion.worked(Pruning::count(&pruned), now.elapsed());
        let Pruned { deleted, remaining, reached, next_in } = pruned;
        self.walks[round.walk].note(
            begin,
            Visit { remaining, reached, due_at: due_at(now, next_in, self.interval) },
            now,
        );
        if deleted * WORTH < deleted + remaining {
            round.visits_left -= 1;
        }
        self.round = Some(round);
        Ok(Duration::ZERO)
    }
}
