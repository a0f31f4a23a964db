//! Sifting: does for all other jobs what the database refuses to do for one.
//!
//! A row that cannot be changed (a trigger's error, a foreign key of the application's, a damaged page) fails the
//! statement of a whole batch, and would each time, for everybody. So then the jobs of the batch are looked for, and the
//! statement is run for a part of them, by halves, down to single jobs. What is refused alone is named in the log.
//!
//! Where many jobs are refused, to find each costs a statement or two. So after some refusals in a row only larger parts
//! are divided, until one is done: a smaller one that is refused is left for the next time. Which half comes first is left
//! to chance, so that the same jobs do not hide the same others each time.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::time::{Duration, Instant};

use sqlx::PgConnection;
use uuid::Uuid;

use super::Holder;
use super::connection::Session;
use crate::error::{Error, Result};
use crate::store::Statements;

/// After so many refusals in a row of what was not to be divided, what is to be divided must be so many times as large.
const ENOUGH: u32 = 16;
const COARSER: usize = 8;

/// No part is begun later than this, since the turn must end in time.
const LONGEST: Duration = Duration::from_secs(2);

/// How long a job that was refused is not tried again, or not named again at least.
const ASIDE: Duration = Duration::from_secs(600);

/// The rest after a sifting that did nothing and left something.
const REST: Duration = Duration::from_secs(1);

/// So many jobs are named in one line of the log.
const NAMED: usize = 20;

/// What a service does to jobs, in one statement.
pub(super) trait Step: Sync {
    /// What it does, for the log.
    const DOES: &'static str;
    type Done: Send;

    /// Does it for the jobs that it finds, or `only` for some of them.
    fn run(
        &self,
        connection: &mut PgConnection,
        statements: &Statements,
        only: Option<&[Uuid]>,
    ) -> impl Future<Output = Result<Self::Done>> + Send;

    /// For how many jobs it was done.
    fn count(done: &Self::Done) -> usize;
}

/// Runs a step for the jobs that it finds. `None`: it must be sifted, since the database refuses it for the sake of one
/// of them, or would, since some are aside; or since it `is_single`, and one that takes too long is to be left out.
pub(super) async fn run_whole<S: Step>(
    holder: &Holder,
    step: &S,
    aside: &[Uuid],
    is_single: bool,
) -> Result<Option<S::Done>> {
    if is_single || !aside.is_empty() {
        return Ok(None);
    }
    match run(holder, step, None).await {
        Err(error) if is_refusal(&error) => Ok(None),
        done => done.map(Some),
    }
}

async fn run<S: Step>(holder: &Holder, step: &S, only: Option<&[Uuid]>) -> Result<S::Done> {
    let session = holder.connection.session().await?;
    run_in(session, &holder.statements, step, only).await
}

/// Runs a step in a session, and ends that: only then it counts.
pub(super) async fn run_in<S: Step>(
    mut session: Session,
    statements: &Statements,
    step: &S,
    only: Option<&[Uuid]>,
) -> Result<S::Done> {
    let done = step.run(session.connection(), statements, only).await?;
    session.end().await?;
    Ok(done)
}

/// Whether the server said no to a statement, perhaps for the sake of a single row, and would again. What passes by itself,
/// such as a deadlock or a lock that somebody has, does not count.
pub(super) fn is_refusal(error: &Error) -> bool {
    let is_said = matches!(error, Error::Database(sqlx::Error::Database(said)) if said.code().is_some());
    is_said && !error.is_of_server() && !error.is_retryable() && !error.is_mix_up() && !error.is_unheard()
}

/// What a sifting came to.
#[derive(Debug)]
pub(super) struct Sifted<T> {
    pub(super) done: Vec<T>,
    /// Whether some jobs are left that may be refused or not.
    pub(super) is_cut: bool,
    /// What ended it before its time: nothing that is the matter of single jobs. What is done counts all the same.
    pub(super) failed: Option<Error>,
}

