//! The answers to requests that fail.

use std::borrow::Cow;
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
    /// The database does not answer, perhaps for a reason that is known.
    Away(Option<String>),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match (code(&error).as_deref(), &error) {
            // PostgreSQL refused a NUL in a text or in JSON. Each text of a statement comes from the request.
            (Some("22021" | "22P05"), _) => Self::Bad(
                "A text of the request contains the character U+0000, which PostgreSQL does not store.".to_owned(),
            ),
            // Unless a function of the schema refused a value of the request.
            (given, Error::Database(_)) if given != Some("22023") => Self::Database(Arc::new(error)),
            _ => Self::Bad(error.to_string()),
        }
    }
}

/// The words of a failure, which a response carries to the gate of its route.
#[derive(Clone)]
pub(crate) struct Told {
    pub(crate) title: &'static str,
    pub(crate) text: String,
}

fn code(error: &Error) -> Option<Cow<'_, str>> {
    let Error::Database(error) = error else { return None };
    error.as_database_error().and_then(|error| error.code())
}

/// Whether the database stopped the statement because of its time limit (57014), or of its limit for locks (55P03).
fn waited(error: &Error) -> bool {
    error.is_statement_timeout() || code(error).is_some_and(|code| code == "55P03")
}

/// An answer. `None`: it was stopped at its time limit.
pub(crate) fn in_time<T>(answer: uniqueue::Result<T>) -> Result<Option<T>, Failure> {
    match answer {
        Err(error) if error.is_statement_timeout() => Ok(None),
        answer => Ok(Some(answer?)),
    }
}

/// An error for the visitor. Of a statement that was stopped the database does not say what it waited for.
pub(crate) fn told(error: &Error) -> String {
    if waited(error) {
        format!(
            "The database stopped the statement, and nothing was changed: {error}. It may have waited for an open transaction. \
             Doctor names those that are open for long, and Waiting inserts names the sessions that hold inserts up."
        )
    } else {
        error.to_string()
    }
}

impl Failure {
    /// The failure of a part of a page.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Forbidden => "you do not have the right to see it".to_owned(),
            Self::NotFound(what) => format!("there is no such {what}"),
            Self::Bad(why) => why.clone(),
            Self::Database(error) => error.to_string(),
            Self::Away(why) => why.clone().unwrap_or_else(|| "it does not answer".to_owned()),
        }
    }
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
                tracing::warn!(error = ?error.to_string(), "a request to the dashboard failed");
                let title = if waited(&error) { "This took too long" } else { "The database did not answer" };
                (StatusCode::SERVICE_UNAVAILABLE, title, told(&error))
            }
            Self::Away(why) => {
                let why = why.map(|why| format!(": {why}")).unwrap_or_default();
                let text = format!("The page was not read in time{why}.");
                (StatusCode::SERVICE_UNAVAILABLE, "The database does not answer", text)
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
        let mut response = (status, Html(page.into_string())).into_response();
        response.extensions_mut().insert(Told { title, text });
        response
    }
}
