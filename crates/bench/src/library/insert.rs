//! Inserting, as an application does it with the client.

use std::ops::Range;
use std::sync::Arc;

use sqlx::{Connection, PgConnection};
use tokio::task::JoinSet;
use uniqueue::{Client, Runner, RunnerHandle, RunningJob};

use crate::failure::Failure;
use crate::failures::wrong;
use crate::insert::{Call, HOLDERS_BATCH, Insert, WakeUp};
use crate::job::{Kind, NoOp};
use crate::meter::{Measure, Meter};
use crate::tasks::{Numbers, join};
use crate::test_database::TestDatabase;

/// Inserts with the client.
pub(crate) async fn run(database: &mut TestDatabase, insert: Insert) -> Result<Measure, Failure> {
    let client = database.client(insert.connections).await?;
    insert_holders(database, &client, insert.kind).await?;
    // A caller's transaction runs on the caller's connection.
    let own = match insert.call {
        Call::Transaction => database.connections(insert.connections).await?,
        Call::Bulk(_) | Call::Single => Vec::new(),
    };
    let mut own = own.into_iter();
    let numbers = Arc::new(Numbers::new(insert.n, &database.interrupt));
    let runner = match insert.runner {
        Some(wake_up) => {
            let client = database.client(2).await?;
            Some((start(client.clone(), wake_up).await?, client))
        }
        None => None,
    };
    let mut tasks = JoinSet::new();
    let meter = Meter::start(database).await?;
    for _ in 0..insert.tasks {
        let (client, numbers) = (client.clone(), Arc::clone(&numbers));
        let mut connection = own.next();
        tasks.spawn(async move {
            while let Some(taken) = numbers.take(insert.call.batch_size())? {
                send(&client, connection.as_mut(), insert, taken).await?;
            }
            Ok(())
        });
    }
    join(tasks).await?;
    let measure = meter.stop(database, insert.n).await?;
    if let Some((runner, client)) = runner {
        runner.stop().await?;
        client.pool().close().await;
    }
    client.pool().close().await;
    Ok(measure)
}

/// Inserts the jobs that hold keys before the run.
async fn insert_holders(database: &mut TestDatabase, client: &Client, kind: Kind) -> Result<(), Failure> {
    let numbers = Numbers::new(kind.keys.held(), &database.interrupt);
    while let Some(held) = numbers.take(HOLDERS_BATCH)? {
        client.insert_many(held.map(|number| kind.job(number))).await?;
    }
    if kind.keys.held() > 0 {
        database.execute("ANALYZE /* schema */job").await?;
    }
    Ok(())
}

/// Starts a runner, which is idle when the clock starts.
async fn start(client: Client, wake_up: WakeUp) -> Result<RunnerHandle, Failure> {
    let runner = Runner::new(client).name("uniqueue bench").queue("bench", 100);
    let runner = runner.worker(|_: RunningJob<NoOp>| std::future::ready(()));
    let runner = match wake_up {
        WakeUp::Notification => runner,
        WakeUp::Polling => runner.poll_only(),
    };
    Ok(runner.start().await?)
}

async fn send(
    client: &Client,
    connection: Option<&mut PgConnection>,
    insert: Insert,
    taken: Range<u64>,
) -> Result<(), Failure> {
    let (kind, keys) = (insert.kind, insert.kind.keys);
    let number = keys.number(taken.start);
    let answer = match (insert.call, connection) {
        (Call::Bulk(_), _) => {
            client.insert_many(taken.map(|n| kind.job(keys.number(n)))).await?;
            return Ok(());
        }
        (Call::Transaction, Some(connection)) => {
            let mut tx = connection.begin().await?;
            let answer = client.insert(kind.job(number)).tx(&mut tx).await?;
            tx.commit().await?;
            answer
        }
        (Call::Transaction | Call::Single, _) => client.insert(kind.job(number)).await?,
    };
    if number < keys.held() && !answer.duplicate {
        return Err(wrong(format!("job {} was inserted, although its key was taken", answer.id())));
    }
    Ok(())
}
