//! Inserting with SQL: each connection sends one prepared statement in a loop.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use sqlx::types::Json;
use sqlx::{Connection, PgConnection, SqlStr};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::failure::Failure;
use crate::failures::wrong;
use crate::insert::{Call, HOLDERS_BATCH, Insert};
use crate::job::{Keys, Kind};
use crate::meter::{Measure, Meter};
use crate::statement::Statement;
use crate::tasks::{Numbers, join};
use crate::test_database::TestDatabase;

/// A duplicate is only looked up: less than that finds no duplicate.
const SELECT_BY_KEY: &str = include_str!("select_by_key.sql");

/// Inserts with SQL.
pub(crate) async fn run(database: &mut TestDatabase, insert: Insert) -> Result<Measure, Failure> {
    insert_holders(database, insert).await?;
    let inserter = Inserter::new(database, insert.call, insert.kind);
    let numbers = Arc::new(Numbers::new(insert.n, &database.interrupt));
    let connections = database.connections(insert.connections).await?;
    let mut tasks = JoinSet::new();
    let meter = Meter::start(database).await?;
    for mut connection in connections {
        let (inserter, numbers) = (inserter.clone(), Arc::clone(&numbers));
        tasks.spawn(async move {
            let keys = inserter.kind.keys;
            while let Some(taken) = numbers.take(insert.call.batch_size())? {
                inserter.send(&mut connection, taken.map(|n| keys.number(n)).collect()).await?;
            }
            Ok(())
        });
    }
    join(tasks).await?;
    meter.stop(database, insert.n).await
}

/// Inserts the jobs that hold keys before the run.
async fn insert_holders(database: &mut TestDatabase, insert: Insert) -> Result<(), Failure> {
    let held = insert.kind.keys.held();
    if held == 0 {
        return Ok(());
    }
    let kind = Kind { keys: Keys::Different(held), ..insert.kind };
    let inserter = Inserter::new(database, Call::Bulk(HOLDERS_BATCH), kind);
    let numbers = Numbers::new(held, &database.interrupt);
    while let Some(taken) = numbers.take(HOLDERS_BATCH)? {
        inserter.send(&mut database.connection, taken.collect()).await?;
    }
    database.execute("ANALYZE /* schema */job").await?;
    Ok(())
}

/// The statement of an insert, and what it is sent with.
#[derive(Clone)]
pub(crate) struct Inserter {
    statement: SqlStr,
    call: Call,
    kind: Kind,
}

impl Inserter {
    pub(crate) fn new(database: &TestDatabase, call: Call, kind: Kind) -> Self {
        let text = match (call, kind.keys) {
            (_, Keys::Held(_)) => SELECT_BY_KEY,
            (Call::Bulk(_), Keys::None) => Statement::InsertBulk.text(),
            (Call::Bulk(_), _) => Statement::InsertBulkUnique.text(),
            (Call::Transaction | Call::Single, Keys::None) => Statement::InsertOne.text(),
            (Call::Transaction | Call::Single, _) => Statement::InsertOneUnique.text(),
        };
        Self { statement: database.statement(text), call, kind }
    }

    /// Sends the jobs with these numbers, of which a call for single jobs has one.
    pub(crate) async fn send(&self, connection: &mut PgConnection, numbers: Vec<u64>) -> Result<(), Failure> {
        let query = sqlx::query(self.statement.clone());
        let (kind, first) = (self.kind, numbers.first().copied().unwrap_or_default());
        if matches!(kind.keys, Keys::Held(_)) {
            return match query.bind(key(first)).fetch_optional(connection).await? {
                Some(_) => Ok(()),
                None => Err(wrong("the holder of a key is gone".to_owned())),
            };
        }
        let (is_bulk, has_keys) = (matches!(self.call, Call::Bulk(_)), kind.keys != Keys::None);
        let mut query = if is_bulk {
            let ids: Vec<Uuid> = numbers.iter().map(|_| Uuid::now_v7()).collect();
            let args: Vec<_> = numbers.iter().map(|number| Json(kind.args(*number))).collect();
            query.bind(ids).bind(args)
        } else {
            query.bind(Uuid::now_v7()).bind(Json(kind.args(first)))
        };
        query = match (is_bulk, has_keys) {
            (_, false) => query,
            (true, true) => query.bind(numbers.iter().map(|number| key(*number)).collect::<Vec<String>>()),
            (false, true) => query.bind(key(first)),
        };
        query = query.bind(kind.priority);
        if self.call == Call::Transaction {
            let mut tx = connection.begin().await?;
            query.execute(&mut *tx).await?;
            tx.commit().await?;
        } else {
            query.execute(connection).await?;
        }
        Ok(())
    }
}

/// A key as long, and as evenly spread over the index, as the keys that the client makes.
fn key(n: u64) -> String {
    Sha256::digest(n.to_string()).iter().fold(String::with_capacity(64), |mut text, byte| {
        text.push(char::from(b"0123456789abcdef"[usize::from(byte >> 4)]));
        text.push(char::from(b"0123456789abcdef"[usize::from(byte & 15)]));
        text
    })
}
