//! Changes to many jobs: a plan is made first, and run when a visitor confirms it. Plans live in the memory of the process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use time::OffsetDateTime;
use tokio_util::sync::CancellationToken;
use uniqueue::{Client, JobCount, JobFilter, JobRow, RefusedRetry, Result};
use uniqueue_admin::{Given, JobVerb};
use uuid::Uuid;

/// How long a plan is kept.
const KEEP: Duration = Duration::from_secs(3_600);

/// The most plans that are kept.
const MOST: usize = 200;

/// How many refused jobs a result names.
const NAMED: usize = 100;

/// How long a statement of a running plan may take. A filter without an index reads the table until it has a page of jobs.
const STATEMENT: Duration = Duration::from_secs(60);

/// Changes of more jobs than this are confirmed by typing.
const TYPED_ABOVE: u64 = 1_000;

/// A change that was planned.
pub(crate) struct Plan {
    pub(crate) id: Uuid,
    pub(crate) user: Option<String>,
    pub(crate) verb: JobVerb,
    pub(crate) filter: JobFilter,
    /// The filter in words.
    pub(crate) words: String,
    /// The path of the list that the plan was made from.
    pub(crate) back: String,
    /// `None`: they could not be counted in time.
    pub(crate) count: Option<JobCount>,
    /// Jobs inserted later are not meant.
    pub(crate) cut_off: OffsetDateTime,
    /// `None`: they could not be read in time.
    pub(crate) samples: Option<Vec<JobRow>>,
    pub(crate) made_at: Instant,
    pub(crate) run: Mutex<Run>,
    pub(crate) stop: CancellationToken,
}

/// How far a plan is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Run {
    pub(crate) stage: Stage,
    pub(crate) changed: u64,
    pub(crate) discarded: u64,
    pub(crate) refused: u64,
    pub(crate) named: Vec<RefusedRetry>,
}

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) enum Stage {
    #[default]
    Planned,
    Running,
    Done,
    Stopped,
    Failed(String),
}

impl Plan {
    /// The text that confirms the plan. `None`: a button is enough.
    pub(crate) fn confirmation(&self) -> Option<String> {
        let exact = self.count.filter(|count| count.is_exact());
        let is_large = exact.is_none_or(|count| count.counted() > TYPED_ABOVE);
        let number = exact.map_or("all".to_owned(), |count| count.to_string());
        (is_large || self.verb == JobVerb::Delete).then(|| format!("{} {number}", self.verb.words().name))
    }

    pub(crate) fn progress(&self) -> Run {
        self.run().clone()
    }

    fn run(&self) -> MutexGuard<'_, Run> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the plan in a task, once. Returns whether it was started.
    pub(crate) fn start(self: &Arc<Self>, client: Client) -> bool {
        {
            let mut run = self.run();
            if run.stage != Stage::Planned {
                return false;
            }
            run.stage = Stage::Running;
        }
        let plan = Arc::clone(self);
        tokio::spawn(async move {
            let stage = tokio::select! {
                changed = plan.change(&client) => match changed {
                    Ok(()) => Stage::Done,
                    Err(error) => Stage::Failed(error.to_string()),
                },
                () = plan.stop.cancelled() => Stage::Stopped,
            };
            plan.run().stage = stage;
        });
        true
    }

    async fn change(&self, client: &Client) -> Result<()> {
        (self.verb.change(client, self.filter.clone()))
            .given(self.user.as_ref(), |change, user| change.actor(user))
            .timeout(STATEMENT)
            .on_batch(|ids| self.run().changed += ids.len() as u64)
            .on_discarded(|ids| self.run().discarded += ids.len() as u64)
            .on_refused(|jobs| {
                let mut run = self.run();
                run.refused += jobs.len() as u64;
                let room = NAMED.saturating_sub(run.named.len());
                run.named.extend(jobs.iter().take(room));
            })
            .await?;
        Ok(())
    }
}

/// The plans of a dashboard.
#[derive(Default)]
pub(crate) struct Plans(Mutex<HashMap<Uuid, Arc<Plan>>>);

impl Plans {
    pub(crate) fn add(&self, plan: Plan) -> Uuid {
        let mut plans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        plans.retain(|_, plan| plan.made_at.elapsed() < KEEP || plan.progress().stage == Stage::Running);
        while plans.len() >= MOST {
            let idle = plans.values().filter(|plan| plan.progress().stage != Stage::Running);
            let Some(oldest) = idle.min_by_key(|plan| plan.made_at).map(|plan| plan.id) else { break };
            plans.remove(&oldest);
        }
        let id = plan.id;
        plans.insert(id, Arc::new(plan));
        id
    }

    /// A plan, for the user who made it.
    pub(crate) fn find(&self, id: Uuid, user: Option<&str>) -> Option<Arc<Plan>> {
        let plans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        plans.get(&id).filter(|plan| plan.user.as_deref() == user).cloned()
    }
}
