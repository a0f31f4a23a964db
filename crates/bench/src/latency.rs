//! Latency: one job at a time, inserted while the worker is idle.

use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedReceiver;

use crate::delays::{Delays, Start, all_starts};
use crate::failure::Failure;
use crate::failures::{interrupted, wrong};
use crate::meter::{Measure, Meter};
use crate::test_database::TestDatabase;

/// One insert at each tick.
const TICK: Duration = Duration::from_millis(20);

/// Inserts before the first that counts: they let the worker become idle, and prepare the statements.
const WARM_UP: u64 = 10;

/// Inserts one job at each tick, and waits until all have started.
pub(crate) async fn measure(
    database: &mut TestDatabase,
    n: u64,
    mut starts: UnboundedReceiver<Start>,
    mut insert: impl AsyncFnMut(u64) -> Result<(), Failure>,
) -> Result<Measure, Failure> {
    let mut calls = Vec::new();
    let mut meter = Meter::start(database).await?;
    let mut ticks = tokio::time::interval(TICK);
    for number in 0..WARM_UP + n {
        ticks.tick().await;
        if database.interrupt.is_cancelled() {
            return Err(interrupted());
        }
        if number == WARM_UP {
            meter = Meter::start(database).await?;
        }
        let called_at = Instant::now();
        insert(number).await?;
        calls.push((called_at, Instant::now()));
    }
    let all = all_starts(&mut starts, calls.len()).await?;
    let mut measure = meter.stop(database, n).await?;
    let (mut since_call, mut since_answer) = (Vec::new(), Vec::new());
    for (number, started_at) in all {
        let Some((called_at, answered_at)) = usize::try_from(number).ok().and_then(|place| calls.get(place)) else {
            return Err(wrong(format!("a job that was not inserted ran: {number}")));
        };
        if number >= WARM_UP {
            since_call.push(started_at.saturating_duration_since(*called_at));
            since_answer.push(started_at.saturating_duration_since(*answered_at));
        }
    }
    measure.delays = Some(Delays::of(since_answer));
    measure.delays_from_call = Some(Delays::of(since_call));
    Ok(measure)
}
