//! Why a job has not started: the obstacles in its way, as codes and as sentences.

use std::collections::HashMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uniqueue::{Call, JobId};

use crate::Admin;
use crate::statement::{arguments, ask, collect};

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// The code of an obstacle, in the order in which [`Admin::why`] lists obstacles. It stays the
        /// same from version to version: for alerts and scripts.
        #[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
        #[non_exhaustive]
        pub enum ObstacleCode {
            $($(#[$doc])* #[serde(rename = $text)] $name,)*
        }

        impl ObstacleCode {
            /// Every code, in the order of a list.
            pub const ALL: &[ObstacleCode] = &[$(ObstacleCode::$name),*];

            /// The code in one word, as SQL and JSON have it.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(ObstacleCode::$name => $text,)*
                }
            }
        }
    };
}

codes! {
    /// The job is final: completed, cancelled or discarded. It does not start again by itself.
    Final = "final",
    /// The job runs. No obstacle.
    Running = "running",
    /// The job was started by a runner that died since. It waits for its rescue.
    RunnerDied = "runner_died",
    /// The job has not started by its `expires_at`. It is about to be discarded.
    Expired = "expired",
    /// The job has parents that have not ended.
    Parents = "parents",
    /// The job is pending until it is released.
    Pending = "pending",
    /// The job is scheduled for a later time.
    Scheduled = "scheduled",
    /// The job failed or was snoozed, and its next attempt is due later.
    Retryable = "retryable",
    /// The job is due, and no runner has made it available.
    NotPromoted = "not_promoted",
    /// Its queue is paused.
    QueuePaused = "queue_paused",
    /// Its queue is held until a time.
    QueueHeld = "queue_held",
    /// No live runner works its queue.
    QueueUnworked = "queue_unworked",
    /// No live runner of its queue has a worker for its kind.
    KindUnknown = "kind_unknown",
    /// As many jobs of its queue run as the queue's limit allows.
    QueueLimit = "queue_limit",
    /// Its queue has used up its rate.
    QueueRate = "queue_rate",
    /// A session has locked the settings of its queue, so that runners cannot count the queue's jobs.
    QueueLocked = "queue_locked",
    /// Its group is held until a time.
    GroupHeld = "group_held",
    /// Another job of its group, which runs in order, began and is not final.
    GroupBegan = "group_began",
    /// As many jobs of its group run as the group's limit allows.
    GroupLimit = "group_limit",
    /// Its group has used up its rate.
    GroupRate = "group_rate",
    /// The first job of its group cannot start, for a reason of that job's own.
    GroupHead = "group_head",
    /// All slots of the live runners of its queue are taken.
    SlotsBusy = "slots_busy",
    /// Its runner crashed while it had the job. Few such jobs start at a time.
    Suspect = "suspect",
    /// Other jobs come before it.
    Behind = "behind",
    /// A session has locked the job's row. Runners pass it by until that transaction ends.
    Locked = "locked",
    /// Runners have free slots or start later jobs, and none takes this one: they may not know its kind.
    NotTaken = "not_taken",
    /// No obstacle: the next fetch takes it.
    Next = "next",
    /// No obstacle: the job is discarded if it has not started by its `expires_at`.
    Expires = "expires",
}

impl ObstacleCode {
    /// Whether the job is kept from starting: false for [`Final`](Self::Final), [`Running`](Self::Running),
    /// [`Next`](Self::Next) and [`Expires`](Self::Expires).
    #[must_use]
    pub const fn is_obstacle(self) -> bool {
        !matches!(self, Self::Final | Self::Running | Self::Next | Self::Expires)
    }
}

impl fmt::Display for ObstacleCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// An obstacle that keeps a job from starting, as [`Admin::why`] lists it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Obstacle {
    /// The sort of obstacle.
    pub code: ObstacleCode,
    /// The obstacle as a sentence.
    pub reason: String,
    /// The remedy, often an SQL statement. `None`: the obstacle ends by itself.
    pub remedy: Option<String>,
    /// The facts of the sentence, by name: `queue`, `group`, `kind`, `job` (the id of another job), `since` and `until`
    /// (RFC 3339), `jobs` (a number of jobs; 10001: more than 10,000), `parent` (the id of a job that has not ended), `limit`,
    /// `pid`.
    pub details: Map<String, Value>,
}

