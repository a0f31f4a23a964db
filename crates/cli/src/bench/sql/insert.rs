//! The counterparts of the inserts: plain SQL, prepared, on connections of its own.

use std::ops::Range;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use sqlx::types::Json;
use sqlx::{AssertSqlSafe, Connection, PgConnection, SqlSafeStr, SqlStr};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::ground::Ground;
use super::insert::{Inserts, Way, join, wrong};
use super::interrupted;
use super::job::Numbers;
use super::meter::{Measure, Meter};
use crate::failure::Failure;

/// Inserts with plain SQL.
pub(super) async fn theirs(ground: &mut Ground, inserts: Inserts) -> Result<Measure, Failure> {
    let statement = statement(ground, inserts);
    let connections = ground.connections(inserts.connections).await?;
    if inserts.way == Way::Duplicate {
        let hot = Inserts { way: Way::Bulk(inserts.rows()), n: inserts.rows(), ..inserts };
        let statement = self::statement(ground, hot);
        insert(&mut ground.connection, &statement, hot, 0..hot.n).await?;
    }
    let numbers = Arc::new(Numbers::new(inserts.n));
    let mut tasks = JoinSet::new();
    let meter = Meter::start(ground).await?;
    for mut connection in connections {
        let (statement, numbers, interrupt) = (statement.clone(), Arc::clone(&numbers), ground.interrupt.clone());
        tasks.spawn(async move {
            while let Some(taken) = numbers.take(inserts.portion()) {
                if interrupt.is_cancelled() {
                    return Err(interrupted());
                }
                insert(&mut connection, &statement, inserts, taken).await?;
            }
            Ok(())
        });
    }
    join(tasks).await?;
    meter.stop(ground, inserts.n).await
}

fn statement(ground: &Ground, inserts: Inserts) -> SqlStr {
    let text = match (inserts.way, inserts.kind.keys) {
        (Way::Bulk(_), None) => include_str!("sql/insert_bulk.sql"),
        (Way::Bulk(_), Some(_)) => include_str!("sql/insert_bulk_unique.sql"),
        (Way::Tx | Way::Single, None) => include_str!("sql/insert_one.sql"),
        (Way::Tx | Way::Single, Some(_)) => include_str!("sql/insert_one_unique.sql"),
        (Way::Duplicate, _) => include_str!("sql/select_by_key.sql"),
    };
    // Shared, not copied, by everybody who sends it.
    AssertSqlSafe(Arc::<str>::from(ground.sql(text).0)).into_sql_str()
}

async fn insert(
    connection: &mut PgConnection,
    statement: &SqlStr,
    inserts: Inserts,
    taken: Range<u64>,
) -> Result<(), Failure> {
    let kind = inserts.kind;
    let key = |n: u64| kind.keys.map(|keys| key(n % keys));
    let query = sqlx::query(statement.clone());
    match inserts.way {
        Way::Bulk(_) => {
            let ids: Vec<Uuid> = taken.clone().map(|_| Uuid::now_v7()).collect();
            let args: Vec<_> = taken.clone().map(|n| Json(kind.args(n))).collect();
            let mut query = query.bind(ids).bind(args).bind(kind.priority);
            if kind.keys.is_some() {
                query = query.bind(taken.filter_map(key).collect::<Vec<String>>());
            }
            query.execute(connection).await?;
        }
        Way::Duplicate => {
            if query.bind(key(taken.start)).fetch_optional(connection).await?.is_none() {
                return Err(wrong("a job with a hot key is gone".to_owned()));
            }
        }
        Way::Tx | Way::Single => {
            let mut query = query.bind(Uuid::now_v7()).bind(Json(kind.args(taken.start))).bind(kind.priority);
            if let Some(key) = key(taken.start) {
                query = query.bind(key);
            }
            if inserts.way == Way::Tx {
                let mut tx = connection.begin().await?;
                query.execute(&mut *tx).await?;
                tx.commit().await?;
            } else {
                query.execute(connection).await?;
            }
        }
    }
    Ok(())
}

/// As long, and as evenly spread over the index, as the keys that the client makes.
fn key(n: u64) -> String {
    Sha256::digest(n.to_string()).iter().fold(String::with_capacity(64), |mut text, byte| {
        text.push(char::from(b"0123456789abcdef"[usize::from(byte >> 4)]));
        text.push(char::from(b"0123456789abcdef"[usize::from(byte & 15)]));
        text
    })
}
