//! The request as a handler sees it: the visitor, the links, the settings.

use std::fmt::Debug;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::extract::{FromRequestParts, OriginalUri};
use axum::http::header;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Redirect, Response};
use time::OffsetDateTime;
use uniqueue::{Client, PlaceName};
use uniqueue_admin::Admin;

use crate::access::{Access, Right};
use crate::app::{App, Scope};
use crate::failure::Failure;
use crate::sampler::{Seen, Snapshot};

/// How long a look-up of a page may take.
pub(crate) const LOOK_UP: Duration = Duration::from_secs(2);

/// The most bytes of a name in the log of changes.
const MAX_ACTOR_BYTES: usize = 200;

/// A change in the visitor's name. The changes of the library share the method, and no trait.
macro_rules! by {
    ($page:expr, $change:expr) => {
        match $page.actor() {
            Some(actor) => $change.actor(actor),
            None => $change,
        }
    };
}
pub(crate) use by;

/// A request of a visitor.
#[derive(Clone)]
pub(crate) struct Page {
    pub(crate) app: Arc<App>,
    pub(crate) access: Access,
    pub(crate) theme: &'static str,
    /// Whether times are shown in the browser's time zone. Only a script knows it.
    pub(crate) is_local_time: bool,
    /// The path within the dashboard, with its query.
    pub(crate) here: String,
    /// The sample from which the page is made, and what is wrong with it.
    pub(crate) seen: OnceLock<Seen>,
    /// The place of these rows, on a page over all places.
    pub(crate) among: Option<PlaceName>,
    prefix: String,
}

impl Page {
    pub(crate) fn client(&self) -> &Client {
        &self.app.client
    }

    /// The questions and changes of operators in the schema of this client.
    pub(crate) fn admin(&self) -> Admin<'_> {
        Admin::new(self.client())
    }

    /// The latest sample. The frame of the page says when it is old, or why there is none.
    pub(crate) async fn sample(&self) -> Option<Arc<Snapshot>> {
        let seen = self.app.sampler.latest().await;
        self.seen.get_or_init(|| seen).snapshot.clone()
    }

    /// The database's time, for what the page tells. A change asks the database instead.
    pub(crate) async fn now(&self) -> Result<OffsetDateTime, Failure> {
        Ok(self.app.clock.now(self.client().database_time().timeout(LOOK_UP).into_future()).await?)
    }

    /// The answer about the thing with this key, which all open pages share.
    pub(crate) async fn shared<T: Send + Sync + 'static>(
        &self,
        key: impl Debug,
        ask: impl Future<Output = Result<T, Failure>>,
    ) -> Result<Arc<T>, Failure> {
        // A page that follows the queue is read again, and must not wait in an outage.
        self.app.sampler.want();
        self.app.answers.of(key).get(|| self.app.sampler.round(), ask).await
    }

    /// An answer that changes slowly, as the history does. All open pages share it for longer than a sample.
    pub(crate) async fn shared_longer<T: Send + Sync + 'static>(
        &self,
        key: impl Debug,
        ask: impl Future<Output = Result<T, Failure>>,
    ) -> Result<Arc<T>, Failure> {
        self.app.sampler.want();
        self.app.answers.of(key).get_slow(ask).await
    }

    pub(crate) fn may(&self, right: Right) -> bool {
        self.access.has(right)
    }

    /// The visitor's name for the log of changes in the database, within that log's limits.
    pub(crate) fn actor(&self) -> Option<String> {
        let mut actor = self.access.name()?.replace('\0', "");
        actor.truncate(actor.floor_char_boundary(MAX_ACTOR_BYTES));
        (!actor.is_empty()).then_some(actor)
    }

    /// Writes a change to the log of the process. The name is hostile text, so it is quoted.
    pub(crate) fn log(&self, verb: &str, subject: &str) {
        let user = self.access.name();
        tracing::info!(?user, verb, ?subject, "a change from the dashboard");
    }

    /// The link to a path within the dashboard. Under a prefix the overview has no slash at its end: a nested router does
    /// not answer there.
    pub(crate) fn link(&self, path: &str) -> String {
        let is_overview = path == "/" || path.starts_with("/?");
        let path = if is_overview && !self.prefix.is_empty() { &path[1..] } else { path };
        format!("{}{path}", self.prefix)
    }

    /// The path under which the dashboard is mounted, with all its places.
    pub(crate) fn base(&self) -> &str {
        match &self.app.scope {
            Scope::Place { names, at } => self.prefix.strip_suffix(&place_path(&names[*at])).unwrap_or(&self.prefix),
            _ => &self.prefix,
        }
    }

    /// The path of its cookies.
    pub(crate) fn cookie_path(&self) -> &str {
        if self.base().is_empty() { "/" } else { self.base() }
    }

    /// The same request to the pages of a place, from the pages over all of them.
    pub(crate) fn in_place(&self, name: &PlaceName, app: &Arc<App>) -> Self {
        let (app, prefix) = (Arc::clone(app), format!("{}{}", self.prefix, place_path(name)));
        Self { app, prefix, seen: OnceLock::new(), among: Some(name.clone()), ..self.clone() }
    }

    /// The name of this place, by which rows of one name are ordered in a list of several places.
    pub(crate) fn place(&self) -> Option<&str> {
        self.among.as_ref().map(|place| place.as_str())
    }

    /// Whether a list that goes on after a row begins here with a row of that name, because the last row of the page before
    /// was that of an earlier place.
    pub(crate) fn is_after(&self, place: Option<&str>) -> bool {
        place.is_some() && self.place() > place
    }

    /// Sends the browser to another page of the dashboard. A path that would lead elsewhere leads to the overview.
    pub(crate) fn go_to(&self, path: &str) -> Response {
        let path = if is_local(path) { path } else { "/" };
        Redirect::to(&self.link(path)).into_response()
    }

    /// The path within the dashboard.
    pub(crate) fn path(&self) -> &str {
        self.here.split('?').next().unwrap_or_default()
    }
}

