//! The builder of a dashboard.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::http::request::Parts;
use tokio_util::sync::CancellationToken;
use uniqueue::{Client, JobRow};

use crate::access::Access;
use crate::app::{AccessFn, App, RedactFn};
use crate::bulk::Plans;
use crate::clock::Clock;
use crate::guard;
use crate::routes::{self, Route};
use crate::sampler::Sampler;
use crate::shared::Answers;

/// The Content-Security-Policy of every page.
const CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
     form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Completes when the server begins to stop.
type Signal = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The dashboard of a client with the default options. See [`Web`].
pub fn router(client: Client) -> Router {
    Web::new(client).router()
}

/// Makes a dashboard.
#[must_use = "a dashboard answers nothing until its router is served"]
pub struct Web {
    client: Client,
    access: Arc<AccessFn>,
    redact: Option<Arc<RedactFn>>,
    is_read_only: bool,
    hosts: Option<Vec<String>>,
    origins: Vec<String>,
    prefix: Option<String>,
    csp: String,
    stop: Option<Signal>,
}

impl fmt::Debug for Web {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Web")
            .field("client", &self.client)
            .field("is_read_only", &self.is_read_only)
            .field("hosts", &self.hosts)
            .finish_non_exhaustive()
    }
}

impl Web {
    /// A dashboard for the queue of a client. It reads over the client's pool.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            access: Arc::new(|_| Access::read()),
            redact: None,
            is_read_only: false,
            hosts: Some(Vec::new()),
            origins: Vec::new(),
            prefix: None,
            csp: CSP.to_owned(),
            stop: None,
        }
    }

    /// Decides what each request may see and do. Called for every route. Default: every request may
    /// read, and none may change anything.
    ///
    /// An application that authenticates asynchronously does so in a middleware of its own, which stores the user in
    /// the extensions of the request.
    pub fn access(mut self, access: impl Fn(&Parts) -> Access + Send + Sync + 'static) -> Self {
        self.access = Arc::new(access);
        self
    }

    /// Changes a job before it is shown, to hide parts of its args, meta, output and errors. With this option jobs
    /// cannot be searched by their args, because a search would reveal what is hidden.
    pub fn redact(mut self, redact: impl Fn(&mut JobRow) + Send + Sync + 'static) -> Self {
        self.redact = Some(Arc::new(redact));
        self
    }

    /// Refuses every change, whatever rights a request has.
    pub fn read_only(mut self) -> Self {
        self.is_read_only = true;
        self
    }

    /// A host name by which the dashboard is reached, without the port. Requests for other names are refused, which
    /// prevents DNS rebinding. Default: `localhost` and every address, which stay allowed.
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.hosts.get_or_insert_default().push(host.into().to_ascii_lowercase());
        self
    }

    /// Answers to every host name, for an application that checks the name itself.
    pub fn any_host(mut self) -> Self {
        self.hosts = None;
        self
    }

    /// An origin, such as `https://admin.example.com`, from which changes are accepted. Needed only behind a proxy that
    /// changes the `Host` header, for browsers that do not send `Sec-Fetch-Site`.
    pub fn origin(mut self, origin: impl Into<String>) -> Self {
        self.origins.push(origin.into());
        self
    }

    /// The path under which browsers reach the dashboard, such as `/queue`, where a proxy removes it. Default: the path
    /// of [`Router::nest`].
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = Some(prefix.into());
        self
    }

    /// Another Content-Security-Policy, for an application that frames the dashboard or collects reports.
    pub fn content_security_policy(mut self, policy: impl Into<String>) -> Self {
        self.csp = policy.into();
        self
    }

    /// Ends the task that reads the queue, and running plans, when the future completes. Without it they end with the runtime,
    /// or when the router is dropped.
    pub fn shutdown(mut self, signal: impl Future<Output = ()> + Send + 'static) -> Self {
        self.stop = Some(Box::pin(signal));
        self
    }

    /// Every route of the dashboard, with what it needs.
    #[must_use]
    pub fn routes() -> &'static [Route] {
        routes::ROUTES
    }

    /// The router.
    ///
    /// # Panics
    ///
    /// With [`Web::shutdown`] and outside of a Tokio runtime.
    pub fn router(self) -> Router {
        let Self { client, access, redact, is_read_only, hosts, origins, prefix, csp, stop: signal } = self;
        let prefix = prefix.map(|prefix| prefix.trim_end_matches('/').to_owned());
        let stop = CancellationToken::new();
        if let Some(signal) = signal {
            let stop = stop.clone();
            tokio::spawn(async move {
                tokio::select! {
                    () = signal => stop.cancel(),
                    () = stop.cancelled() => {}
                }
            });
        }
        let sampler = Arc::new(Sampler::new(client.clone(), stop.clone()));
        let app = Arc::new(App {
            client,
            access,
            redact,
            is_read_only,
            prefix,
            stop: stop.drop_guard(),
            plans: Plans::default(),
            sampler,
            answers: Answers::default(),
            clock: Clock::default(),
        });
        guard::around(routes::router(&app), hosts, &origins, &csp)
    }
}
