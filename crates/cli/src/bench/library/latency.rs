//! How long a job waits for an idle runner.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use sqlx::{Connection, PgConnection};
use tokio::sync::mpsc::{self, UnboundedReceiver};
use uniqueue::{Runner, RunningJob};

use super::ground::Ground;
use super::insert::wrong;
use super::interrupted;
use super::job::{Kind, NoOp};
use super::meter::{Latency, Measure, Meter};
use crate::failure::Failure;

/// One insert at each tick.
const TICK: Duration = Duration::from_millis(20);

/// Inserts before the first that counts: the runner must have gone to sleep, and the statements be prepared.
const WARM_UP: u64 = 10;

/// So long may a job take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The number of a job, and when it came to its worker.
pub(super) type Start = (u64, Instant);

/// Inserts jobs one by one, and watches them start.
pub(super) async fn ours(ground: &mut Ground, n: u64, connections: u32) -> Result<Measure, Failure> {
    // As theirs: what a pool does with a connection after an insert's answer is not the runner's.
    let mut own = PgConnection::connect(&ground.url).await?;
    let client = ground.client(connections).await?;
    let (started, starts) = mpsc::unbounded_channel();
    let worker = move |job: RunningJob<NoOp>| {
        let _ = started.send((job.args.n, Instant::now()));
        std::future::ready(())
    };
    let runner = Runner::new(client.clone()).name("uniqueue bench").queue("bench", 100).worker(worker).start().await?;
    let inserting = async |number| {
        client.insert(Kind::PLAIN.job(number)).tx(&mut own).await?;
        Ok(())
    };
    let measured = measure(ground, n, starts, inserting).await;
    runner.stop().await?;
    client.pool().close().await;
    measured
}

/// Inserts one job at each tick, and waits until all have started.
pub(super) async fn measure(
    ground: &mut Ground,
    n: u64,
    mut starts: UnboundedReceiver<Start>,
    mut insert: impl AsyncFnMut(u64) -> Result<(), Failure>,
) -> Result<Measure, Failure> {
    let mut calls = Vec::new();
    let mut meter = Meter::start(ground).await?;
    let mut ticks = tokio::time::interval(TICK);
    for number in 0..WARM_UP + n {
        ticks.tick().await;
        if ground.interrupt.is_cancelled() {
            return Err(interrupted());
        }
        if number == WARM_UP {
            meter = Meter::start(ground).await?;
        }
        let called_at = Instant::now();
        insert(number).await?;
        calls.push((called_at, Instant::now()));
    }
    let all = all_starts(&mut starts, calls.len()).await?;
    let different = all.iter().map(|(number, _)| number).collect::<BTreeSet<_>>().len();
    if different != all.len() {
        return Err(wrong(format!("{} jobs ran, but only {different} different ones", all.len())));
    }
    let mut measure = meter.stop(ground, n).await?;
    let mut since_answer = Vec::new();
    let mut since_call = Vec::new();
    for (number, started_at) in all {
        let Some((called_at, answered_at)) = usize::try_from(number).ok().and_then(|place| calls.get(place)) else {
            return Err(wrong(format!("a job that nobody inserted: {number}")));
        };
        if number >= WARM_UP {
            since_answer.push(millis(started_at.saturating_duration_since(*answered_at)));
            since_call.push(millis(started_at.saturating_duration_since(*called_at)));
        }
    }
    since_answer.sort_by(f64::total_cmp);
    since_call.sort_by(f64::total_cmp);
    measure.latency = Some(Latency {
        p50_ms: percentile(&since_answer, 50),
        p99_ms: percentile(&since_answer, 99),
        max_ms: percentile(&since_answer, 100),
        from_call_p50_ms: percentile(&since_call, 50),
        from_call_p99_ms: percentile(&since_call, 99),
    });
    Ok(measure)
}

/// Waits for as many jobs as were inserted.
async fn all_starts(starts: &mut UnboundedReceiver<Start>, count: usize) -> Result<Vec<Start>, Failure> {
    let mut all = Vec::with_capacity(count);
    while all.len() < count {
        match tokio::time::timeout(PATIENCE, starts.recv()).await {
            Ok(Some(start)) => all.push(start),
            Ok(None) | Err(_) => return Err(wrong(format!("of {count} jobs only {} have started", all.len()))),
        }
    }
    Ok(all)
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

/// Of sorted values, the smallest that so many percent do not exceed.
fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let place = (sorted.len() * percent).div_ceil(100).max(1) - 1;
    sorted.get(place).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_there() {
        let values: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!([50, 99, 100].map(|percent| percentile(&values, percent)), [100.0, 198.0, 200.0]);
        assert_eq!(percentile(&[7.0], 50), 7.0);
    }
}
