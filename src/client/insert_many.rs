//! Inserting many jobs.

use std::collections::HashMap;
use std::future::{Future, IntoFuture};
use std::iter;
use std::pin::Pin;
use std::time::Duration;

use sqlx::PgConnection;

use super::Client;
use super::flights::Flights;
use super::middleware::NextInsert;
use super::prepare::{Batch, Layered, prepare};
use crate::error::{Error, Rejection, Result};
use crate::event::Event;
use crate::ident::JobId;
use crate::job::{Inserted, NewJob};
use crate::metrics;
use crate::store::{self, Answer, Entered, Look, NewRow, Outcome, Quick};
#[cfg(feature = "opentelemetry")]
use crate::trace;

/// So many jobs whose keys are probably free are not looked for before they are inserted in a transaction of their own. A
/// duplicate among them costs as much again, and leaves them once as dead rows.
const MANY: usize = 100;

/// How long such jobs wait for somebody's open transaction before they are sent as others are, which look first and
/// take keys in one order. By default PostgreSQL looks for a deadlock after a second (`deadlock_timeout`).
const PATIENCE: Duration = Duration::from_millis(20);

/// A batch of inserts, to be awaited. Made by [`Client::insert_many`].
///
/// A batch means what inserting its jobs one after another would mean, in one statement (at most three, where it was
/// tried in a quicker way and met somebody): equal keys
/// fold (under `ignore` onto the first, under `replace` the last one lives). Answers come in input
/// order, one an input. It is all or nothing: under `reject` the error names every duplicate and
/// nothing is inserted. Two batches never deadlock: keys are taken in one fixed order. (At most 2,000 jobs that are
/// probably all new are first tried in their own order, and give up rather than wait for longer than 20 ms. Two
/// *transactions* that each insert several batches can deadlock, as with any rows.)
///
/// # Errors
///
/// As for [`Insert`](super::Insert).
///
/// # Limits
///
/// The whole batch travels as one message, which PostgreSQL limits to 1 GB.
#[derive(Debug)]
#[must_use = "an insert does nothing until it is awaited"]
pub struct InsertMany<'a> {
    client: &'a Client,
    connection: Option<&'a mut PgConnection>,
    max_wait: Option<Duration>,
    pub(super) jobs: Vec<NewJob>,
}

impl<'a> InsertMany<'a> {
    pub(super) const fn new(client: &'a Client, jobs: Vec<NewJob>) -> Self {
        Self { client, connection: None, max_wait: None, jobs }
    }

    /// Inserts in the caller's own transaction, or on any connection of the caller's.
    pub fn tx(mut self, connection: &'a mut PgConnection) -> Self {
        self.connection = Some(connection);
        self
    }

    /// Waits no longer than this for each uncommitted rival with the same key. Default: for ever,
    /// or the connection's `lock_timeout`.
    pub fn max_wait(mut self, max_wait: Duration) -> Self {
        self.max_wait = Some(max_wait);
        self
    }
}

impl<'a> IntoFuture for InsertMany<'a> {
    type Output = Result<Vec<Inserted>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self { client, connection, max_wait, jobs } = self;
            #[cfg(feature = "opentelemetry")]
            let jobs = {
                let mut jobs = jobs;
                trace::carry(&mut jobs);
                jobs
            };
            let sending = Sending { client, connection, max_wait };
            let middleware = client.insert_middleware();
            if middleware.is_empty() || jobs.is_empty() {
                return sending.send(jobs).await;
            }
            // A box for each branch that is rarely taken: the future of an insert is as large as its largest part.
            Box::pin(NextInsert { sending, middleware }.run(jobs)).await
        })
    }
}

/// Where an insert goes, and how long it waits.
pub(super) struct Sending<'a> {
    client: &'a Client,
    connection: Option<&'a mut PgConnection>,
    max_wait: Option<Duration>,
}

