//! What a request gets that cannot be answered.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use maud::{DOCTYPE, html};
use uniqueue::Error;

use crate::html::Hostile;

/// A request that cannot be answered.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// The visitor may not do this.
    Forbidden,
    /// There is no such thing.
    NotFound(&'static str),
    /// The request makes no sense. The text says why.
    Bad(String),
    /// The database did not answer in time, or refused.
    Database(Arc<Error>),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            _ if is_nul(&error) => Self::Bad(
                "A text of the request contains the character U+0000, which PostgreSQL does not store.".to_owned(),
            ),
            Error::Database(_) => Self::Database(Arc::new(error)),
            _ => Self::Bad(error.to_string()),
        }
    }
}

/// Whether PostgreSQL refused a NUL in a text (22021) or in JSON (22P05). Each text of a statement comes from the request.
fn is_nul(error: &Error) -> bool {
    let Error::Database(error) = error else { return false };
    error.as_database_error().and_then(|error| error.code()).is_some_and(|code| matches!(&*code, "22021" | "22P05"))
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let (status, title, text) = match self {
            Self::Forbidden => {
                (StatusCode::FORBIDDEN, "Not allowed", "You do not have the right to do this here.".to_owned())
            }
            Self::NotFound(what) => (StatusCode::NOT_FOUND, "Not found", format!("There is no such {what}.")),
            Self::Bad(why) => (StatusCode::BAD_REQUEST, "This cannot be done", why),
            Self::Database(error) => {
                // The text may quote what a client sent. As a quoted string it stays one line.
                tracing::warn!(error = ?error.to_string(), "a page of the dashboard could not be read");
                (StatusCode::SERVICE_UNAVAILABLE, "The database did not answer", error.to_string())
            }
        };
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (title) }
                }
                body {
                    main {
                        h1 { (title) }
                        p { (Hostile(&text)) }
                        p { "Go back with your browser, or reload the page." }
                    }
                }
            }
        };
        (status, Html(page.into_string())).into_response()
    }
}
