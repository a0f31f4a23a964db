//! A sender: one statement after another, until no insert waits.

use std::time::Duration;

use super::shared::{error_for_each, send_shared};
use super::state::{Reply, SharedInsert};
use crate::client::Client;
use crate::client::connections::pooled_connection::PooledConnection;

/// The most inserts in one statement.
const MAX_BATCH: usize = 500;

/// After so many statements a connection goes back to the pool for a moment, so that other users of the pool get it.
const STATEMENTS_PER_CONNECTION: usize = 10;

/// A statement that takes longer than this does not count as under way any more: inserts must not wait for a connection
/// that may never answer.
const SLOW: Duration = Duration::from_secs(1);

/// One of the statements that may be under way.
struct Sender {
    client: Client,
    is_over: bool,
}

impl Sender {
    /// Takes inserts that wait and may share a statement with the first of them. `None`: none waits, and the sender is
    /// over.
    fn take_waiting(&mut self) -> Option<Vec<SharedInsert>> {
        let mut state = self.client.coalescer().state();
        state.waiting.retain(|insert| !insert.answer.is_closed());
        let Some(first) = state.waiting.first() else {
            state.senders -= 1;
            self.is_over = true;
            return None;
        };
        let one_by_one = first.row.needs_order();
        let mut taken = 0;
        let is_alike = |insert: &mut SharedInsert| {
            let is_taken = taken < MAX_BATCH && insert.row.needs_order() == one_by_one;
            taken += usize::from(is_taken);
            is_taken
        };
        Some(state.waiting.extract_if(.., is_alike).collect())
    }

    /// Starts another sender for the inserts that wait. This one ends with its statement.
    fn step_aside(&mut self) {
        let mut state = self.client.coalescer().state();
        self.is_over = true;
        let is_last = state.waiting.is_empty();
        state.senders -= usize::from(is_last);
        // A runtime that shuts down drops at once the task that is spawned, and its sender takes this lock.
        drop(state);
        if !is_last {
            start(&self.client);
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let mut state = self.client.coalescer().state();
        state.senders -= 1;
        // No other sender would come for them.
        let left = if state.senders == 0 { std::mem::take(&mut state.waiting) } else { Vec::new() };
        drop(state);
        for SharedInsert { row, answer } in left {
            drop(answer.send(Reply::Unsent(Box::new(row))));
        }
    }
}

/// Starts a sender, which counts as one already.
pub(super) fn start(client: &Client) {
    tokio::spawn(run(Sender { client: client.clone(), is_over: false }));
}

/// Sends what waits until nothing does.
async fn run(mut sender: Sender) {
    let client = sender.client.clone();
    loop {
        // First: inserts that come while it waits for a connection share its statement.
        let connection = client.connection().await;
        let is_over = match connection {
            Ok(connection) => send_some(&client, &mut sender, connection).await,
            Err(error) => match sender.take_waiting() {
                Some(batch) => {
                    batch.into_iter().for_each(|insert| insert.answer(Err(error_for_each(&error))));
                    false
                }
                None => true,
            },
        };
        if is_over {
            return;
        }
    }
}

/// Sends a few batches over one connection. `true`: no insert waits any more.
async fn send_some(client: &Client, sender: &mut Sender, mut connection: PooledConnection) -> bool {
    for _ in 0..STATEMENTS_PER_CONNECTION {
        let Some(batch) = sender.take_waiting() else { return true };
        let mut sending = std::pin::pin!(send_shared(client, &mut connection, batch));
        let is_well = match tokio::time::timeout(SLOW, &mut sending).await {
            Ok(is_well) => is_well,
            Err(_) => {
                sender.step_aside();
                sending.await;
                return true;
            }
        };
        if !is_well {
            return false;
        }
        // Callers that were answered may insert again at once. The next statement takes those inserts as well.
        tokio::task::yield_now().await;
    }
    false
}
