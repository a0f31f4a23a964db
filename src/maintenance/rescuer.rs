//! Rescues the jobs of runners whose lease expired, and removes dead runners. First it ends what a clock that went back would
//! let last too long, which includes the leases of runners that died meanwhile.

use std::time::Duration;

use sqlx::PgConnection;
use uuid::Uuid;

use super::batches::{Batch, Batches};
use super::lease::Holder;
use super::service::Service;
use super::step::Step;
use crate::client::Client;
use crate::error::Result;
use crate::store::{self, Rescued, Statements};
use crate::words::event::{Event, Happened};
use crate::words::state::JobState;

/// The longest sleep: a runner with a short lease may have started meanwhile.
const LONGEST_REST: Duration = Duration::from_secs(10);

/// The shortest sleep.
const SHORTEST_REST: Duration = Duration::from_millis(50);

/// The number of crashes in a row after which a job is discarded, unless a runner sets another.
pub(crate) const MAX_CRASHES: u16 = 3;

#[derive(Debug)]
pub(crate) struct Rescuer {
    /// Half the runner's lease, within limits: the longest sleep, and the margin after which another
    /// runner takes over. Together no longer than the jobs of a dead holder wait anyway.
    half_lease: Duration,
    /// The number of crashes in a row after which a job is discarded.
    max_crashes: u16,
    batches: Batches,
}

impl Rescuer {
    pub(crate) fn new(lease: Duration, max_crashes: u16) -> Self {
        let half_lease = (lease / 2).min(LONGEST_REST);
        Self { half_lease, max_crashes, batches: Batches::default() }
    }
}

impl Service for Rescuer {
    const NAME: &'static str = "rescuer";

    fn margin(&self) -> Duration {
        self.half_lease
    }

    async fn run_once(&mut self, holder: &Holder) -> Result<Duration> {
        end_future_times(holder).await?;
        let step = Rescue { limit: self.batches.limit(), max_crashes: self.max_crashes };
        let Batch { done, rest, .. } = self.batches.run(holder, &step).await;
        let next_in = done.last().and_then(|(_, next_in)| *next_in);
        publish(&holder.client, done.into_iter().flat_map(|(rescued, _)| rescued));
        // Else until the first lease that is not extended expires.
        let next = || next_in.unwrap_or(self.half_lease).clamp(SHORTEST_REST, self.half_lease);
        Ok(rest?.unwrap_or_else(next))
    }
}

#[derive(Clone, Copy, Debug)]
struct Rescue {
    limit: i64,
    max_crashes: u16,
}

impl Step for Rescue {
    const VERB: &'static str = "rescue";
    type Done = (Vec<Rescued>, Option<Duration>);

    /// Removes dead runners where they have no job left.
    async fn run(
        &self,
        connection: &mut PgConnection,
        statements: &Statements,
        only: Option<&[Uuid]>,
    ) -> Result<Self::Done> {
        let (rescued, next_in) = store::rescue(connection, statements, self.limit, only, self.max_crashes).await?;
        if rescued.is_empty() && only.is_none_or(<[_]>::is_empty) {
            store::remove_dead_runners(connection, statements).await?;
        }
        Ok((rescued, next_in))
    }

    async fn find(&self, connection: &mut PgConnection, statements: &Statements, skip: &[Uuid]) -> Result<Vec<Uuid>> {
        store::lost_jobs(connection, statements, self.limit, skip).await
    }

    fn count((rescued, _): &Self::Done) -> usize {
        rescued.len()
    }
}

async fn end_future_times(holder: &Holder) -> Result<()> {
    let mut session = holder.connection.session().await?;
    let ended = store::end_future_times(session.connection(), &holder.statements).await?;
    session.end().await?;
    if ended > 0 {
        tracing::warn!(rows = ended, "the database's clock went back: leases, rates and holds are shortened");
    }
    Ok(())
}

fn publish(client: &Client, rescued: impl Iterator<Item = Rescued>) {
    for Rescued { id, kind, queue, attempt, state, error } in rescued {
        tracing::warn!(job.id = %id, job.kind = %kind, %queue, attempt, %state, "job rescued from a dead runner");
        let happened = match state {
            JobState::Discarded => Happened::Discarded { reason: error },
            _ => Happened::Rescued,
        };
        client.publish(Event { id, kind, queue, attempt, happened });
    }
}
