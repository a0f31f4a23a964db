//! Rules that hold in every mode: with wake-ups, by polling alone, and through PgBouncer in transaction mode.

mod bodies;
mod pooled;
mod silence;

use support::bouncer;
use support::prelude::*;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Mode {
    Listening,
    Polling,
    Pooled,
}

/// A database of the test's own, and how it is reached.
struct Ground {
    /// Straight to the server: what is seen over this is committed.
    database: Database,
    /// The connection of the mode, for runners and clients.
    client: Client,
    mode: Mode,
}

impl Ground {
    /// `None`: this machine cannot do it, and that was said.
    async fn new(mode: Mode) -> Option<Self> {
        let database = Database::new().await;
        let client = match mode {
            Mode::Listening | Mode::Polling => database.client.clone(),
            Mode::Pooled => {
                let bouncer = bouncer::shared().await?;
                let pool = PgPoolOptions::new().max_connections(10).acquire_timeout(WAIT);
                let pool = pool.connect(&bouncer.url(&database.url)).await.expect("a pool through PgBouncer");
                database.client_over(pool)
            }
        };
        Some(Self { database, client, mode })
    }

    /// A runner that loses no time.
    fn runner(&self) -> Runner {
        let runner = Runner::new(self.client.clone())
            .queue("default", 10)
            .lease(Duration::from_secs(2))
            .retry_policy(RetryPolicy::fixed(Duration::ZERO))
            .promote_interval(Duration::from_millis(20));
        match self.mode {
            // Whatever starts sooner than this was woken.
            Mode::Listening => runner.poll_interval(2 * WAIT),
            Mode::Polling | Mode::Pooled => runner.poll_only().poll_interval(Duration::from_millis(20)),
        }
    }

    /// Waits until a job is in a state.
    async fn until(&self, id: JobId, state: JobState) -> JobRow {
        self.database.until_state(id, state).await
    }
}

/// Makes a test of each body in each mode.
macro_rules! in_every_mode {
    ($($rule:ident),* $(,)?) => {
        mod listening {
            $(#[tokio::test] async fn $rule() { super::run(super::Mode::Listening, super::bodies::$rule).await; })*
        }
        mod polling {
            $(#[tokio::test] async fn $rule() { super::run(super::Mode::Polling, super::bodies::$rule).await; })*
        }
        mod through_pgbouncer {
            $(#[tokio::test] async fn $rule() { super::run(super::Mode::Pooled, super::bodies::$rule).await; })*
        }
    };
}

in_every_mode! {
    jobs_that_wait_and_jobs_that_come_are_picked_up,
    a_failed_job_is_tried_again_and_discarded_in_the_end,
    a_scheduled_job_starts_when_it_is_due,
    a_snoozed_job_comes_back,
    a_running_job_that_is_cancelled_is_told,
    a_paused_queue_rests_until_it_is_resumed,
    a_stop_finishes_what_runs_and_leaves_the_rest,
    effects_commit_with_their_completion_exactly_once,
    the_jobs_of_a_dead_runner_come_back,
    final_jobs_are_pruned,
    jobs_that_the_database_refuses_to_change_hold_up_no_other,
    inserts_of_every_sort_mean_the_same,
    a_wait_for_a_rival_is_bounded_and_leaves_no_bound_behind,
    changes_by_hand_change,
    migrations_and_explanations_work,
}

async fn run(mode: Mode, body: impl AsyncFnOnce(&Ground)) {
    if let Some(ground) = Ground::new(mode).await {
        body(&ground).await;
        ground.database.end().await;
    }
}
