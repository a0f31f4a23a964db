//! Inserting, as an application does it with the client.

use std::ops::Range;
use std::sync::Arc;

use sqlx::{Connection, PgConnection};
use tokio::task::JoinSet;
use uniqueue::{Client, Runner, RunnerHandle, RunningJob};

use super::ground::Ground;
use super::interrupted;
use super::job::{Kind, NoOp, Numbers};
use super::meter::{Measure, Meter};
use crate::failure::Failure;

/// What is inserted, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inserts {
    pub(super) way: Way,
    pub(super) kind: Kind,
    pub(super) n: u64,
    /// Tasks that insert at once. Plain SQL has one for each connection.
    pub(super) tasks: usize,
    pub(super) connections: u32,
    /// A runner that works the jobs meanwhile.
    pub(super) beside: Option<Beside>,
}

/// How a runner hears of jobs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Beside {
    Listening,
    Polling,
}

/// How jobs come in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Way {
    /// So many in one call.
    Bulk(u64),
    /// One in each transaction of the caller's, on the caller's connection.
    Tx,
    /// One in each call, without a transaction.
    Single,
    /// The same, of keys that are all taken.
    Duplicate,
}

impl Inserts {
    /// How many rows there are afterwards.
    pub(super) fn rows(&self) -> u64 {
        self.kind.keys.map_or(self.n, |keys| keys.min(self.n))
    }

    /// How many jobs a task takes at a time.
    pub(super) const fn portion(&self) -> u64 {
        match self.way {
            Way::Bulk(size) => size,
            Way::Tx | Way::Single | Way::Duplicate => 1,
        }
    }
}

/// Inserts with the client.
pub(super) async fn ours(ground: &mut Ground, inserts: Inserts) -> Result<Measure, Failure> {
    let kind = inserts.kind;
    let client = ground.client(inserts.connections).await?;
    if inserts.way == Way::Duplicate {
        client.insert_many((0..inserts.rows()).map(|n| kind.job(n))).await?;
    }
    // In the caller's transaction the connections are the caller's.
    let own = if inserts.way == Way::Tx { ground.connections(inserts.connections).await? } else { Vec::new() };
    let mut own = own.into_iter();
    let numbers = Arc::new(Numbers::new(inserts.n));
    let runner = match inserts.beside {
        Some(beside) => {
            let client = ground.client(2).await?;
            Some((start(client.clone(), beside).await?, client))
        }
        None => None,
    };
    let mut tasks = JoinSet::new();
    let meter = Meter::start(ground).await?;
    for _ in 0..inserts.tasks {
        let (client, numbers, interrupt) = (client.clone(), Arc::clone(&numbers), ground.interrupt.clone());
        let mut connection = own.next();
        tasks.spawn(async move {
            while let Some(taken) = numbers.take(inserts.portion()) {
                if interrupt.is_cancelled() {
                    return Err(interrupted());
                }
                insert(&client, connection.as_mut(), inserts, taken).await?;
            }
            Ok(())
        });
    }
    join(tasks).await?;
    let measure = meter.stop(ground, inserts.n).await?;
    if let Some((runner, client)) = runner {
        runner.stop().await?;
        client.pool().close().await;
    }
    client.pool().close().await;
    Ok(measure)
}

/// Starts a runner, which sleeps when the clock starts.
async fn start(client: Client, beside: Beside) -> Result<RunnerHandle, Failure> {
    let runner = Runner::new(client).name("uniqueue bench").queue("bench", 100);
    let runner = runner.worker(|_: RunningJob<NoOp>| std::future::ready(()));
    let runner = match beside {
        Beside::Listening => runner,
        Beside::Polling => runner.poll_only(),
    };
    Ok(runner.start().await?)
}

async fn insert(
    client: &Client,
    connection: Option<&mut PgConnection>,
    inserts: Inserts,
    taken: Range<u64>,
) -> Result<(), Failure> {
    let kind = inserts.kind;
    match (inserts.way, connection) {
        (Way::Bulk(_), _) => drop(client.insert_many(taken.map(|n| kind.job(n))).await?),
        (Way::Tx, Some(connection)) => {
            let mut tx = connection.begin().await?;
            client.insert(kind.job(taken.start)).tx(&mut tx).await?;
            tx.commit().await?;
        }
        (Way::Tx | Way::Single, _) => drop(client.insert(kind.job(taken.start)).await?),
        (Way::Duplicate, _) => {
            let answer = client.insert(kind.job(taken.start)).await?;
            if !answer.duplicate {
                return Err(wrong(format!("job {} was inserted, although its key was taken", answer.id())));
            }
        }
    }
    Ok(())
}

/// Waits for every task, or for the first failure.
pub(super) async fn join(mut tasks: JoinSet<Result<(), Failure>>) -> Result<(), Failure> {
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(|error| wrong(error.to_string()))??;
    }
    Ok(())
}

/// The bench measures nothing where the queue does wrong.
pub(super) fn wrong(problem: String) -> Failure {
    Failure::refused(
        format!("the bench found something wrong: {problem}"),
        "nobody else may use its schema; report this",
    )
}

/// Checks that every insert did what it should.
pub(super) async fn check(ground: &mut Ground, inserts: Inserts) -> Result<(), Failure> {
    let found = ground.count("SELECT count(*) FROM /* schema */job").await?;
    let expected = inserts.rows();
    if found == expected { Ok(()) } else { Err(wrong(format!("{expected} jobs inserted, {found} stored"))) }
}
