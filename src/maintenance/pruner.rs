//! Deletes final jobs past their retention, wherever they are among those that stay.
//!
//! A round begins with the bounds: jobs whose ids are younger than the shortest retention cannot go,
//! so they are not looked at. Ids from clients whose clocks are ahead, and ids that follow no clock,
//! are beyond the young ones, in a walk of their own. Then all stretches of ids that are due are
//! visited (see [`walk`](super::walk)), at once while much is deleted, and else so many a round, so
//! that a table full of what may not go costs little.

use std::time::{Duration, Instant};

use uuid::Uuid;

use super::connection::Session;
use super::walk::{STRETCH, Visit, Walk, due_at};
use super::{Holder, Service};
use crate::error::Result;
use crate::retention::Retention;
use crate::store::{self, Keep, PruneBounds, Stretch};

/// So many visits that delete little end a round.
const VISITS: u32 = 50;

/// A visit is worth it when this part of the jobs it looked at went.
const WORTH: i64 = 10;

/// So many notes of suppressed duplicates are folded by one statement, and so many statements a round.
const NOTES: i32 = 10_000;
const FOLDS: u32 = 20;

/// After so many rounds, jobs that were not final are looked at again, if they could be gone by then.
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
            let stretch = match round.walk {
                0 => Stretch { after: begin, upto: end.min(round.young_from), limit: STRETCH },
                _ => Stretch { after: begin.max(round.young_to), upto: end, limit: STRETCH },
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
        let Some((begin, stretch, is_last)) = self.next(&mut round, now) else {
            return self.end_round(holder, session).await;
        };
        let pruned = store::prune(session.connection(), statements, stretch, self.keep, round.open_for).await?;
        let visit = Visit {
            remaining: pruned.remaining,
            reached: pruned.reached,
            // Jobs grow old beyond the end of the last stretch all the time.
            due_at: due_at(now, if is_last { Some(Duration::ZERO) } else { pruned.next_in }, self.interval),
        };
        self.walks[round.walk].note(begin, visit, now);
        if pruned.deleted * WORTH < pruned.deleted + pruned.remaining {
            round.visits_left -= 1;
        }
        if round.visits_left == 0 {
            return self.end_round(holder, session).await;
        }
        session.end().await?;
        self.round = Some(round);
        Ok(Duration::ZERO)
    }
}