/// Runs a step for these jobs, part by part where it must be. What is refused alone is aside then.
pub(super) async fn sift<S: Step>(holder: &Holder, step: &S, ids: Vec<Uuid>, aside: &mut Aside) -> Sifted<S::Done> {
    let began = Instant::now();
    let mut sifted = Sifted { done: Vec::new(), is_cut: false, failed: None };
    let mut refused = Vec::new();
    let (mut in_a_row, mut was_asked_for_none) = (0, false);
    // The next part is the last.
    let mut parts = vec![ids];
    while let Some(part) = parts.pop() {
        if began.elapsed() > LONGEST {
            sifted.is_cut = true;
            break;
        }
        let error = match run(holder, step, Some(&part)).await {
            Ok(done) => {
                if S::count(&done) > 0 {
                    in_a_row = 0;
                }
                sifted.done.push(done);
                continue;
            }
            Err(error) => error,
        };
        let takes_too_long = part.len() == 1 && error.is_statement_timeout();
        // A statement that is refused for no job at all is so for something else: a privilege, or a server that takes no
        // writes.
        let is_of_jobs = (is_refusal(&error) || takes_too_long) && !part.is_empty();
        if is_of_jobs && !std::mem::replace(&mut was_asked_for_none, true) {
            match run(holder, step, Some(&[])).await {
                Ok(done) => sifted.done.push(done),
                Err(error) => {
                    sifted.failed = Some(error);
                    break;
                }
            }
        }
        if !is_of_jobs {
            sifted.failed = Some(error);
            break;
        }
        if part.len() > COARSER.saturating_pow(in_a_row / ENOUGH) {
            parts.extend(halves(part));
            continue;
        }
        in_a_row += 1;
        if let [id] = *part {
            refused.push((id, error.to_string()));
        } else {
            sifted.is_cut = true;
        }
    }
    aside.put(S::DOES, refused);
    sifted
}

/// How long to rest after a sifting, where there may be jobs behind those that were refused. `None`: as ever.
pub(super) fn rest(is_something_left: bool, has_done_something: bool) -> Option<Duration> {
    is_something_left.then_some(if has_done_something { Duration::ZERO } else { REST })
}

/// A part in two, in an order that is left to chance.
fn halves(mut part: Vec<Uuid>) -> [Vec<Uuid>; 2] {
    let second = part.split_off(part.len() / 2);
    // The low bits of a UUIDv7 are random, which saves a dependency.
    if Uuid::now_v7().as_u128() & 1 == 0 { [part, second] } else { [second, part] }
}

fn named(ids: &[Uuid]) -> String {
    let named: Vec<_> = ids.iter().take(NAMED).map(Uuid::to_string).collect();
    let more = ids.len() - named.len();
    let and_more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{and_more}", named.join(", "))
}

/// The jobs that were refused, each until it is tried again.
#[derive(Debug, Default)]
pub(super) struct Aside(HashMap<Uuid, Instant>);

impl Aside {
    /// Those that are left out now.
    pub(super) fn ids(&mut self, now: Instant) -> Vec<Uuid> {
        self.0.retain(|_, until| *until > now);
        self.0.keys().copied().collect()
    }

    /// Names those that are new, a line for all of which the database says the same.
    fn put(&mut self, does: &str, refused: Vec<(Uuid, String)>) {
        let now = Instant::now();
        self.0.retain(|_, until| *until > now);
        let mut said: BTreeMap<String, Vec<Uuid>> = BTreeMap::new();
        for (id, error) in refused {
            if self.0.insert(id, now + ASIDE).is_none() {
                said.entry(error).or_default().push(id);
            }
        }
        for (error, ids) in said {
            let jobs = named(&ids);
            tracing::warn!(%jobs, %error, "the database refuses to {does} jobs: they are left out for a while");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_the_whole() {
        for count in 2..10_u128 {
            let ids: Vec<_> = (0..count).map(Uuid::from_u128).collect();
            let mut parts = halves(ids.clone()).to_vec();
            assert!(parts.iter().all(|part| !part.is_empty() && part.is_sorted()), "{parts:?}");
            parts.sort();
            assert_eq!(parts.concat(), ids);
        }
    }

    #[test]
    fn a_job_is_left_out_for_a_while() {
        let mut aside = Aside::default();
        aside.put("test", vec![(Uuid::max(), "no".to_owned())]);
        assert_eq!(aside.ids(Instant::now()), [Uuid::max()]);
        assert!(aside.ids(Instant::now() + ASIDE).is_empty());
    }
}
