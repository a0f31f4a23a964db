//! Brings back the jobs of runners whose lease ran out, and forgets the dead.

use std::time::Duration;

use super::{BATCH, Holder, Service};
use crate::client::Client;
use crate::error::Result;
use crate::event::{Event, Happened};
use crate::state::JobState;
use crate::store::{self, Rescued};

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
}

impl Rescuer {
    pub(crate) fn new(lease: Duration) -> Self {
        Self { half_lease: (lease / 2).min(LONGEST_REST) }
    }
}

impl Service for Rescuer {
    const NAME: &'static str = "rescuer";

    fn margin(&self) -> Duration {
        self.half_lease
    }

    async fn run_once(&mut self, holder: &Holder) -> Result<Duration> {
        let mut session = holder.connection.session().await?;
        let (rescued, next_in) = store::rescue(session.connection(), &holder.statements, BATCH).await?;
        if rescued.is_empty() {
            store::remove_dead_runners(session.connection(), &holder.statements).await?;
        }
        session.end().await?;
        let is_full = i64::try_from(rescued.len()).is_ok_and(|rescued| rescued >= BATCH);
        for job in rescued {
            tell(&holder.client, job);
        }
        if is_full {
            return Ok(Duration::ZERO);
        }
        // Awake when the first lease that is not extended runs out.
        Ok(next_in.unwrap_or(self.half_lease).clamp(SHORTEST_REST, self.half_lease))
    }
}

fn tell(client: &Client, job: Rescued) {
    let Rescued { id, kind, queue, attempt, state } = job;
    tracing::warn!(job.id = %id, job.kind = %kind, %queue, attempt, %state, "rescued from a runner that died");
    let happened = match state {
        JobState::Discarded => Happened::Discarded { reason: DIED.to_owned() },
        _ => Happened::Rescued,
    };
    client.tell(Event { id, kind, queue, attempt, happened });
}
