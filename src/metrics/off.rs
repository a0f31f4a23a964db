//! The stand-in without the feature `metrics`: it counts nothing.

use std::time::{Duration, Instant};

use crate::words::event::Happened;
use crate::words::ident::{Kind, QueueName};
use crate::words::job::Inserted;

pub(crate) const IS_COUNTING: bool = false;

pub(crate) const fn describe() {}

pub(crate) const fn count(_: &Happened, _: &Kind, _: &QueueName) {}

pub(crate) const fn inserted(_: &[Inserted]) {}

#[derive(Debug)]
pub(crate) struct JobMeter;

impl JobMeter {
    pub(crate) const fn new(_: &Kind, _: &QueueName) -> Self {
        Self
    }

    pub(crate) const fn count(&self, _: &Happened) {}

    pub(crate) const fn waited(&self, _: Duration) {}

    pub(crate) const fn worked(&self, _: Instant) {}
}

#[derive(Clone, Copy, Debug, Default)]
#[expect(dead_code, reason = "the runner sets the fields with and without the feature")]
pub(crate) struct Load {
    pub(crate) running: usize,
    pub(crate) free: usize,
    pub(crate) buffered: usize,
}

#[derive(Debug)]
pub(crate) struct RunnerMeter;

impl RunnerMeter {
    pub(crate) fn new<'a>(_: impl Iterator<Item = &'a QueueName>) -> Self {
        Self
    }

    pub(crate) const fn fetched(&self, _: Instant, _: usize) {}

    pub(crate) const fn finished(&self, _: Instant, _: usize) {}

    pub(crate) const fn load(&self, _: usize, _: Load) {}
}
