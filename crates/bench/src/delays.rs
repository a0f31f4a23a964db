//! How late jobs start.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::failure::Failure;
use crate::failures::wrong;

/// How long a job may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// From the time when jobs could start to their start, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Delays {
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) max_ms: f64,
}

impl Delays {
    pub(crate) fn of(delays: impl IntoIterator<Item = Duration>) -> Self {
        let mut millis: Vec<f64> = delays.into_iter().map(|delay| delay.as_secs_f64() * 1_000.0).collect();
        millis.sort_by(f64::total_cmp);
        let [p50_ms, p99_ms, max_ms] = [50, 99, 100].map(|percent| percentile(&millis, percent));
        Self { p50_ms, p99_ms, max_ms }
    }
}

/// The number of a job, and when its worker got it.
pub(crate) type Start = (u64, Instant);

/// Waits until `count` jobs have started, each once.
pub(crate) async fn all_starts(starts: &mut UnboundedReceiver<Start>, count: usize) -> Result<Vec<Start>, Failure> {
    let mut all = Vec::with_capacity(count);
    while all.len() < count {
        match tokio::time::timeout(START_TIMEOUT, starts.recv()).await {
            Ok(Some(start)) => all.push(start),
            Ok(None) | Err(_) => return Err(wrong(format!("of {count} jobs only {} have started", all.len()))),
        }
    }
    let different = all.iter().map(|(number, _)| number).collect::<BTreeSet<_>>().len();
    if different != all.len() {
        return Err(wrong(format!("{} jobs ran, but only {different} different ones", all.len())));
    }
    Ok(all)
}

/// The smallest of sorted values that is not exceeded by this percentage of them.
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

    #[test]
    fn delays_are_sorted_and_in_milliseconds() {
        let delays = Delays::of([3, 1, 2].map(Duration::from_millis));
        assert_eq!(delays, Delays { p50_ms: 2.0, p99_ms: 3.0, max_ms: 3.0 });
    }

    #[tokio::test]
    async fn job_that_starts_twice_is_found() {
        let (started, mut starts) = tokio::sync::mpsc::unbounded_channel();
        for number in [0, 1, 1] {
            started.send((number, Instant::now())).unwrap();
        }
        drop(started);
        assert!(all_starts(&mut starts, 3).await.is_err());
    }
}
