//! Latency with SQL: one connection listens, and another fetches at each notification.

use std::time::Instant;

use sqlx::PgConnection;
use sqlx::postgres::PgListener;
use sqlx::types::Json;
use tokio::sync::mpsc::{self, UnboundedSender};
use uuid::Uuid;

use super::work::Worker;
use crate::delays::Start;
use crate::failure::Failure;
use crate::failures::wrong;
use crate::job::{Kind, NoOp};
use crate::latency::measure;
use crate::meter::Measure;
use crate::test_database::TestDatabase;
use crate::work::Work;

/// Inserts jobs one by one, and records when they are fetched.
pub(crate) async fn run(database: &mut TestDatabase, n: u64, work: Work) -> Result<Measure, Failure> {
    let statement = database.statement(include_str!("insert_notify.sql"));
    let worker = Worker::new(database, &work);
    let mut connections = database.connections(2).await?;
    let (Some(mut inserting), Some(working)) = (connections.pop(), connections.pop()) else {
        return Err(wrong("two connections should be open".to_owned()));
    };
    let mut listener = PgListener::connect(&database.url).await?;
    listener.listen("uniqueue_bench").await?;
    let (started, starts) = mpsc::unbounded_channel();
    let insert = async |number| {
        let query = sqlx::query(statement.clone()).bind(Uuid::now_v7()).bind(Json(Kind::PLAIN.args(number)));
        query.bind(Kind::PLAIN.priority).execute(&mut inserting).await?;
        Ok(())
    };
    tokio::select! {
        measured = measure(database, n, starts, insert) => measured,
        Err(failure) = listen(listener, working, worker, started) => Err(failure),
    }
}

/// Works the jobs of each notification, until something fails.
async fn listen(
    mut listener: PgListener,
    mut connection: PgConnection,
    worker: Worker,
    started: UnboundedSender<Start>,
) -> Result<(), Failure> {
    loop {
        listener.recv().await?;
        let start = |job: NoOp| {
            let _ = started.send((job.n, Instant::now()));
        };
        worker.work(&mut connection, start).await?;
    }
}
