//! The table of routes, and the gate of each: the check of rights, and the time of an answer. The router is made from the table,
//! and so are the tests of rights.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, on};
use maud::html;
use tokio::time::timeout;

use crate::access::{Needs, Right};
use crate::app::App;
use crate::failure::{Failure, Told};
use crate::html::{Document, Hostile, document};
use crate::page::Page;
use crate::{assets, health, metrics, pages};

/// A route of the dashboard.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Route {
    /// `GET` (and `HEAD`) or `POST`.
    pub method: &'static str,
    /// Its path, as axum writes it.
    pub path: &'static str,
    /// The right that a request needs.
    pub needs: Needs,
}

/// Makes the tables and the routers. A route with a second handler is also one of the pages over all places, where that handler
/// answers. Changes are made on the pages of a place.
macro_rules! routes {
    ($($method:ident $path:literal $needs:expr => $handler:path $(, $over:path)?;)*) => {
        /// Every route of the dashboard of a queue.
        pub(crate) const ROUTES: &[Route] = &[$(Route { method: stringify!($method), path: $path, needs: $needs }),*];

        /// Every route of the pages over all places.
        pub(crate) const OVER_PLACES: &[Route] = &[$($({
            let _handler = stringify!($over);
            Route { method: stringify!($method), path: $path, needs: $needs }
        },)?)*];

        /// The dashboard of a queue.
        pub(crate) fn router(app: &Arc<App>) -> Router {
            let gate_of = |needs| from_fn_with_state(Gate { app: Arc::clone(app), needs }, gate);
            let router = Router::new();
            $(let router = router.route($path, on(MethodFilter::$method, $handler).layer(gate_of($needs)));)*
            router.with_state(Arc::clone(app))
        }

        /// The pages over all places.
        pub(crate) fn over_places(app: &Arc<App>) -> Router {
            let gate_of = |needs| from_fn_with_state(Gate { app: Arc::clone(app), needs }, gate);
            let router = Router::new();
            $($(let router = router.route($path, on(MethodFilter::$method, $over).layer(gate_of($needs)));)?)*
            router.with_state(Arc::clone(app))
        }
    };
}

routes! {
    GET "/" Needs::Read => pages::overview::show, pages::places::show;
    GET "/search" Needs::Read => pages::search::show, pages::search::show;
    GET "/suggest" Needs::Read => pages::search::suggest, pages::search::suggest;
    GET "/jobs" Needs::Read => pages::jobs::list, pages::jobs::list;
    GET "/jobs/export" Needs::Read => pages::jobs::export;
    GET "/jobs/{id}" Needs::Read => pages::job::show, pages::places::job;
    POST "/jobs/{id}/change" Needs::Right(Right::Change) => pages::job::change;
    POST "/jobs/{id}/delete" Needs::Right(Right::Delete) => pages::job::delete;
    POST "/bulk" Needs::Right(Right::Change) => pages::bulk::plan;
    GET "/bulk/{id}" Needs::Read => pages::bulk::show;
    POST "/bulk/{id}/run" Needs::Right(Right::Change) => pages::bulk::run;
    POST "/bulk/{id}/stop" Needs::Right(Right::Change) => pages::bulk::stop;
    GET "/keys" Needs::Read => pages::keys::list, pages::keys::list;
    GET "/key" Needs::Read => pages::key::show, pages::places::each;
    POST "/key/release" Needs::Right(Right::Change) => pages::key::release;
    GET "/groups" Needs::Read => pages::groups::list, pages::groups::list;
    GET "/group" Needs::Read => pages::groups::show, pages::places::each;
    POST "/groups/change" Needs::Right(Right::Queues) => pages::groups::change;
    GET "/queues" Needs::Read => pages::queues::list, pages::queues::list;
    GET "/queue" Needs::Read => pages::queues::show, pages::places::each;
    POST "/queues/change" Needs::Right(Right::Queues) => pages::queues::change;
    GET "/explain" Needs::Read => pages::explain::show, pages::places::each;
    GET "/waiting" Needs::Read => pages::waiting::list, pages::waiting::list;
    GET "/duplicates" Needs::Read => pages::duplicates::list, pages::places::each;
    POST "/duplicates/audit" Needs::Right(Right::Audit) => pages::duplicates::audit;
    GET "/history" Needs::Read => pages::history::show, pages::history::show;
    GET "/kinds" Needs::Read => pages::kinds::list, pages::kinds::list;
    GET "/kind" Needs::Read => pages::kinds::show, pages::places::each;
    GET "/failing" Needs::Read => pages::failing::list, pages::failing::list;
    GET "/running" Needs::Read => pages::running::list, pages::running::list;
    GET "/runners" Needs::Read => pages::runners::list, pages::runners::list;
    GET "/changes" Needs::Read => pages::changes::list, pages::places::each;
    GET "/periodic" Needs::Read => pages::periodic::list, pages::periodic::list;
    POST "/periodic/change" Needs::Right(Right::Periodic) => pages::periodic::change;
    GET "/doctor" Needs::Read => pages::doctor::show, pages::doctor::show;
    GET "/insert" Needs::Read => pages::insert::form, pages::places::each;
    POST "/insert" Needs::Right(Right::Insert) => pages::insert::insert;
    POST "/settings" Needs::Read => pages::settings::change, pages::settings::change;
    GET "/metrics" Needs::Read => metrics::show, metrics::show;
    GET "/health/live" Needs::Nothing => health::live, health::live;
    GET "/health/ready" Needs::Nothing => health::ready, health::ready;
    GET "/assets/{version}/{name}" Needs::Nothing => assets::serve, assets::serve;
}

