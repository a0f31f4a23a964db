//! The counterpart of latency: a connection that listens, and one that fetches when it is told.

use std::time::Instant;

use sqlx::postgres::PgListener;
use sqlx::types::Json;
use sqlx::{AssertSqlSafe, PgConnection, SqlSafeStr};
use tokio::sync::mpsc::{self, UnboundedSender};
use uuid::Uuid;

use super::bare_work::fetch_jobs;
use super::ground::Ground;
use super::insert::wrong;
use super::job::{Kind, NoOp};
use super::latency::{Start, measure};
use super::meter::Measure;
use crate::failure::Failure;

/// Inserts jobs one by one, and watches them fetched.
pub(super) async fn theirs(ground: &mut Ground, n: u64) -> Result<Measure, Failure> {
    let insert = AssertSqlSafe(ground.sql(include_str!("sql/insert_notify.sql")).0).into_sql_str();
    let fetch = AssertSqlSafe(ground.sql(include_str!("sql/fetch.sql")).0).into_sql_str();
    let finish = AssertSqlSafe(ground.sql(include_str!("sql/complete.sql")).0).into_sql_str();
    let mut connections = ground.connections(2).await?;
    let (Some(mut inserting), Some(working)) = (connections.pop(), connections.pop()) else {
        return Err(wrong("two connections were to be opened".to_owned()));
    };
    let mut listener = PgListener::connect(&ground.url).await?;
    listener.listen("uniqueue_bench").await?;
    let (started, starts) = mpsc::unbounded_channel();
    let worker = work(listener, working, fetch, finish, started);
    let inserting = async |number| {
        let query = sqlx::query(insert.clone()).bind(Uuid::now_v7()).bind(Json(Kind::PLAIN.args(number)));
        query.bind(Kind::PLAIN.priority).execute(&mut inserting).await?;
        Ok(())
    };
    tokio::select! {
        measured = measure(ground, n, starts, inserting) => measured,
        Err(failure) = worker => Err(failure),
    }
}

/// Works what it is told of, until something fails.
async fn work(
    mut listener: PgListener,
    mut connection: PgConnection,
    fetch: sqlx::SqlStr,
    finish: sqlx::SqlStr,
    started: UnboundedSender<Start>,
) -> Result<(), Failure> {
    let worker = Uuid::now_v7();
    loop {
        listener.recv().await?;
        let start = |job: NoOp| {
            let _ = started.send((job.n, Instant::now()));
        };
        let ids = fetch_jobs(&mut connection, &fetch, worker, start).await?;
        sqlx::query(finish.clone()).bind(ids).execute(&mut connection).await?;
    }
}
