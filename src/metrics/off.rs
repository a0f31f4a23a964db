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

#[derive(Debug)]
pub(crate) struct QueueMeter;

impl QueueMeter {
    pub(crate) const fn new(_: &QueueName) -> Self {
        Self
    }

    pub(crate) const fn set(&self, _: usize, _: usize, _: usize) {}
}

#[derive(Debug, Default)]
pub(crate) struct RunnerMeter {}

impl RunnerMeter {
    pub(crate) const fn fetched(&self, _: Instant, _: usize) {}

    pub(crate) const fn finished(&self, _: Instant, _: usize) {}
}