impl FromRequestParts<Arc<App>> for Page {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Failure> {
        // The gate of the route leaves it. Without a gate there is no page.
        let access = parts.extensions.get::<Access>().cloned().ok_or(Failure::Forbidden)?;
        let original = parts.extensions.get::<OriginalUri>().map_or_else(|| parts.uri.path(), |uri| uri.path());
        let prefix = match &app.prefix {
            Some(prefix) => prefix.clone(),
            None => prefix_of(original, parts.uri.path()).to_owned(),
        };
        if !prefix.is_empty() && !is_local(&prefix) {
            return Err(Failure::NotFound("page"));
        }
        let here = parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let cookies = parts.headers.get_all(header::COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
        let (app, seen) = (Arc::clone(app), OnceLock::new());
        let mut page = Self { app, access, theme: THEMES[0], is_local_time: false, here, seen, among: None, prefix };
        for (name, value) in cookies.flat_map(|cookies| cookies.split(';')).filter_map(|one| one.trim().split_once('='))
        {
            match name {
                "uniqueue_theme" => page.theme = theme(value).unwrap_or(THEMES[0]),
                "uniqueue_time" => page.is_local_time = value == "local",
                _ => {}
            }
        }
        Ok(page)
    }
}

/// The colours of the page. The first one is that of the system.
pub(crate) const THEMES: [&str; 3] = ["system", "light", "dark"];

/// The theme of this name.
pub(crate) fn theme(name: &str) -> Option<&'static str> {
    THEMES.into_iter().find(|theme| *theme == name)
}

/// The path of the pages of a place. It ends with the name, percent-encoded.
pub(crate) fn place_path(name: &PlaceName) -> String {
    let mut path = "/place:".to_owned();
    for byte in name.as_str().bytes() {
        match byte {
            b'-' | b'.' | b'_' | b'~' => path.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => path.push(char::from(byte)),
            byte => path.push_str(&format!("%{byte:02X}")),
        }
    }
    path
}

/// The part of the path that the application's router took away.
pub(crate) fn prefix_of<'p>(original: &'p str, inner: &str) -> &'p str {
    original.strip_suffix(inner).or_else(|| original.strip_suffix('/')).unwrap_or(original)
}

/// Whether a browser reads this as a path of the same host: `//host` and `/\host` are other hosts.
pub(crate) fn is_local(path: &str) -> bool {
    let mut characters = path.chars();
    characters.next() == Some('/')
        && !matches!(characters.next(), Some('/' | '\\'))
        && !path.contains(|character: char| character.is_control() || character == '\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_is_what_the_application_took_away() {
        assert_eq!(prefix_of("/queue/jobs", "/jobs"), "/queue");
        assert_eq!(prefix_of("/queue", "/"), "/queue");
        assert_eq!(prefix_of("/queue/", "/"), "/queue");
        assert_eq!(prefix_of("/", "/"), "");
        assert_eq!(prefix_of("/jobs", "/jobs"), "");
    }

    #[test]
    fn a_place_of_any_name_has_a_path_of_its_own() {
        let path = |name| place_path(&PlaceName::new(name).unwrap());
        assert_eq!(path("eu-1"), "/place:eu-1");
        assert_eq!(path("../ä {x}"), "/place:..%2F%C3%A4%20%7Bx%7D");
    }

    #[test]
    fn another_host_is_not_local() {
        for path in
            ["//evil.example", "/\\evil.example", "https://evil.example", "", "evil", "/a\r\nb", "/\t/evil.example"]
        {
            assert!(!is_local(path), "{path:?}");
        }
        assert!(is_local("/jobs?state=running"));
    }
}
