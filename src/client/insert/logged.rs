//! An insert with an actor: its row of the log of changes is written in the same transaction.

use std::time::Duration;

use sqlx::PgConnection;

use super::Client;
use super::call::Call;
use crate::client::actor;
use crate::error::Result;
use crate::store::{self, LogEntry};
use crate::words::job::{Inserted, NewJob};

/// Inserts the jobs, and logs those that were inserted, and holders that were updated.
pub(super) async fn insert_logged(call: Call<'_>, jobs: Vec<NewJob>, entry: LogEntry) -> Result<Vec<Inserted>> {
    let Call { client, connection, max_wait } = call;
    if let Some(connection) = connection {
        return insert_on(client, connection, max_wait, jobs, entry).await;
    }
    let mut connection = client.connection().await?;
    let mut transaction = store::begin_read_committed(&mut connection).await?;
    let answers = insert_on(client, &mut transaction, max_wait, jobs, entry).await?;
    store::commit(transaction).await?;
    Ok(answers)
}

async fn insert_on(
    client: &Client,
    connection: &mut PgConnection,
    max_wait: Option<Duration>,
    jobs: Vec<NewJob>,
    mut entry: LogEntry,
) -> Result<Vec<Inserted>> {
    let call = Call { client, connection: Some(&mut *connection), max_wait };
    let answers = call.run_in_middleware(jobs).await?;
    let is_changed = |answer: &&Inserted| !answer.duplicate || answer.updated;
    let changed: Vec<_> = answers.iter().filter(is_changed).map(Inserted::id).collect();
    if !changed.is_empty() {
        entry.subject = actor::ids(&changed);
        store::log_change(connection, client.statements(), &entry, Some(changed.len())).await?;
    }
    Ok(answers)
}
