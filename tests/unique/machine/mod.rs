//! The state machine under random changes: every mask, every policy, every transition. One test goes step by step
//! against a model of the rules, the other uses many concurrent connections.
//!
//! Set `UNIQUEUE_MACHINE_SEED` to repeat a run and `UNIQUEUE_MACHINE_SECONDS`, or `UNIQUEUE_SOAK`, to make it longer.

mod contests;
mod crowd;
mod model;
mod moves;

use support::prelude::*;

/// The seed of this run: given, or new and printed when the test fails.
fn seed() -> u64 {
    let seed = match std::env::var("UNIQUEUE_MACHINE_SEED") {
        Ok(given) => given.parse().expect("UNIQUEUE_MACHINE_SEED is a number"),
        Err(_) => uuid::Uuid::now_v7().as_u64_pair().1 >> 16,
    };
    println!("UNIQUEUE_MACHINE_SEED={seed}");
    seed
}

/// The states to which an operator moves a job.
fn not_running() -> Vec<JobState> {
    JobState::ALL.into_iter().filter(|state| *state != JobState::Running).collect()
}

/// How long a part of the test may go on.
fn length(usual: Duration, in_full: Duration) -> Duration {
    match std::env::var("UNIQUEUE_MACHINE_SECONDS") {
        Ok(given) => Duration::from_secs(given.parse().expect("UNIQUEUE_MACHINE_SECONDS is a number")),
        Err(_) => soak(usual, in_full),
    }
}

/// Looks without end for a key that two jobs claim, and panics at one.
pub(crate) async fn watch_claims(database: Arc<Database>) {
    let claims = database.sql(CLAIMS);
    let mut connection = database.pool().acquire().await.unwrap();
    loop {
        if let Some(row) = sqlx::query(claims.clone()).fetch_optional(&mut *connection).await.unwrap() {
            let (key, marked, claiming): (String, i64, i64) = (row.get(0), row.get(1), row.get(2));
            panic!("{key} is claimed by {marked} rows by their mark, by {claiming} by their mask");
        }
    }
}

/// Keys that more than one row claims: by the generated column, and by R1's own words.
const CLAIMS: &str = "
SELECT
    j.unique_key,
    count(*) FILTER (WHERE j.claims),
    count(*) FILTER (
        WHERE NOT j.unique_yielded
            AND j.state::text = ANY ({schema}.state_names(j.unique_states))
            AND (j.unique_until IS NULL OR j.unique_until > now())
    )
FROM {schema}.job AS j
WHERE j.unique_key IS NOT NULL
GROUP BY j.unique_key
HAVING count(*) FILTER (WHERE j.claims) > 1
    OR count(*) FILTER (
        WHERE NOT j.unique_yielded
            AND j.state::text = ANY ({schema}.state_names(j.unique_states))
            AND (j.unique_until IS NULL OR j.unique_until > now())
    ) > 1";
