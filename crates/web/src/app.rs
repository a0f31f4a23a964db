//! The state that all requests share.

use std::sync::Arc;

use axum::http::request::Parts;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::AbortOnDropHandle;
use uniqueue::{Client, JobRow, PlaceName};

use crate::access::Access;
use crate::bulk::Plans;
use crate::sampler::{Across, Sampler, Seen};
use crate::shared::{Answers, Clock};

/// See [`Web::access`](crate::Web::access).
pub(crate) type AccessFn = dyn Fn(&Parts) -> Access + Send + Sync;

/// See [`Web::redact`](crate::Web::redact).
pub(crate) type RedactFn = dyn Fn(&mut JobRow) + Send + Sync;

/// The subject of a dashboard's pages.
pub(crate) enum Scope {
    /// The only queue.
    One,
    /// A place of several.
    Place { names: Arc<[PlaceName]>, at: usize },
    /// All places.
    All(AllPlaces),
}

/// The places of the pages over all places, each with the state of its own pages.
pub(crate) struct AllPlaces {
    pub(crate) names: Arc<[PlaceName]>,
    pub(crate) apps: Vec<Arc<App>>,
    pub(crate) across: Arc<Across>,
}

impl AllPlaces {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&PlaceName, &Arc<App>)> {
        self.names.iter().zip(&self.apps)
    }
}

/// The state that all requests share. The tasks of a dashboard end when this is dropped.
pub(crate) struct App {
    /// The queue. Over all places it is that of the first one, and pages ask each place instead.
    pub(crate) client: Client,
    pub(crate) scope: Scope,
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
    /// The rights of a request.
    pub(crate) fn access_of(&self, parts: &Parts) -> Access {
        let access = (self.access)(parts);
        if self.is_read_only { access.reading() } else { access }
    }

    /// The places, where these are the pages over all of them.
    pub(crate) fn all_places(&self) -> Option<&AllPlaces> {
        match &self.scope {
            Scope::All(all) => Some(all),
            _ => None,
        }
    }

    /// The latest sample of the queue, or of each place.
    pub(crate) async fn latest(&self) -> Vec<(Option<PlaceName>, Seen)> {
        let Some(all) = self.all_places() else { return vec![(None, self.sampler.latest().await)] };
        let sample = |(name, app): (&PlaceName, &Arc<Self>)| {
            let (name, sampler) = (name.clone(), Arc::clone(&app.sampler));
            AbortOnDropHandle::new(tokio::spawn(async move { (Some(name), sampler.latest().await) }))
        };
        let samples: Vec<_> = all.iter().map(sample).collect();
        let mut seen = Vec::new();
        for sample in samples {
            seen.extend(sample.await);
        }
        seen
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
