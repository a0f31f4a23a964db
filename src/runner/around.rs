//! What a runner's workers find around them: typed state and middleware.

use std::sync::Arc;

use super::Runner;
use crate::error::{Error, Result};
use crate::worker::Middleware;

impl Runner {
    /// Gives the workers a value to share, one of each type: they reach it with
    /// [`RunningJob::state`](crate::RunningJob::state). No lock is taken to do so; what shall change
    /// brings its own.
    ///
    /// ```no_run
    /// # use serde::{Deserialize, Serialize};
    /// # use uniqueue::{BoxError, Client, Job, Runner, RunningJob, shutdown_signal};
    /// # #[derive(Serialize, Deserialize, Job)]
    /// # #[job(kind = "email.send", queue = "emails")]
    /// # struct SendEmail { to: String }
    /// # struct Mailer;
    /// # impl Mailer {
    /// #     fn connect() -> Self { Self }
    /// #     async fn send(&self, to: &str) -> Result<(), BoxError> { Ok(()) }
    /// # }
    /// async fn send_email(job: RunningJob<SendEmail>) -> Result<(), BoxError> {
    ///     let mailer: &Mailer = job.state()?;
    ///     mailer.send(&job.args.to).await
    /// }
    ///
    /// # async fn run(client: Client) -> uniqueue::Result<()> {
    /// Runner::new(client)
    ///     .queue("emails", 20)
    ///     .state(Mailer::connect())
    ///     .worker(send_email)
    ///     .run_until(shutdown_signal())
    ///     .await
    /// # }
    /// ```
    ///
    /// Two values of one type keep the runner from starting, and so does one that a worker
    /// [needs](crate::Worker::needs) and that is missing. To share one type in two roles, wrap it.
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.states.add(value);
        self
    }

    /// Runs a [`Middleware`] around every attempt of every kind. Several nest in the order in which
    /// they are added: the first is the outermost.
    pub fn middleware(mut self, middleware: impl Middleware) -> Self {
        self.middleware.push(Arc::new(middleware));
        self
    }

    /// Checks that the workers and the middleware have what they say they need.
    pub(super) fn check_states(&self) -> Result<()> {
        let refuse = |problem: String| Err(Error::InvalidRunner { problem });
        if let Some(doubled) = self.states.doubled() {
            return refuse(format!(
                "two values of state of one type: {doubled}\nhint: wrap one of them in a type of its own"
            ));
        }
        let hint = "hint: add it with .state(…)";
        if let Some((kind, lacking)) = self.workers.lacks(&self.states) {
            return refuse(format!("the worker of kind {kind:?} needs state that is missing: {lacking}\n{hint}"));
        }
        let lacks = |needs| self.states.lacks(&needs);
        match self.middleware.iter().find_map(|middleware| lacks(middleware.needs())) {
            Some(lacking) => refuse(format!("a middleware needs state that is missing: {lacking}\n{hint}")),
            None => Ok(()),
        }
    }
}
