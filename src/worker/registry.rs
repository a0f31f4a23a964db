//! The workers of a runner, by kind.

use std::borrow::Cow;
use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::Worker;
use super::any_worker::{AnyWorker, Typed, Untyped};
use super::batch::Batched;
use super::batch_worker::BatchWorker;
use super::options::WorkerOptions;
use super::running_job::AnyJob;
use super::state::States;
use crate::error::Result;
use crate::words::job::Job;
use crate::words::kind::KindDefinition;
use crate::words::opts::InsertOptions;
use crate::words::outcome::IntoResult;
use crate::words::retry::RetryPolicy;

/// The workers of a runner, by kind.
#[derive(Default)]
pub(crate) struct Registry {
    workers: HashMap<Cow<'static, str>, Arc<dyn AnyWorker>>,
    /// Works every kind without a worker of its own. `None`: they are left to other runners.
    others: Option<Arc<dyn AnyWorker>>,
    /// The insert options of each kind, and the options of its worker. Kinds chosen at run time have no entry.
    kinds: HashMap<&'static str, (InsertOptions, WorkerOptions)>,
    doubled: Option<Cow<'static, str>>,
}

impl Registry {
    pub(crate) fn add<J: Job>(&mut self, worker: impl Worker<J>, options: WorkerOptions) {
        self.kinds.insert(J::KIND, (J::options(), options.clone()));
        self.insert(Cow::Borrowed(J::KIND), Arc::new(Typed { worker, options, kind: PhantomData }));
    }

    pub(crate) fn add_batch<J: Job>(&mut self, worker: impl BatchWorker<J>, options: WorkerOptions) {
        self.kinds.insert(J::KIND, (J::options(), options.clone()));
        self.insert(Cow::Borrowed(J::KIND), Arc::new(Batched::new(worker, options)));
    }

    /// Adds one function for several kinds.
    pub(crate) fn add_for<F, R>(&mut self, kinds: impl IntoIterator<Item = String>, work: F, options: WorkerOptions)
    where
        F: Fn(AnyJob) -> R + Send + Sync + 'static,
        R: Future<Output: IntoResult> + Send + 'static,
    {
        let worker: Arc<dyn AnyWorker> = Arc::new(Untyped { work, options });
        kinds.into_iter().for_each(|kind| self.insert(Cow::Owned(kind), Arc::clone(&worker)));
    }

    /// Adds one function for every kind without a worker of its own.
    pub(crate) fn add_for_any<F, R>(&mut self, work: F)
    where
        F: Fn(AnyJob) -> R + Send + Sync + 'static,
        R: Future<Output: IntoResult> + Send + 'static,
    {
        self.others = Some(Arc::new(Untyped { work, options: WorkerOptions::new() }));
    }

    fn insert(&mut self, kind: Cow<'static, str>, worker: Arc<dyn AnyWorker>) {
        if self.workers.insert(kind.clone(), worker).is_some() {
            self.doubled = Some(kind);
        }
    }

    /// The first kind whose jobs go to a queue that is not among these, and that queue. A kind that names none goes to the
    /// client's default queue. Without such a default it is not checked.
    pub(crate) fn unworked<'a>(
        &'a self,
        worked: &[(String, usize)],
        default: Option<&'a str>,
    ) -> Option<(&'static str, &'a str)> {
        let queues = self.kinds.iter().filter_map(|(kind, (of_kind, of_worker))| {
            Some((*kind, of_worker.queue.as_deref().or(of_kind.queue.as_deref()).or(default)?))
        });
        queues.filter(|(_, queue)| worked.iter().all(|(name, _)| name != queue)).min()
    }

    /// The first kind whose worker needs a missing value, and the type of that value.
    pub(crate) fn lacks(&self, states: &States) -> Option<(&str, &'static str)> {
        self.workers.iter().filter_map(|(kind, worker)| Some((&**kind, states.lacks(&worker.needs())?))).min()
    }

    pub(crate) fn worker(&self, kind: &str) -> Option<&Arc<dyn AnyWorker>> {
        self.workers.get(kind).or(self.others.as_ref())
    }

    /// The kinds that this runner works. Jobs of other kinds are left to other runners. `None`: it works any kind.
    pub(crate) fn kinds(&self) -> Option<Vec<String>> {
        if self.others.is_some() {
            return None;
        }
        let mut kinds: Vec<_> = self.workers.keys().map(ToString::to_string).collect();
        kinds.sort_unstable();
        Some(kinds)
    }

    /// The definition to register for each kind. The client's options fill in options that the kind leaves out.
    /// `timeout`, `retry_policy`: of workers that have none of their own. A kind whose every insert fails is an error
    /// of its own.
    pub(crate) fn definitions(
        &self,
        defaults: &InsertOptions,
        timeout: Option<Duration>,
        retry_policy: RetryPolicy,
    ) -> Vec<(&'static str, Result<KindDefinition>)> {
        // The default policy of a runner registers nothing. The default policy of a worker registers the default for the kind.
        let of_runner = retry_policy.document().filter(|document| *document != json!({}));
        let definitions = self.kinds.iter().map(|(kind, (of_kind, of_worker))| {
            let backoff = of_worker.retry_policy.map_or_else(|| of_runner.clone(), |policy| policy.document());
            let definition = KindDefinition::new(kind, of_kind.clone().or(defaults));
            (*kind, definition.map(|definition| definition.worked(of_worker.timeout.or(timeout), backoff)))
        });
        definitions.collect()
    }

    /// A kind that has two workers.
    pub(crate) fn doubled(&self) -> Option<&str> {
        self.doubled.as_deref()
    }
}