/// The job that starts next in a queue, and what keeps it, as [`Admin::why_queue`] answers.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FirstJob {
    /// The first available job of the queue.
    pub id: JobId,
    /// The obstacles that keep it from starting, in the order in which they end.
    pub obstacles: Vec<Obstacle>,
}

const WHY: &str = "SELECT w.code, w.reason, w.remedy, w.details
FROM /* schema */why_waiting(($1::jsonb ->> 'id')::uuid) WITH ORDINALITY AS w (code, reason, remedy, details, place)
ORDER BY w.place";

/// A job that does not exist has no row.
const FIRST: &str = "SELECT i.id, w.code, w.reason, w.remedy, w.details
FROM jsonb_array_elements_text($1::jsonb -> 'ids') AS g (id)
CROSS JOIN LATERAL (SELECT g.id::uuid AS id) AS i
CROSS JOIN LATERAL (
    SELECT o.code, o.reason, o.remedy, o.details
    FROM /* schema */why_waiting(i.id) WITH ORDINALITY AS o (code, reason, remedy, details, place)
    ORDER BY o.place
    LIMIT 1
) AS w";

const QUEUE: &str = "SELECT f.id, ARRAY(
    SELECT jsonb_build_object('code', w.code, 'reason', w.reason, 'remedy', w.remedy, 'details', w.details)
    FROM /* schema */why_waiting(f.id) WITH ORDINALITY AS w (code, reason, remedy, details, place)
    ORDER BY w.place
) AS obstacles
FROM /* schema */_available_jobs($1::jsonb ->> 'queue', 1) AS f
ORDER BY f.priority DESC, f.scheduled_at, f.id
LIMIT 1";

#[derive(Deserialize)]
struct First {
    id: JobId,
    #[serde(flatten)]
    obstacle: Obstacle,
}

impl<'a> Admin<'a> {
    /// Says why a job has not started: what keeps it, the first obstacle to go first, each with a code, a sentence and
    /// what to do about it. Empty: there is no such job.
    ///
    /// ```no_run
    /// # use uniqueue::{Client, JobId};
    /// # use uniqueue_admin::{Admin, ObstacleCode};
    /// # async fn run(client: Client, id: JobId) -> uniqueue::Result<()> {
    /// for obstacle in Admin::new(&client).why(id).await? {
    ///     println!("{}", obstacle.reason); // Queue "emails" has been paused since 2026-11-21 22:30:00 UTC.
    ///     if obstacle.code == ObstacleCode::QueuePaused {
    ///         client.queue("emails").resume().await?;
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// A job that nothing holds up has the one code [`Next`](ObstacleCode::Next). One that runs or is final has one that says
    /// so. As the SQL function `why_waiting`. It locks nothing, reads a few index entries, and counts no further than 10,000
    /// jobs.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](uniqueue::Error::Database).
    pub fn why(self, id: impl Into<JobId>) -> Call<'a, Vec<Obstacle>> {
        ask(self.client, WHY, arguments(json!({ "id": id.into() })))
    }

    /// Says of each of these jobs what keeps it first, as [`why`](Self::why) does. Jobs that do not exist are left out.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](uniqueue::Error::Database).
    pub fn first_obstacles(self, ids: impl IntoIterator<Item = JobId>) -> Call<'a, HashMap<JobId, Obstacle>> {
        let ids: Vec<_> = ids.into_iter().collect();
        collect(self.client, FIRST, arguments(json!({ "ids": ids })), |rows: Vec<First>| {
            rows.into_iter().map(|First { id, obstacle }| (id, obstacle)).collect()
        })
    }

    /// Says what keeps the first available job of a queue from starting, as [`why`](Self::why) does. `None`: no job of the
    /// queue is available.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](uniqueue::Error::Database).
    pub fn why_queue(self, queue: &str) -> Call<'a, Option<FirstJob>> {
        collect(self.client, QUEUE, arguments(json!({ "queue": queue })), |mut rows| rows.pop())
    }
}
