//! The check of rights, and the time of an answer.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use maud::html;
use tokio::time::timeout;

use crate::access::Needs;
use crate::app::App;
use crate::failure::{Failure, Told};
use crate::html::{Document, Hostile, document};
use crate::page::Page;

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
