//! The batches of the promoter, the expirer and the rescuer: a [`Step`] for the jobs that are due, smaller after a statement
//! timeout, and without the jobs that are set aside.

use std::time::{Duration, Instant};

use super::batch_size::{BATCH, BatchSize};
use super::lease::Holder;
use super::set_aside::RefusedJobs;
use super::step::{self, Ran, Step};
use crate::error::{Error, Result};

#[derive(Debug)]
pub(super) struct Batches {
    size: BatchSize,
    aside: RefusedJobs,
}

/// The result of a batch.
pub(super) struct Batch<T> {
    /// One for each statement that the database accepted. They count even where an error ended the batch.
    pub(super) done: Vec<T>,
    /// Whether jobs of the batch may be left. Only where `rest` is `Ok`.
    pub(super) is_partial: bool,
    /// How long to rest where there may be more to do, or the error that ended the batch. `None`: there is not.
    pub(super) rest: Result<Option<Duration>>,
}

impl Default for Batches {
    fn default() -> Self {
        Self { size: BatchSize::new(BATCH), aside: RefusedJobs::default() }
    }
}

impl Batches {
    /// The most jobs of the next batch.
    pub(super) const fn limit(&self) -> i64 {
        self.size.jobs()
    }

    /// Runs a step for the next batch.
    pub(super) async fn run<S: Step>(&mut self, holder: &Holder, step: &S) -> Batch<S::Done> {
        let began = Instant::now();
        let skip = self.aside.ids(began);
        let ran = step::run(holder, step, &skip, self.size.is_single(), &mut self.aside).await;
        let Ran { done, found, has_rest, failed } = match ran {
            Ok(ran) => ran,
            Err(error) => return self.ended(Vec::new(), error),
        };
        if let Some(error) = failed {
            return self.ended(done, error);
        }
        let count = done.iter().map(S::count).sum();
        let is_full = self.size.is_full(found.as_ref().map_or(count, Vec::len));
        self.size.grow_after(count, began.elapsed());
        Batch { done, is_partial: found.is_some(), rest: Ok(step::rest(is_full || has_rest, count)) }
    }

    /// A batch that an error ended. After a statement timeout the next one follows at once, and is smaller.
    fn ended<T>(&mut self, done: Vec<T>, error: Error) -> Batch<T> {
        let rest = if self.size.shrink_after(&error) { Ok(Some(Duration::ZERO)) } else { Err(error) };
        Batch { done, is_partial: true, rest }
    }
}
