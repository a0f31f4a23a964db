//! A flight: one statement after another, until nobody waits.

use std::time::Duration;

use sqlx::{Postgres, pool::PoolConnection};

use super::send::{alike, send};
use super::{FLIGHTS, LOOKING_CROWD, Reply, Single};
use crate::client::Client;

/// The most inserts in one statement.
const BATCH: usize = 500;

/// After so many statements a connection goes back to the pool for a moment, so that others who
/// want one have their turn.
const TURN: usize = 10;

/// A statement that takes longer than this does not count as one on the way any more: others must not wait for
/// a connection that may never answer.
const SLOW: Duration = Duration::from_secs(1);

/// One of the statements that may be on the way.
struct Flight {
    client: Client,
    is_over: bool,
}

impl Flight {
    /// Takes those that wait. `None`: nobody does, and the flight is over.
    fn board(&mut self) -> Option<Vec<Single>> {
        let mut waiting = self.client.flights().waiting();
        waiting.inserts.retain(|single| !single.answer.is_closed());
        if waiting.inserts.is_empty() {
            waiting.flights -= 1;
            self.is_over = true;
            return None;
        }
        let are_held = self.client.outlook().are_held();
        let all = waiting.inserts.len();
        // Two crowds that look are two statements, if the second can be sent now. Of few, half wait for the other flight
        // if need be, which is back in a moment: else all would soon go with one, and nobody with the other.
        let goes_in_two = waiting.flights < FLIGHTS || all < 4 * LOOKING_CROWD;
        let are_two = are_held && goes_in_two && all >= 2 * LOOKING_CROWD && waiting.may_look();
        let size = if are_two { all.div_ceil(2) } else { all };
        let batch = waiting.inserts.drain(..size.min(BATCH)).collect();
        let starts = are_two && waiting.may_start(are_held);
        drop(waiting);
        if starts {
            start(&self.client);
        }
        Some(batch)
    }

    /// Makes room for another, which takes those that wait. This one ends with its statement.
    fn step_aside(&mut self) {
        let mut waiting = self.client.flights().waiting();
        self.is_over = true;
        let is_last = waiting.inserts.is_empty();
        waiting.flights -= usize::from(is_last);
        // A runtime that shuts down drops what is spawned at once, and with it a flight, which looks here.
        drop(waiting);
        if !is_last {
            start(&self.client);
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let mut waiting = self.client.flights().waiting();
        waiting.flights -= 1;
        // Nobody else would come for them.
        let left = if waiting.flights == 0 { std::mem::take(&mut waiting.inserts) } else { Vec::new() };
        drop(waiting);
        for Single { row, answer, .. } in left {
            drop(answer.send(Reply::Unsent(Box::new(row))));
        }
    }
}

/// Starts a flight, which counts as one already.
pub(super) fn start(client: &Client) {
    tokio::spawn(fly(Flight { client: client.clone(), is_over: false }));
}

/// Sends what waits until nobody does.
async fn fly(mut flight: Flight) {
    let client = flight.client.clone();
    loop {
        // Before boarding: who comes while it waits for a connection comes along.
        let connection = client.connection().await;
        let is_over = match connection {
            Ok(connection) => turn(&client, &mut flight, connection).await,
            Err(error) => match flight.board() {
                Some(batch) => {
                    batch.into_iter().for_each(|single| single.answer(Err(alike(&error))));
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

/// Sends a few batches over one connection. `true`: nobody waits any more.
async fn turn(client: &Client, flight: &mut Flight, mut connection: PoolConnection<Postgres>) -> bool {
    for _ in 0..TURN {
        let Some(batch) = flight.board() else { return true };
        let mut sending = std::pin::pin!(send(client, &mut connection, batch));
        let is_well = match tokio::time::timeout(SLOW, &mut sending).await {
            Ok(is_well) => is_well,
            Err(_) => {
                flight.step_aside();
                sending.await;
                return true;
            }
        };
        if !is_well {
            return false;
        }
        // Those who were answered may have the next insert at hand: then it goes with this one's neighbours.
        tokio::task::yield_now().await;
    }
    false
}
