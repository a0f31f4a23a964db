//! Latency with an idle runner.

use std::time::Instant;

use sqlx::{Connection, PgConnection};
use tokio::sync::mpsc;
use uniqueue::{Runner, RunningJob};

use crate::failure::Failure;
use crate::job::{Kind, NoOp};
use crate::latency::measure;
use crate::meter::Measure;
use crate::test_database::TestDatabase;

/// Inserts jobs one by one, and records when they start.
pub(crate) async fn run(database: &mut TestDatabase, n: u64, connections: u32) -> Result<Measure, Failure> {
    // As the counterpart does: what a pool does with a connection after the answer is no part of the latency.
    let mut own = PgConnection::connect(&database.url).await?;
    let client = database.client(connections).await?;
    let (started, starts) = mpsc::unbounded_channel();
    let worker = move |job: RunningJob<NoOp>| {
        let _ = started.send((job.args.n, Instant::now()));
        std::future::ready(())
    };
    let runner = Runner::new(client.clone()).name("uniqueue bench").queue("bench", 100).worker(worker).start().await?;
    let insert = async |number| {
        client.insert(Kind::PLAIN.job(number)).tx(&mut own).await?;
        Ok(())
    };
    let measured = measure(database, n, starts, insert).await;
    runner.stop().await?;
    client.pool().close().await;
    measured
}
