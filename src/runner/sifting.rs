//! Sifting: sends a batch that the database refuses part by part, so that what it takes is recorded, and what it
//! refuses alone waits aside. A lock that is in a result's way counts as a refusal.
//!
//! Where it refuses everything, sifting every batch to its end would be thousands of statements for nothing. So it stops
//! after a few results of which none was taken, and the rest waits in the line, whole; these few are out of its way. At a
//! stop it goes on to the end: what the database would take is not tried again later.

use std::sync::Arc;

use super::completer::Ended;
use super::lease::Lease;
use super::recording::{IMPATIENCE, lost, put_aside, recorded, replace, send};
use super::refusal::{is_hopeless, is_refusal};
use super::{Shared, completed_in};

/// So many single results in a row that are refused end the sifting.
const ENOUGH: u32 = 16;

/// Records what the database takes. Answers with what is still to be sent, if it stopped before the end.
pub(super) async fn sift(shared: &Arc<Shared>, lease: &Arc<Lease>, batch: Vec<Ended>) -> Vec<Ended> {
    let mut refused = 0;
    // The next part is the last. In the order of ids, so that what is left is in it as well.
    let mut parts = halves(batch);
    while (refused < ENOUGH || shared.drained.is_cancelled())
        && let Some(mut part) = parts.pop()
    {
        let sent = tokio::select! {
            sent = send(shared, lease.id, &part, IMPATIENCE) => sent,
            () = lease.lost.cancelled() => {
                parts.push(part);
                lost(shared, rest(parts)).await;
                return Vec::new();
            }
        };
        match sent {
            Ok(finished) => {
                refused = 0;
                recorded(shared, lease, part, &finished).await;
            }
            // At a stop there is no time for what takes the database as long as a statement may take.
            Err(error)
                if !(is_refusal(&error) || error.is_lock_timeout())
                    || (error.is_statement_timeout() && shared.drained.is_cancelled()) =>
            {
                tracing::warn!(%error, "results not recorded yet, trying again");
                completed_in::doubt(&mut part, &error);
                parts.push(part);
                break;
            }
            Err(_) if part.len() > 1 => parts.append(&mut halves(part)),
            Err(error) => {
                let Some(mut ended) = part.pop() else { continue };
                let id = ended.result.id;
                if is_hopeless(&error) && replace(&mut ended, &error) {
                    parts.push(vec![ended]);
                    continue;
                }
                if error.is_lock_timeout() {
                    tracing::warn!(job.id = %id, %error, "somebody's lock is in the way of a result: it waits aside");
                } else if error.is_statement_timeout() {
                    tracing::warn!(job.id = %id, %error, "a result takes the database too long, or is behind somebody's lock: it waits aside");
                } else {
                    tracing::error!(job.id = %id, %error, "the database refuses a result: it waits aside");
                }
                refused += 1;
                put_aside(shared, ended);
            }
        }
    }
    rest(parts)
}

/// A batch in two parts, the first one last; a single result in one.
fn halves(mut batch: Vec<Ended>) -> Vec<Vec<Ended>> {
    let second = batch.split_off(batch.len().div_ceil(2));
    [second, batch].into_iter().filter(|half| !half.is_empty()).collect()
}

fn rest(parts: Vec<Vec<Ended>>) -> Vec<Ended> {
    parts.into_iter().rev().flatten().collect()
}
