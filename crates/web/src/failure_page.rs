//! A failure as a page of the dashboard.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use maud::html;

use crate::failure::Told;
use crate::html::{Document, Hostile, document};
use crate::page::Page;

/// The same failure as a page with its navigation, where the visitor may read.
pub(crate) fn with_navigation(page: &Page, failed: Response) -> Response {
    let Some(Told { title, text }) = failed.extensions().get::<Told>() else { return failed };
    let body = html! {
        p.callout.critical role="alert" data-old[failed.status() == StatusCode::SERVICE_UNAVAILABLE] { (Hostile(text)) }
        p { "Go back with your browser, reload the page, or open the " a.inline href=(page.link("/")) { "overview" } "." }
    };
    let (_, document) = document(page, Document { title, is_live: false, actions: html! {}, body });
    (failed.status(), document).into_response()
}