impl Sending<'_> {
    /// Inserts, and tells of it.
    pub(super) async fn send(self, jobs: Vec<NewJob>) -> Result<Vec<Inserted>> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let Self { client, connection, max_wait } = self;
        let answers = match connection {
            Some(connection) => Box::pin(insert_on(client, connection, jobs, max_wait, Look::First)).await?,
            None if max_wait.is_none() && jobs.len() == 1 => insert_single(client, jobs).await?,
            None => Box::pin(insert_own(client, jobs, max_wait)).await?,
        };
        metrics::inserted(&answers);
        let bus = client.bus();
        if bus.is_heard() {
            answers.iter().for_each(|answer| bus.tell(Event::of_insert(answer)));
        }
        Ok(answers)
    }
}

/// Inserts one job, together with others that come at the same time where that is possible.
async fn insert_single(client: &Client, jobs: Vec<NewJob>) -> Result<Vec<Inserted>> {
    let layered = Layered::new(client, jobs);
    let now = if layered.needs_clock() {
        let asking = async { store::database_time(&mut *client.connection().await?, client.statements()).await };
        Some(Box::pin(asking).await?)
    } else {
        None
    };
    match layered.shared(now)? {
        Ok(row) => Ok(vec![Flights::insert(client, row).await?]),
        Err(batch) => {
            Box::pin(async { insert_rows(client, &mut *client.connection().await?, batch, None).await }).await
        }
    }
}

/// Inserts in a transaction of its own.
async fn insert_own(client: &Client, jobs: Vec<NewJob>, max_wait: Option<Duration>) -> Result<Vec<Inserted>> {
    let look = if jobs.len() < MANY { Look::First } else { Look::Never };
    insert_on(client, &mut *client.connection().await?, jobs, max_wait, look).await
}

/// Inserts over a connection, which may be in a transaction of the caller's.
async fn insert_on(
    client: &Client,
    connection: &mut PgConnection,
    jobs: Vec<NewJob>,
    max_wait: Option<Duration>,
    look: Look,
) -> Result<Vec<Inserted>> {
    let batch = prepare(client, connection, jobs).await?;
    if batch.is_plain() {
        return insert_rows(client, connection, batch, max_wait).await;
    }
    let sent = batch.rows.len();
    if max_wait.is_none() && batch.may_be_new() && client.outlook().are_free(sent) {
        // One alone can wait for its rival here as well as anywhere.
        let patience = (sent > 1).then_some(PATIENCE);
        let rows = batch.rows.iter().collect();
        let entered = store::insert_new(connection, client.statements(), rows, patience, look).await;
        client.outlook().tried(sent, matches!(entered, Ok(Some(_))));
        if let Some(entered) = entered? {
            return Ok(enter(batch.rows, iter::repeat_n(entered, sent)));
        }
    }
    let answers = insert_rows(client, connection, batch, max_wait).await?;
    let met = |answer: &&Inserted| answer.duplicate || answer.replaced.is_some();
    client.outlook().note(answers.len(), answers.iter().filter(met).count());
    Ok(answers)
}

/// The answers for rows that are in.
fn enter(rows: Vec<NewRow>, entered: impl IntoIterator<Item = Entered>) -> Vec<Inserted> {
    rows.into_iter().zip(entered).map(|(row, entered)| Inserted::of_new(row.into_job(entered))).collect()
}

/// Sends rows, and makes results, one an input, of the database's answers.
pub(super) async fn insert_rows(
    client: &Client,
    connection: &mut PgConnection,
    batch: Batch,
    max_wait: Option<Duration>,
) -> Result<Vec<Inserted>> {
    let statements = client.statements();
    if batch.is_plain() {
        let entered = store::insert_plain(connection, statements, &batch.rows).await?;
        return Ok(enter(batch.rows, entered));
    }
    let folded = batch.folded();
    let Batch { rows, mut in_order, leaders, .. } = batch;
    // Where each row can be settled by a look, that is all it takes.
    if !in_order && max_wait.is_none() {
        let quick = match rows.len() {
            1 => store::insert_each(connection, statements, &rows, None, folded.as_deref()).await?,
            _ => store::insert_all(connection, statements, &rows, folded.as_deref()).await?,
        };
        if !quick.iter().any(|quick| matches!(quick, Quick::Open)) {
            let answers: Vec<_> = rows.into_iter().zip(quick).map(|(row, quick)| Answer::of(row, quick)).collect();
            return settle(answers, &[], &leaders, None);
        }
        in_order = true;
    }
    let ids: Vec<_> = rows.iter().map(|row| row.id).collect();
    let answers = store::insert_unique(connection, statements, rows, in_order, max_wait, folded).await?;
    settle(answers, &ids, &leaders, max_wait)
}

