//! The counterpart of working: each connection fetches a thousand jobs, and ends them, in a loop.

use std::sync::Arc;
use std::time::Instant;

use sqlx::types::Json;
use sqlx::{AssertSqlSafe, PgConnection, Row, SqlSafeStr, SqlStr};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::counter::Counter;
use super::ground::{Ground, RUNNERS_SETTINGS};
use super::insert::join;
use super::interrupted;
use super::job::NoOp;
use super::meter::{Measure, Meter};
use super::work::{Keep, Works, check, waiting};
use crate::failure::Failure;

/// How many jobs a connection takes at a time.
const FETCH: i64 = 1_000;

/// Works with plain SQL.
pub(super) async fn theirs(ground: &mut Ground, works: Works) -> Result<Measure, Failure> {
    works.prepare(ground).await?;
    let waiting = waiting(ground).await?;
    let shared = |text: &str| AssertSqlSafe(Arc::<str>::from(ground.sql(text).0)).into_sql_str();
    let fetch = shared(include_str!("sql/fetch.sql"));
    let finish = shared(match works.keep {
        Keep::Rows => include_str!("sql/complete.sql"),
        Keep::Nothing => include_str!("sql/delete.sql"),
    });
    let mut connections = ground.connections(works.connections).await?;
    for connection in &mut connections {
        sqlx::raw_sql(RUNNERS_SETTINGS).execute(connection).await?;
    }
    let snapshot = works.snapshot(ground).await?;
    let counter = Arc::new(Counter::new(works.n));
    let mut tasks = JoinSet::new();
    let meter = Meter::start(ground).await?;
    let begun_at = Instant::now();
    for mut connection in connections {
        let (fetch, finish, interrupt) = (fetch.clone(), finish.clone(), ground.interrupt.clone());
        let (counter, worker) = (Arc::clone(&counter), Uuid::now_v7());
        tasks.spawn(async move {
            while counter.done() < works.n {
                if interrupt.is_cancelled() {
                    return Err(interrupted());
                }
                let work = |job: NoOp| counter.count(std::hint::black_box(job).n);
                let ids = fetch_jobs(&mut connection, &fetch, worker, work).await?;
                if ids.is_empty() {
                    break;
                }
                sqlx::query(finish.clone()).bind(ids).execute(&mut connection).await?;
            }
            Ok(())
        });
    }
    join(tasks).await?;
    let done = counter.jobs();
    let mut measure = meter.stop(ground, done.count).await?;
    measure.tenths = counter.tenths(begun_at);
    drop(snapshot);
    check(ground, waiting, done, works.keep).await?;
    Ok(measure)
}

/// Fetches, and gives `work` what a worker would need. Answers with the ids.
pub(super) async fn fetch_jobs(
    connection: &mut PgConnection,
    fetch: &SqlStr,
    worker: Uuid,
    mut work: impl FnMut(NoOp),
) -> Result<Vec<Uuid>, Failure> {
    let rows = sqlx::query(fetch.clone()).bind("bench").bind(FETCH).bind(worker).fetch_all(connection).await?;
    let mut ids = Vec::with_capacity(rows.len());
    for row in rows {
        let Json(args) = row.try_get(1)?;
        work(args);
        ids.push(row.try_get(0)?);
    }
    Ok(ids)
}
