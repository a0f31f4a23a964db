//! `uniqueue serve`: the dashboard in a process of its own.
//!
//! ```text
//! listener (TCP or a Unix socket) ─▶ connections (how many, how slow, TLS) ─▶ authenticate (credentials of the request)
//!                                 ─▶ uniqueue-http (hosts, origins, bodies) ─▶ uniqueue-web or uniqueue-ojs (rights, answers)
//! ```

mod args;
mod authenticate;
mod connections;
mod credentials;
mod delays;
mod demo;
mod faktory;
mod listener;
mod ojs;
mod password;
mod pool;
mod slots;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use uniqueue::shutdown_signal;
use uniqueue_faktory::Rights;
use uniqueue_web::{Access, Web};

use self::authenticate::Checks;
use self::connections::Limits;
use self::credentials::{Credentials, User};
use self::demo::Demo;
use self::listener::{Door, Listening};
use crate::exit::{Failure, Verdict};
use crate::output::{self, Form};
use crate::places::all as places_of_map;

pub(crate) use self::args::ServeArguments;

/// How long requests may take after an interrupt.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves a queue, or all places of a map, until an interrupt.
pub(crate) async fn run(arguments: ServeArguments) -> Result<Verdict, Failure> {
    if let Some(user) = &arguments.hash_password {
        output::print(&format!("{}\n", password::line(user)?))?;
        return Ok(Verdict::Fine);
    }
    let map = places_of_map().map(|places| places.map().clone());
    let credentials = Credentials::read(&arguments)?;
    check_trusted_header(&arguments)?;
    if map.is_some() {
        check_one_place(&arguments)?;
    }
    let tls = listener::read_tls(&arguments)?;
    faktory::check(&arguments, &credentials)?;
    let listening = Listening::open(&arguments, &credentials, tls.as_ref()).await?;
    let faktory = Listening::of_door("--faktory", arguments.faktory, &credentials, tls.as_ref()).await?;
    let ojs = Listening::of_door("--ojs", arguments.ojs, &credentials, tls.as_ref()).await?;
    let stop = CancellationToken::new();
    let signal = stop.clone();
    // Before anything is started that an interrupt must stop in order.
    tokio::spawn(async move {
        shutdown_signal().await;
        signal.cancel();
    });
    let limits = Limits { most: arguments.max_clients, read: arguments.request_timeout.0, words: |answer| answer };
    let checks = Arc::new(Checks::new(credentials));
    let demo = match arguments.demo {
        true => Some(Demo::start(&arguments.database).await?),
        false => None,
    };
    let url = match (&demo, &map) {
        (Some(demo), _) => demo.url().to_owned(),
        (None, None) => pool::given_url(&arguments).await?,
        // The doors serve one place.
        (None, Some(_)) => String::new(),
    };
    let (web, clients) = match map {
        Some(map) => {
            let places = pool::open_places(map, &arguments);
            let clients = places.iter().map(|(_, client)| client.clone()).collect();
            (Web::over(places), clients)
        }
        None => {
            let client = pool::open(&url, &arguments)?;
            (Web::new(client.clone()), vec![client])
        }
    };
    let open = |listening| faktory::open(listening, &url, &arguments, &checks, stop.clone());
    let faktory = faktory.map(open).transpose()?;
    let ojs = match ojs {
        Some(listening) => Some(ojs::open(listening, &url, &arguments, &checks, limits, stop.clone()).await?),
        None => None,
    };
    announce(&arguments, &listening, faktory.as_ref(), ojs.as_ref())?;
    let router = router(web, &checks, &arguments, &stop);
    tokio::select! {
        _ = async { tokio::join!(listening.serve(router, limits, stop.clone()), serve(faktory), serve(ojs)) } => {}
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

/// The dashboard behind the check of credentials.
fn router(web: Web, checks: &Arc<Checks>, arguments: &ServeArguments, stop: &CancellationToken) -> Router {
    let mut web = web
        .access(|parts| match parts.extensions.get::<User>() {
            Some(User { name, rights }) => {
                let access = match rights {
                    Rights::All => Access::all(),
                    Rights::Read => Access::read(),
                };
                match name {
                    Some(name) => access.user(name),
                    None => access,
                }
            }
            None => Access::none(),
        })
        .checks(arguments.checks())
        .shutdown(stop.clone().cancelled_owned());
    if arguments.read_only {
        web = web.read_only();
    }
    authenticate::around(web.router(), checks)
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

/// Prints the addresses.
fn announce(
    arguments: &ServeArguments,
    listening: &Listening,
    faktory: Option<&Door>,
    ojs: Option<&Door>,
) -> Result<Verdict, Failure> {
    let url = listening.url();
    let socket = arguments.socket.as_ref().map(|path| path.display().to_string());
    let [faktory, ojs] = [faktory, ojs].map(|door| door.and_then(|door| door.url.clone()));
    let read_only = arguments.read_only;
    let listening = json!({ "url": url, "socket": socket, "faktory": faktory, "ojs": ojs, "read_only": read_only });
    let place = url.or(socket).unwrap_or_default();
    let note = if read_only { " (read-only)" } else { "" };
    let faktory = faktory.map(|url| format!(", Faktory at {url}")).unwrap_or_default();
    let ojs = ojs.map(|url| format!(", Open Job Spec at {url}")).unwrap_or_default();
    let text = format!("dashboard at {place}{note}{faktory}{ojs}; stop with Ctrl-C\n");
    Form::of_one(arguments.database.json).object(&listening, |_| text)?.print()
}