/// Sends rows of many callers, each for itself. `None`: the input's key takes a statement of its own.
pub(super) async fn insert_shared(
    client: &Client,
    connection: &mut PgConnection,
    batch: Batch,
    patience: Duration,
) -> Result<Vec<Option<Inserted>>> {
    if batch.in_order {
        let inserted = insert_rows(client, connection, batch, Some(patience)).await?;
        return Ok(inserted.into_iter().map(Some).collect());
    }
    let folded = batch.folded();
    let Batch { rows, leaders, .. } = batch;
    let quick = store::insert_each(connection, client.statements(), &rows, Some(patience), folded.as_deref()).await?;
    Ok(deal(rows.into_iter().zip(quick).map(|(row, quick)| Answer::of(row, quick)).collect(), &leaders))
}

/// What inserts of these keys come to, if all of them are held. `None`: not all are, as far as a look tells.
pub(super) async fn look(
    client: &Client,
    connection: &mut PgConnection,
    keys: &[&str],
) -> Result<Option<Vec<Inserted>>> {
    let held = store::held(connection, client.statements(), keys).await?;
    if held.is_empty() {
        client.outlook().looked_in_vain();
    }
    let place_of: HashMap<_, _> =
        held.iter().enumerate().map(|(place, (job, _))| (job.unique_key.as_deref(), place)).collect();
    let leaders: Option<Vec<_>> = keys.iter().map(|key| place_of.get(&Some(*key)).copied()).collect();
    let answers = held.into_iter().map(|(job, at)| Some(Answer::of_holder(job, at))).collect();
    Ok(leaders.and_then(|leaders| deal(answers, &leaders).into_iter().collect()))
}

/// Turns the database's answers, one a row sent, into results, one an input.
fn settle(
    answers: Vec<Option<Answer>>,
    ids: &[JobId],
    leaders: &[usize],
    max_wait: Option<Duration>,
) -> Result<Vec<Inserted>> {
    let is = |wanted: Outcome| move |answer: &Option<Answer>| answer.as_ref().is_some_and(|a| a.outcome == wanted);
    if answers.iter().any(is(Outcome::Busy)) {
        return Err(Error::Busy { waited: max_wait.unwrap_or_default() });
    }
    if answers.iter().any(is(Outcome::Rejected)) {
        let place_of: HashMap<_, _> = ids.iter().enumerate().map(|(place, id)| (*id, place)).collect();
        let rejections = leaders.iter().enumerate().filter_map(|(index, leader)| {
            let answer = answers[*leader].as_ref()?;
            let duplicate = answer.job.as_ref()?.claim_at(answer.answered_at)?;
            let earlier = place_of.get(&duplicate.holder).copied();
            Some(Rejection::new(index, earlier, duplicate))
        });
        return Err(Error::Rejected(rejections.collect()));
    }
    deal(answers, leaders).into_iter().map(|inserted| inserted.ok_or_else(|| sqlx::Error::RowNotFound.into())).collect()
}

/// Gives every input the answer of the row that was sent for it. The first gets what became of the row;
/// those that were folded onto it are duplicates of it.
fn deal(mut answers: Vec<Option<Answer>>, leaders: &[usize]) -> Vec<Option<Inserted>> {
    let mut to_come = vec![0_usize; answers.len()];
    leaders.iter().for_each(|leader| to_come[*leader] += 1);
    let mut is_dealt = vec![false; answers.len()];
    let deal = |leader: &usize| {
        let leader = *leader;
        to_come[leader] -= 1;
        let is_first = !std::mem::replace(&mut is_dealt[leader], true);
        let answer = if to_come[leader] == 0 { answers[leader].take() } else { answers[leader].clone() }?;
        Some(Inserted {
            job: answer.job?,
            duplicate: !is_first || answer.outcome == Outcome::Duplicate,
            replaced: answer.replaced.filter(|_| is_first),
            answered_at: answer.answered_at,
        })
    };
    leaders.iter().map(deal).collect()
}
