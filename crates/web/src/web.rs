//! The builder of a dashboard.

use std::fmt;
use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::map_response;
use axum::response::{IntoResponse, Response};
use tokio_util::sync::CancellationToken;
use uniqueue::{Client, JobRow, Places};
use uniqueue_http::Checks;

use crate::access::Access;
use crate::app::{AccessFn, AllPlaces, App, RedactFn, Scope};
use crate::bulk::Plans;
use crate::failure::Failure;
use crate::page::place_path;
use crate::routes::{self, Route};
use crate::sampler::{Across, Sampler};
use crate::shared::{Answers, Clock};

/// The Content-Security-Policy of every page.
const CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
     form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Completes when the server begins to stop.
type Signal = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The dashboard of a client with the default options. See [`Web`].
pub fn router(client: Client) -> Router {
    Web::new(client).router()
}

/// The queues of a dashboard.
#[derive(Debug)]
enum Queues {
    One(Client),
    Places(Places),
}

/// Makes a dashboard.
#[must_use = "a dashboard answers nothing until its router is served"]
pub struct Web {
    queues: Queues,
    access: Arc<AccessFn>,
    redact: Option<Arc<RedactFn>>,
    is_read_only: bool,
    checks: Checks,
    prefix: Option<String>,
    csp: String,
    stop: Option<Signal>,
}

impl fmt::Debug for Web {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Web")
            .field("queues", &self.queues)
            .field("is_read_only", &self.is_read_only)
            .field("checks", &self.checks)
            .finish_non_exhaustive()
    }
}

impl Web {
    /// A dashboard for the queue of a client. It reads over the client's pool.
    pub fn new(client: Client) -> Self {
        Self::of(Queues::One(client))
    }

    /// A dashboard for several places. Its overview has a row for each, its lists have the rows of all places with a column
    /// for the place, and each place has the pages of a dashboard of its own below `/place:NAME`. Each change is made in one
    /// place. A place that does not answer is named, and the pages show the rest. It reads over the pools of the places.
    ///
    /// ```no_run
    /// # fn run() -> uniqueue::Result<()> {
    /// use uniqueue::{PlaceMap, Places};
    /// use uniqueue_web::Web;
    ///
    /// let router = Web::over(Places::new(PlaceMap::from_file("places.json")?)).router();
    /// # Ok(()) }
    /// ```
    pub fn over(places: Places) -> Self {
        Self::of(Queues::Places(places))
    }

    fn of(queues: Queues) -> Self {
        Self {
            queues,
            access: Arc::new(|_| Access::read()),
            redact: None,
            is_read_only: false,
            checks: Checks::new(),
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

    /// The checks of every request: host names, origins and the time of a body. Default: [`Checks::new`], with which the
    /// dashboard answers only to the names of the local machine and to addresses.
    pub fn checks(mut self, checks: Checks) -> Self {
        self.checks = checks;
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

    /// Every route of the dashboard of a queue, with the right that it needs. Over several places these routes stand below the
    /// path of each place.
    #[must_use]
    pub fn routes() -> &'static [Route] {
        routes::ROUTES
    }

    /// Every route of the pages over all places, with the right that it needs.
    #[must_use]
    pub fn routes_over_places() -> &'static [Route] {
        routes::OVER_PLACES
    }

    /// The router.
    ///
    /// # Panics
    ///
    /// With [`Web::shutdown`] and outside of a Tokio runtime.
    pub fn router(mut self) -> Router {
        let stop = CancellationToken::new();
        if let Some(signal) = self.stop.take() {
            let stop = stop.clone();
            tokio::spawn(async move {
                stop.run_until_cancelled(signal).await;
                stop.cancel();
            });
        }
        self.prefix = self.prefix.map(|prefix| prefix.trim_end_matches('/').to_owned());
        let router = match &self.queues {
            Queues::One(client) => routes::router(&self.app(client, Scope::One, "", stop)),
            Queues::Places(places) => self.over_places(places, &stop),
        };
        let csp = HeaderValue::from_str(&self.csp).unwrap_or_else(|_| {
            tracing::error!("the Content-Security-Policy is not a valid header: nothing is allowed");
            HeaderValue::from_static("default-src 'none'")
        });
        // Not a fallback of the router: with one, no application could nest it under a path with a parameter.
        let router = router.layer(map_response(|response: Response| {
            let has_text = response.headers().contains_key(header::CONTENT_TYPE);
            let is_missing = response.status() == StatusCode::NOT_FOUND && !has_text;
            ready(if is_missing { Failure::NotFound("page").into_response() } else { response })
        }));
        self.checks.around(router).layer(map_response(move |mut response: Response| {
            response.headers_mut().entry(header::CONTENT_SECURITY_POLICY).or_insert(csp.clone());
            ready(response)
        }))
    }

    /// The pages over all places, and those of each place.
    fn over_places(&self, places: &Places, stop: &CancellationToken) -> Router {
        let (names, clients): (Vec<_>, Vec<_>) = places.iter().map(|(name, client)| (name.clone(), client)).unzip();
        let names: Arc<[_]> = names.into();
        let mut router = Router::new();
        let mut apps = Vec::new();
        for (at, client) in clients.iter().enumerate() {
            let path = place_path(&names[at]);
            let scope = Scope::Place { names: Arc::clone(&names), at };
            let app = self.app(client, scope, &path, stop.child_token());
            router = router.nest(&path, routes::router(&app));
            apps.push(app);
        }
        let across = Arc::new(Across::new(places.clone(), stop.child_token()));
        let scope = Scope::All(AllPlaces { names, apps, across });
        router.merge(routes::over_places(&self.app(clients[0], scope, "", stop.clone())))
    }

    /// The state that the requests to the pages of a scope share.
    fn app(&self, client: &Client, scope: Scope, path: &str, stop: CancellationToken) -> Arc<App> {
        let sampler = Arc::new(Sampler::new(client.clone(), stop.clone()));
        Arc::new(App {
            client: client.clone(),
            scope,
            access: Arc::clone(&self.access),
            redact: self.redact.clone(),
            is_read_only: self.is_read_only,
            prefix: self.prefix.as_ref().map(|prefix| format!("{prefix}{path}")),
            stop: stop.drop_guard(),
            plans: Plans::default(),
            sampler,
            answers: Answers::default(),
            clock: Clock::default(),
        })
    }
}