/// How long a page may take. The policy lab takes half of it.
const SLOWEST: Duration = Duration::from_secs(10);
/// How long a page may take while samples of the queue take too long. A look-up takes less.
const SLOW: Duration = Duration::from_millis(2_500);
/// How long a page may take while no connection can be had.
const OUTAGE: Duration = Duration::from_secs(1);

/// A gate of one route: what it needs, and who decides what a request has.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) app: Arc<App>,
    pub(crate) needs: Needs,
}

/// Lets a request through that has what its route needs, and leaves its access in the extensions.
pub(crate) async fn gate(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    if gate.needs == Needs::Nothing {
        return next.run(Request::from_parts(parts, body)).await;
    }
    let access = gate.app.access_of(&parts);
    if !access.meets(gate.needs) {
        return Failure::Forbidden.into_response();
    }
    parts.extensions.insert(access);
    let mut asked = parts.clone();
    let response = answered(&gate.app, &asked.method, next.run(Request::from_parts(parts, body))).await;
    if matches!(gate.needs, Needs::Right(_)) {
        gate.app.sampler.next_round();
    }
    if response.extensions().get::<Told>().is_some()
        && let Ok(mut page) = Page::from_request_parts(&mut asked, &gate.app).await
    {
        if asked.method != Method::GET {
            // A browser cannot be sent back to the path of a form.
            page.here = String::new();
        }
        return with_navigation(&page, response);
    }
    response
}

/// The answer to a request, within the time that a page may take. A change is waited for: its answer says whether it was made.
async fn answered(app: &App, method: &Method, answer: impl Future<Output = Response>) -> Response {
    if *method != Method::GET {
        return answer.await;
    }
    let failure = app.sampler.seen().failure;
    let most = match &failure {
        Some(failure) if failure.is_slow => SLOW,
        Some(_) => OUTAGE,
        None if app.sampler.is_late() => SLOW,
        None => SLOWEST,
    };
    let response = match timeout(most, answer).await {
        Ok(response) => response,
        Err(_) => Failure::Away(failure.map(|failure| failure.why)).into_response(),
    };
    if response.status() == StatusCode::SERVICE_UNAVAILABLE && app.all_places().is_none() {
        // The sampler finds out whether the next page needs to wait.
        app.sampler.want();
    }
    response
}

/// A failure as a page with its navigation, where the visitor may read.
fn with_navigation(page: &Page, failed: Response) -> Response {
    let Some(Told { title, text }) = failed.extensions().get::<Told>() else { return failed };
    let body = html! {
        p.callout.critical role="alert" data-old[failed.status() == StatusCode::SERVICE_UNAVAILABLE] { (Hostile(text)) }
        p { "Go back with your browser, reload the page, or open the " a.inline href=(page.link("/")) { "overview" } "." }
    };
    let (_, document) = document(page, Document { title, is_live: false, actions: html! {}, body });
    (failed.status(), document).into_response()
}
