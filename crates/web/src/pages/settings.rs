//! Theme and time zone, kept in cookies of the browser.

use axum::Form;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use crate::page::Page;

#[derive(Deserialize)]
pub(crate) struct Settings {
    theme: Option<String>,
    time: Option<String>,
    /// The page to go back to.
    #[serde(default)]
    back: String,
}

/// Stores the settings and goes back.
pub(crate) async fn change(page: Page, Form(settings): Form<Settings>) -> Response {
    let mut response = page.go_to(&settings.back).into_response();
    // Only known words become part of a header.
    let theme = settings.theme.filter(|theme| crate::page::theme(theme).is_some());
    let time = settings.time.filter(|time| ["utc", "local"].contains(&time.as_str()));
    for (name, value) in [("uniqueue_theme", theme), ("uniqueue_time", time)] {
        let Some(value) = value else { continue };
        let path = page.cookie_path();
        let cookie = format!("{name}={value}; Path={path}; Max-Age=31536000; SameSite=Lax; HttpOnly");
        if let Ok(cookie) = cookie.parse() {
            response.headers_mut().append(header::SET_COOKIE, cookie);
        }
    }
    response
}
