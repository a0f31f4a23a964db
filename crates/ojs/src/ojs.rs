//! The builder of the door, and its routes.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{from_fn_with_state, map_response};
use axum::routing::{delete, get, post, put};
use uniqueue::{Client, Result, SchemaName};
use uniqueue_admin::{KindCache, QueueCache};
use uniqueue_http::Checks;
use uniqueue_remote::SharedResults;

use crate::answer::{self, in_ojs_words};
use crate::door::{Access, AccessFn, Door};
use crate::problem::Problem;
use crate::rate_limit::SetRates;
use crate::reservations::Runs;
use crate::store::Store;
use crate::{cron, dead_letter, deadlines, events, jobs, queues, system, workers, workflow};

/// The connections of lists and counts.
const READS: u32 = 2;

/// Makes the door.
#[must_use = "the door answers nothing until its router is served"]
pub struct Ojs {
    client: Client,
    schema: Option<SchemaName>,
    access: Arc<AccessFn>,
    checks: Checks,
}

impl fmt::Debug for Ojs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ojs").field("client", &self.client).field("checks", &self.checks).finish_non_exhaustive()
    }
}

impl Ojs {
    /// The door to the queue of a client. It works over the client's pool. Lists and counts have two connections of their own.
    pub fn new(client: Client) -> Self {
        Self { client, schema: None, access: Arc::new(|_| Access::All), checks: Checks::new() }
    }

    /// The schema of the door's own tables. Default: the client's schema with `_ojs` at its end.
    pub fn schema(mut self, schema: SchemaName) -> Self {
        self.schema = Some(schema);
        self
    }

    /// Decides what each request may do, apart from the health check. Default: everything.
    pub fn access(mut self, access: impl Fn(&Request) -> Access + Send + Sync + 'static) -> Self {
        self.access = Arc::new(access);
        self
    }

    /// The checks of every request: host names, and the time of a body. Default: [`Checks::new`], with which the door answers
    /// only to the names of the local machine and to addresses. Requests of pages in a browser are refused in any case.
    pub fn checks(mut self, checks: Checks) -> Self {
        self.checks = checks;
        self
    }

    /// Creates or updates the door's own schema, starts the task that ends jobs at their `timeout_ms`, and returns the router. The
    /// task ends when the last clone of the router is dropped.
    ///
    /// # Errors
    ///
    /// [`Error::NotMigrated`](uniqueue::Error::NotMigrated) where the queue's own schema is missing;
    /// [`Error::Database`](uniqueue::Error::Database), also where the role may create no schema.
    pub async fn start(self) -> Result<Router> {
        let Self { client, schema, access, checks } = self;
        client.check_schema().await?;
        let schema = match schema {
            Some(schema) => schema,
            None => SchemaName::new(format!("{}_ojs", client.schema().as_str()))?,
        };
        let store = Store::open(&client, &schema).await?;
        let reads = client.with_own_pool(READS);
        let runs = Arc::new(Runs::default());
        let door = Arc::new(Door {
            _tasks: [deadlines::start(client.clone(), Arc::clone(&runs)), workflow::start_settling(store.clone())],
            results: SharedResults::start(&client),
            kinds: KindCache::new(client.clone()),
            queues: QueueCache::new(reads.clone()),
            reads,
            client,
            store,
            access,
            runs,
            set_rates: SetRates::default(),
            started_at: Instant::now(),
            health: Mutex::default(),
        });
        Ok(checks.no_pages().around(router(&door)).layer(map_response(async |response| in_ojs_words(response))))
    }
}

/// The router of the door.
pub(crate) fn router(door: &Arc<Door>) -> Router {
    let v1 = Router::new()
        .route("/health", get(system::health))
        .route("/jobs", post(jobs::enqueue))
        .route("/jobs/batch", post(jobs::enqueue_batch))
        .route("/jobs/{id}", get(jobs::show).delete(jobs::cancel))
        .route("/jobs/{id}/activate", post(jobs::activate))
        .route("/workers/fetch", post(workers::fetch))
        .route("/workers/ack", post(workers::ack))
        .route("/workers/nack", post(workers::nack))
        .route("/workers/heartbeat", post(workers::heartbeat))
        .route("/workers/{id}/directive", put(workers::direct))
        .route("/dead-letter", get(dead_letter::list))
        .route("/dead-letter/{id}", get(dead_letter::show).delete(dead_letter::delete))
        .route("/dead-letter/{id}/retry", post(dead_letter::retry))
        .route("/cron", get(cron::list).post(cron::register))
        .route("/cron/{name}", delete(cron::remove))
        .route("/workflows", post(workflow::create))
        .route("/workflows/{id}", get(workflow::show).delete(workflow::cancel))
        .route("/queues", get(queues::list))
        .route("/queues/{name}/stats", get(queues::stats))
        .route("/queues/{name}/pause", post(queues::pause))
        .route("/queues/{name}/resume", post(queues::resume))
        .route("/events", get(events::list));
    Router::new()
        .nest("/ojs/v1", v1)
        .route("/ojs/manifest", get(system::manifest))
        .fallback(|| async { Problem::not_found("endpoint", "see /ojs/manifest") })
        .method_not_allowed_fallback(|| async { Problem::method_not_allowed() })
        .layer(from_fn_with_state(Arc::clone(door), answer::complete))
        .with_state(Arc::clone(door))
}
