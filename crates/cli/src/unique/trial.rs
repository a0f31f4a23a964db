//! Whether an insert would wait for an open transaction. Its uncommitted jobs cannot be seen, so this tries an insert.

use std::future::IntoFuture;
use std::pin::pin;
use std::time::Duration;

use serde::Serialize;
use sqlx::Row;
use uniqueue::{Client, Error, NewJob};
use uniqueue_admin::{Admin, WaitingInsert};

use crate::exit::Failure;

/// How long the trial waits before the answer is that it waits.
const MAX_WAIT: Duration = Duration::from_millis(300);

/// How often the blocker is looked for meanwhile.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The transaction that an insert would wait for.
#[derive(Debug, Serialize)]
pub(super) struct Blocker {
    /// The process id of its session. `None`: a prepared transaction, or one that ended in the meantime.
    pid: Option<i32>,
    application: Option<String>,
    state: Option<String>,
}

impl Blocker {
    /// Such as `the open transaction of pid 17 billing (idle in transaction)`.
    pub(super) fn text(&self) -> String {
        let Some(pid) = self.pid else { return "an open transaction".to_owned() };
        let application = self.application.as_deref().map(|name| format!(" {name}")).unwrap_or_default();
        let state = self.state.as_deref().map(|state| format!(" ({state})")).unwrap_or_default();
        format!("the open transaction of pid {pid}{application}{state}")
    }
}

/// Inserts a job whose key no job claims, and rolls back. Returns the transaction that the insert waits for. `None`: it
/// does not wait, or the role may not insert.
pub(super) async fn would_wait(client: &Client, job: NewJob) -> Result<Option<Blocker>, Failure> {
    let mut tx = client.pool().begin().await?;
    let pid: i32 = sqlx::query("SELECT pg_backend_pid()").fetch_one(&mut *tx).await?.try_get(0)?;
    let mut blocker = None;
    let tried = {
        let mut trying = pin!(client.insert(job).max_wait(MAX_WAIT).tx(&mut tx).into_future());
        loop {
            tokio::select! {
                tried = &mut trying => break tried,
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
            if blocker.is_none() {
                blocker = Admin::new(client).waiting_inserts().await?.into_iter().find(|insert| insert.pid == pid);
            }
        }
    };
    tx.rollback().await?;
    match tried {
        Err(Error::Busy { .. }) => Ok(Some(blocker.map_or(
            Blocker { pid: None, application: None, state: None },
            |WaitingInsert { blocker_pid, blocker_application, blocker_state, .. }| Blocker {
                pid: blocker_pid,
                application: blocker_application,
                state: blocker_state,
            },
        ))),
        // A full queue has nothing to do with the key.
        Err(Error::QueueFull { .. }) => Ok(None),
        Err(error) if may_not_insert(&error) => Ok(None),
        Err(error) => Err(error.into()),
        Ok(_) => Ok(None),
    }
}

/// Whether the role has no right to insert, or the server is a standby.
fn may_not_insert(error: &Error) -> bool {
    let Error::Database(sqlx::Error::Database(error)) = error else { return false };
    matches!(error.code().as_deref(), Some("42501" | "25006"))
}
