//! Brings back the jobs of runners whose lease ran out, and forgets the dead.

use std::time::{Duration, Instant};

use sqlx::PgConnection;
use uuid::Uuid;

use super::portion::Portion;
use super::sifting::{Aside, Sifted, Step, rest, run_whole, sift};
use super::{BATCH, Holder, Service};
use crate::client::Client;
use crate::error::Result;
use crate::event::{Event, Happened};
use crate::state::JobState;
use crate::store::{self, Rescued, Statements};

/// The longest sleep: a runner with a short lease may have come meanwhile.
const LONGEST_REST: Duration = Duration::from_secs(10);

/// The shortest sleep.
const SHORTEST_REST: Duration = Duration::from_millis(50);

/// Why a job that no runner can bring back is given up.
const DIED: &str = "rescued: the runner died or lost its lease";

#[derive(Debug)]
pub(crate) struct Rescuer {
    /// Half the runner's lease, within limits: what a run sleeps at most, and what another waits
    /// before it follows. Together no longer than the jobs of a holder that died wait anyway.
    half_lease: Duration,
    portion: Portion,
    aside: Aside,
}

impl Rescuer {
    pub(crate) fn new(lease: Duration) -> Self {
        let half_lease = (lease / 2).min(LONGEST_REST);
        Self { half_lease, portion: Portion::new(BATCH), aside: Aside::default() }
    }

    /// Awake when the first lease that is not extended runs out.
    fn rest(&self, next_in: Option<Duration>) -> Duration {
        next_in.unwrap_or(self.half_lease).clamp(SHORTEST_REST, self.half_lease)
    }

    /// A look of which the database refuses some jobs, or of one that may take too long. Leaves out what is aside.
    async fn sift(&mut self, holder: &Holder, look: Look, aside: &[Uuid]) -> Result<Duration> {
        let began = Instant::now();
        let mut session = holder.connection.session().await?;
        let ids = store::lost_jobs(session.connection(), &holder.statements, look.limit, aside).await?;
        session.end().await?;
        let is_full = self.portion.is_full(ids.len());
        let Sifted { done, is_cut, failed } = sift(holder, &look, ids, &mut self.aside).await;
        let next_in = done.last().and_then(|(_, next_in)| *next_in);
        let rescued: Vec<_> = done.into_iter().flat_map(|(rescued, _)| rescued).collect();
        let count = rescued.len();
        tell(&holder.client, rescued);
        if let Some(error) = failed {
            return Err(error);
        }
        self.portion.worked(count, began.elapsed());
        Ok(rest(is_full || is_cut, count > 0).unwrap_or_else(|| self.rest(next_in)))
    }
}

/// One look. Forgets the dead where there is nothing to bring back.
#[derive(Clone, Copy, Debug)]
struct Look {
    limit: i64,
}

impl Step for Look {
    const DOES: &'static str = "rescue";
    type Done = (Vec<Rescued>, Option<Duration>);

    async fn run(
        &self,
        connection: &mut PgConnection,
        statements: &Statements,
        only: Option<&[Uuid]>,
    ) -> Result<Self::Done> {
        let (rescued, next_in) = store::rescue(connection, statements, self.limit, only).await?;
        if rescued.is_empty() && only.is_none_or(<[_]>::is_empty) {
            store::remove_dead_runners(connection, statements).await?;
        }
        Ok((rescued, next_in))
    }

    fn count((rescued, _): &Self::Done) -> usize {
        rescued.len()
    }
}

impl Service for Rescuer {
    const NAME: &'static str = "rescuer";

    fn margin(&self) -> Duration {
        self.half_lease
    }

    async fn run_once(&mut self, holder: &Holder) -> Result<Duration> {
        match self.look(holder).await {
            Err(error) if self.portion.is_cut(&error) => Ok(Duration::ZERO),
            looked => looked,
        }
    }
}

impl Rescuer {
    async fn look(&mut self, holder: &Holder) -> Result<Duration> {
        let began = Instant::now();
        let (look, aside) = (Look { limit: self.portion.jobs() }, self.aside.ids(began));
        let Some((rescued, next_in)) = run_whole(holder, &look, &aside, self.portion.is_single()).await? else {
            return self.sift(holder, look, &aside).await;
        };
        let is_full = self.portion.is_full(rescued.len());
        self.portion.worked(rescued.len(), began.elapsed());
        tell(&holder.client, rescued);
        Ok(if is_full { Duration::ZERO } else { self.rest(next_in) })
    }
}

fn tell(client: &Client, rescued: Vec<Rescued>) {
    for Rescued { id, kind, queue, attempt, state } in rescued {
        tracing::warn!(job.id = %id, job.kind = %kind, %queue, attempt, %state, "rescued from a runner that died");
        let happened = match state {
            JobState::Discarded => Happened::Discarded { reason: DIED.to_owned() },
            _ => Happened::Rescued,
        };
        client.tell(Event { id, kind, queue, attempt, happened });
    }
}
