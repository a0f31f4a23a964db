//! The builder of the door.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use axum::Router;
use axum::extract::Request;
use axum::middleware::map_response;
use uniqueue::{Client, KindCache, QueueCache, Result, SchemaName};
use uniqueue_http::Checks;

use crate::answer::in_ojs_words;
use crate::deadlines::Deadlines;
use crate::door::Access;
use crate::door::{AccessFn, Door};
use crate::rate_limit::SetRates;
use crate::reservations::Runs;
use crate::routes;
use crate::store::Store;
use crate::workflow;

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
            deadlines: Deadlines::start(client.clone(), Arc::clone(&runs)),
            _settling: workflow::start_settling(store.clone()),
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
        Ok(checks.no_pages().around(routes::router(&door)).layer(map_response(async |response| in_ojs_words(response))))
    }
}
