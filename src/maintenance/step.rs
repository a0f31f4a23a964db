//! A step of a service: one statement for a batch of jobs, by [bisection](crate::words::bisection) where the database refuses it.
//!
//! A row that cannot be changed (a trigger's error, a foreign key of the application's, a damaged page) fails the
//! statement for a whole batch, in every runner, each time. Then the step finds the ids of the batch, and its statement
//! runs for parts of them. A job that is refused alone is [set aside](super::set_aside).

use std::future::Future;
use std::time::{Duration, Instant};

use sqlx::PgConnection;
use uuid::Uuid;

use super::lease::Holder;
use super::set_aside::RefusedJobs;
use crate::error::{Error, Result};
use crate::store::Statements;
use crate::words::bisection::Bisection;

/// No part begins later than this after the first, since the run must end in time.
const LONGEST: Duration = Duration::from_secs(2);

/// The statement of a service.
pub(super) trait Step: Sync {
    /// Its effect on jobs as a verb, for the log.
    const VERB: &'static str;
    type Done: Send;

    /// Runs for the jobs that it finds, or `only` for some of them.
    fn run(
        &self,
        connection: &mut PgConnection,
        statements: &Statements,
        only: Option<&[Uuid]>,
    ) -> impl Future<Output = Result<Self::Done>> + Send;

    /// The jobs that a run finds, except those to skip.
    fn find(
        &self,
        connection: &mut PgConnection,
        statements: &Statements,
        skip: &[Uuid],
    ) -> impl Future<Output = Result<Vec<Uuid>>> + Send;

    /// How many jobs a run changed.
    fn count(done: &Self::Done) -> usize;
}

/// The result of a step.
#[derive(Debug)]
pub(super) struct Ran<T> {
    /// One for each statement that the database accepted.
    pub(super) done: Vec<T>,
    /// The jobs of the batch, where it was bisected.
    pub(super) found: Option<Vec<Uuid>>,
    /// Whether some jobs of the batch were not tried alone.
    pub(super) has_rest: bool,
    /// An error that is no refusal and ended the bisection early. The accepted statements count all the same.
    pub(super) failed: Option<Error>,
}

/// Runs a step once. It is bisected from the start where jobs are to be skipped, and where it `is_single`, so that one job
/// that takes too long is set aside.
pub(super) async fn run<S: Step>(
    holder: &Holder,
    step: &S,
    skip: &[Uuid],
    is_single: bool,
    aside: &mut RefusedJobs,
) -> Result<Ran<S::Done>> {
    if !is_single && skip.is_empty() {
        match run_part(holder, step, None).await {
            Err(error) if is_refusal(&error) => {
                // No job is set aside for what only this session refuses.
                if error.is_of_session() {
                    holder.connection.replace();
                }
            }
            done => return Ok(Ran { done: vec![done?], found: None, has_rest: false, failed: None }),
        }
    }
    let mut session = holder.connection.session().await?;
    let mut ids = step.find(session.connection(), &holder.statements, skip).await?;
    session.end().await?;
    // From either end, so that a block of refused jobs does not hide the same neighbours each time. The low bits of a
    // UUIDv7 are random, which saves a dependency.
    if Uuid::now_v7().as_u128() & 1 == 1 {
        ids.reverse();
    }
    let ran = bisect(holder, step, ids.clone(), aside).await;
    Ok(Ran { found: Some(ids), ..ran })
}

async fn bisect<S: Step>(holder: &Holder, step: &S, ids: Vec<Uuid>, aside: &mut RefusedJobs) -> Ran<S::Done> {
    let began = Instant::now();
    let mut bisection = Bisection::new(ids);
    let (mut done, mut refused, mut failed) = (Vec::new(), Vec::new(), None);
    let mut may_be_privilege = true;
    while let Some(part) = bisection.next_part() {
        if began.elapsed() > LONGEST {
            bisection.put_back(part);
            break;
        }
        let error = match run_part(holder, step, Some(&part)).await {
            Ok(ran) => {
                if S::count(&ran) > 0 {
                    bisection.accepted();
                }
                done.push(ran);
                continue;
            }
            Err(error) => error,
        };
        let takes_too_long = part.len() == 1 && error.is_statement_timeout();
        if part.is_empty() || !(is_refusal(&error) || takes_too_long) {
            failed = Some(error);
            break;
        }
        // A statement that is refused for no job at all is not refused for a job: a privilege is missing, or the server
        // takes no writes.
        if std::mem::take(&mut may_be_privilege) {
            match run_part(holder, step, Some(&[])).await {
                Ok(ran) => done.push(ran),
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        if let Some(id) = bisection.refused(part) {
            refused.push((id, error.to_string()));
        }
    }
    aside.add(S::VERB, refused);
    Ran { done, found: None, has_rest: !bisection.rest().is_empty(), failed }
}

/// Runs the statement in a session of its own. Its work counts once the session has ended.
async fn run_part<S: Step>(holder: &Holder, step: &S, only: Option<&[Uuid]>) -> Result<S::Done> {
    let mut session = holder.connection.session().await?;
    let done = step.run(session.connection(), &holder.statements, only).await?;
    session.end().await?;
    Ok(done)
}

/// Whether the server refused the statement, perhaps for a single row, and would again. An error that passes by itself,
/// such as a deadlock or a lock timeout, is none.
pub(super) fn is_refusal(error: &Error) -> bool {
    let is_said = matches!(error, Error::Database(sqlx::Error::Database(said)) if said.code().is_some());
    is_said && !error.is_of_server() && !error.is_retryable() && !error.is_mix_up() && !error.is_notify_queue_full()
}
