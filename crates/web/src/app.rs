//! What all requests share.

use std::sync::Arc;

use axum::http::request::Parts;
use tokio_util::sync::{CancellationToken, DropGuard};
use uniqueue::{Client, JobRow};

use crate::access::Access;
use crate::bulk::Plans;
use crate::clock::Clock;
use crate::sampler::Sampler;
use crate::shared::Answers;

/// See [`Web::access`](crate::Web::access).
pub(crate) type AccessFn = dyn Fn(&Parts) -> Access + Send + Sync;

/// See [`Web::redact`](crate::Web::redact).
pub(crate) type RedactFn = dyn Fn(&mut JobRow) + Send + Sync;

/// What all requests share. The tasks of a dashboard end when this is dropped.
pub(crate) struct App {
    pub(crate) client: Client,
    pub(crate) access: Arc<AccessFn>,
    pub(crate) redact: Option<Arc<RedactFn>>,
    pub(crate) is_read_only: bool,
    /// The prefix that the embedder stated.
    pub(crate) prefix: Option<String>,
    pub(crate) stop: DropGuard,
    pub(crate) plans: Plans,
    pub(crate) sampler: Arc<Sampler>,
    pub(crate) answers: Answers,
    pub(crate) clock: Clock,
}

impl App {
    /// What a request may see and do.
    pub(crate) fn access_of(&self, parts: &Parts) -> Access {
        let access = (self.access)(parts);
        if self.is_read_only { access.reading() } else { access }
    }

    /// A job as it may be shown.
    pub(crate) fn redacted(&self, mut job: JobRow) -> JobRow {
        if let Some(redact) = &self.redact {
            redact(&mut job);
        }
        job
    }

    /// Cancelled when the dashboard stops.
    pub(crate) fn stopped(&self) -> &CancellationToken {
        self.stop.token()
    }
}
