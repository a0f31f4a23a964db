//! `uniqueue serve`: the dashboard in a process of its own.
//!
//! ```text
//! connections (TCP or a Unix socket, how many, how slow, TLS) ─▶ authenticate (credentials of the request)
//!                                 ─▶ uniqueue-http (hosts, origins, bodies) ─▶ uniqueue-web or uniqueue-ojs (rights, answers)
//! ```

mod args;
mod authenticate;
mod connections;
mod credentials;
mod delays;
mod demo;
mod doors;
mod slots;

use std::sync::Arc;

use axum::Router;
use axum::http::request::Parts;
use tokio_util::sync::CancellationToken;
use uniqueue::shutdown_signal;
use uniqueue_faktory::Rights;
use uniqueue_web::{Access, Web};

use self::authenticate::Checks;
use self::connections::{Limits, Listening};
use self::credentials::{Credentials, User};
use self::demo::Demo;
use self::doors::{Door, Doors};
use crate::places::all as places_of_map;
use crate::prelude::*;

pub(crate) use self::args::ServeArguments;

/// How long requests may take after an interrupt.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves a queue, or all places of a map, until an interrupt.
pub(crate) async fn run(arguments: ServeArguments) -> Result<Verdict, Failure> {
    if let Some(user) = &arguments.hash_password {
        output::print(&format!("{}\n", credentials::line(user)?))?;
        return Ok(Verdict::Fine);
    }
    let map = places_of_map().map(|places| places.map().clone());
    let credentials = Credentials::read(&arguments)?;
    check_trusted_header(&arguments)?;
    if map.is_some() {
        check_one_place(&arguments)?;
    }
    let tls = connections::read_tls(&arguments)?;
    doors::check_faktory(&arguments, &credentials)?;
    let listening = Listening::open(&arguments, &credentials, tls.as_ref()).await?;
    let listen = async |option, address| match address {
        Some(address) => Listening::tcp(option, address, &credentials, tls.as_ref()).await.map(Some),
        None => Ok(None),
    };
    let faktory = listen("--faktory", arguments.faktory).await?;
    let ojs = listen("--ojs", arguments.ojs).await?;
    let stop = CancellationToken::new();
    let signal = stop.clone();
    // Before anything is started that an interrupt must stop in order.
    tokio::spawn(async move {
        shutdown_signal().await;
        signal.cancel();
    });
    let limits = Limits { most: arguments.max_clients, read: arguments.request_timeout.0, words: |answer| answer };
    let demo = match arguments.demo {
        true => Some(Demo::start(&arguments.database).await?),
        false => None,
    };
    let url = match (&demo, &map) {
        (Some(demo), _) => demo.url().to_owned(),
        (None, None) => doors::given_url(&arguments).await?,
        // The doors serve one place.
        (None, Some(_)) => String::new(),
    };
    let (web, clients) = match map {
        Some(map) => {
            let places = doors::open_places(map, &arguments);
            let clients = places.iter().map(|(_, client)| client.clone()).collect();
            (Web::over(places), clients)
        }
        None => {
            let client = doors::open(&url, &arguments, arguments.connections, arguments.statement_timeout.0)?;
            (Web::new(client.clone()), vec![client])
        }
    };
    let router = router(web, &arguments, &stop);
    let doors =
        Doors { arguments: &arguments, url, checks: Arc::new(Checks::new(credentials)), limits, stop: stop.clone() };
    let faktory = faktory.map(|listening| doors.faktory(listening)).transpose()?;
    let ojs = match ojs {
        Some(listening) => Some(doors.ojs(listening).await?),
        None => None,
    };
    let doors = [Some(doors.dashboard(listening, router)), faktory, ojs];
    announce(&arguments, &doors)?;
    let [dashboard, faktory, ojs] = doors.map(serve);
    tokio::select! {
        _ = async { tokio::join!(dashboard, faktory, ojs) } => {}
        () = too_long_after(&stop) => {}
    }
    for client in clients {
        client.pool().close().await;
    }
    if let Some(demo) = demo {
        demo.stop().await?;
    }
    Ok(Verdict::Fine)
}

/// Serves a door until the token is cancelled, where it is open.
async fn serve(door: Option<Door>) {
    if let Some(door) = door {
        door.serving.await;
    }
}

/// Completes when a request has taken too long since the stop.
async fn too_long_after(stop: &CancellationToken) {
    stop.cancelled().await;
    tokio::time::sleep(STOP_TIMEOUT).await;
}

/// The dashboard, with the rights that the credentials of a request gave.
fn router(web: Web, arguments: &ServeArguments, stop: &CancellationToken) -> Router {
    let access = |parts: &Parts| match parts.extensions.get::<User>() {
        Some(User { name, rights: Rights::All }) => Access::all().given(name.as_ref(), Access::user),
        Some(User { name, rights: Rights::Read }) => Access::read().given(name.as_ref(), Access::user),
        None => Access::none(),
    };
    let web = web.access(access).checks(arguments.checks()).shutdown(stop.clone().cancelled_owned());
    web.given_flag(arguments.read_only, Web::read_only).router()
}

/// Refuses options that serve one queue if a map names several places.
fn check_one_place(arguments: &ServeArguments) -> Result<(), Failure> {
    let one =
        [("--demo", arguments.demo), ("--faktory", arguments.faktory.is_some()), ("--ojs", arguments.ojs.is_some())];
    match one.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(Failure::refused(
            format!("{option} serves one place"),
            "name the place with --place, or leave the option out",
        )),
        None => Ok(()),
    }
}

/// Refuses a trusted header that every client could send.
fn check_trusted_header(arguments: &ServeArguments) -> Result<(), Failure> {
    match &arguments.trusted_header {
        Some(header) if arguments.trusted_proxy.is_empty() && arguments.socket.is_none() => Err(Failure::refused(
            format!("every client could send the header: {header}"),
            "name the proxy's addresses with --trusted-proxy, or listen on a Unix socket with --socket",
        )),
        _ => Ok(()),
    }
}

/// Prints the addresses of the dashboard, of Faktory and of Open Job Spec.
fn announce(arguments: &ServeArguments, doors: &[Option<Door>; 3]) -> Result<Verdict, Failure> {
    let [url, faktory, ojs] = doors.each_ref().map(|door| door.as_ref().and_then(|door| door.url.clone()));
    let socket = arguments.socket.as_ref().map(|path| path.display().to_string());
    let read_only = arguments.read_only;
    let listening = json!({ "url": url, "socket": socket, "faktory": faktory, "ojs": ojs, "read_only": read_only });
    let place = url.or(socket).unwrap_or_default();
    let note = if read_only { " (read-only)" } else { "" };
    let faktory = faktory.map(|url| format!(", Faktory at {url}")).unwrap_or_default();
    let ojs = ojs.map(|url| format!(", Open Job Spec at {url}")).unwrap_or_default();
    let text = format!("dashboard at {place}{note}{faktory}{ojs}; stop with Ctrl-C\n");
    Form::of_one(arguments.database.json).object(&listening, |_| text)?.print()
}
