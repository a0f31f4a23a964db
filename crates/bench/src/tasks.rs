//! Tasks that share the numbered jobs of one run.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;
use crate::failures::{interrupted, wrong};

/// The numbers from 0 to n, each handed out once.
pub(crate) struct Numbers {
    next: AtomicU64,
    end: u64,
    interrupt: CancellationToken,
}

impl Numbers {
    pub(crate) fn new(n: u64, interrupt: &CancellationToken) -> Self {
        Self { next: AtomicU64::new(0), end: n, interrupt: interrupt.clone() }
    }

    /// The next `count` numbers, or those that are left.
    pub(crate) fn take(&self, count: u64) -> Result<Option<Range<u64>>, Failure> {
        if self.interrupt.is_cancelled() {
            return Err(interrupted());
        }
        let first = self.next.fetch_add(count, Ordering::Relaxed);
        Ok((first < self.end).then(|| first..self.end.min(first + count)))
    }
}

/// Waits for every task, or for the first failure.
pub(crate) async fn join(mut tasks: JoinSet<Result<(), Failure>>) -> Result<(), Failure> {
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(|error| wrong(error.to_string()))??;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_handed_out_once() {
        let numbers = Numbers::new(25, &CancellationToken::new());
        let taken: Vec<u64> = std::iter::from_fn(|| numbers.take(10).unwrap()).flatten().collect();
        assert_eq!(taken, (0..25).collect::<Vec<_>>());
    }

    #[test]
    fn no_number_is_handed_out_after_an_interrupt() {
        let interrupt = CancellationToken::new();
        let numbers = Numbers::new(25, &interrupt);
        interrupt.cancel();
        assert!(numbers.take(1).is_err());
    }
}
