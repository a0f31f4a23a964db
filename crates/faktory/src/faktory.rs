//! The server.

use std::future::ready;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uniqueue::{Client, Maintainer, MaintainerHandle};
use uniqueue_admin::{KindCache, QueueCache};
use uniqueue_remote::SharedResults;

use crate::door::{Counts, Door, LONG_LINES, Removed};
use crate::fetches::Fetches;
use crate::hello::{Guard, Rights, Users};
use crate::limits::{ConnectionLimit, Limits};
use crate::reserved::AllReserved;
use crate::session::{self, AnyStream};
use crate::workers::Workers;

/// How long commands may take after a stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// The wait after a connection could not be accepted, for want of file descriptors as a rule.
const ACCEPT_WAIT: Duration = Duration::from_millis(100);

/// A server of Faktory's protocol on a client's queue.
///
/// It uses the client's pool. Fetches and results of all connections share a few of its connections. Each push of a unique
/// job takes one. It also has a connection of its own for wake-ups and one for `INFO`, and does the maintenance of the queue.
///
/// Without [`user`](Self::user) every client may do everything: listen on the loopback interface then.
#[derive(Debug)]
#[must_use = "a server does nothing until it serves"]
pub struct Faktory {
    client: Client,
    users: Users,
    limits: Limits,
}

impl Faktory {
    /// A server without passwords.
    pub fn new(client: Client) -> Self {
        Self { client, users: Users::new(), limits: Limits::default() }
    }

    /// Lets clients with this password connect. The name is the actor of their changes
    /// (`uniqueue_admin::Admin::change_log`). The protocol names no users: the password tells which it is.
    pub fn user(mut self, name: impl Into<String>, password: impl Into<String>, rights: Rights) -> Self {
        self.users.add(name.into(), password.into(), rights);
        self
    }

    /// Delays the answers to wrong passwords. Default: no delay. Two passwords are checked at once in any case.
    pub fn guard(mut self, guard: Arc<dyn Guard>) -> Self {
        self.users.guard = Some(guard);
        self
    }

    /// Other limits than the defaults.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Serves connections until the future completes. Then it ends the commands that are under way, within 10 s, and closes
    /// all connections. Jobs that workers have stay reserved for them, and another server accepts their results.
    pub async fn serve(self, listener: TcpListener, stop: impl Future<Output = ()>) {
        self.serve_with(listener, |stream| ready(Ok(stream)), stop).await;
    }

    /// As [`serve`](Self::serve), over what `secure` makes of a connection: a TLS stream.
    pub async fn serve_with<S, F>(
        self,
        listener: TcpListener,
        secure: impl Fn(TcpStream) -> F,
        stop: impl Future<Output = ()>,
    ) where
        S: AsyncRead + AsyncWrite + Send + 'static,
        F: Future<Output = io::Result<S>> + Send + 'static,
    {
        let server = Server::start(self);
        tokio::pin!(stop);
        loop {
            let (stream, peer) = tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, address)) => (stream, Some(address.ip())),
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a connection");
                        sleep(ACCEPT_WAIT).await;
                        continue;
                    }
                },
                () = &mut stop => break,
            };
            // Replies are short, and the client waits for each.
            let _ = stream.set_nodelay(true);
            let secured = secure(stream);
            let secured: Handshake = Box::pin(async { Ok(Box::pin(secured.await?) as AnyStream) });
            server.sessions.spawn(connection(Arc::clone(&server.door), secured, peer));
        }
        drop(listener);
        Box::pin(server.stop()).await;
    }
}

/// Completes with the stream of a connection once TLS is negotiated.
type Handshake = Pin<Box<dyn Future<Output = io::Result<AnyStream>> + Send>>;

/// The tasks of a server. Its functions are plain ones, so that the tasks are compiled once, and not for each type of stream.
struct Server {
    door: Arc<Door>,
    /// The tasks that answer the sessions.
    services: TaskTracker,
    sessions: TaskTracker,
    /// Ends the fetches. Cancelled after the sessions have ended, because a session may wait for a fetch.
    end_fetches: CancellationToken,
}

impl Server {
    fn start(Faktory { client, users, limits }: Faktory) -> Self {
        let (services, end_fetches) = (TaskTracker::new(), CancellationToken::new());
        let door = Arc::new(Door {
            kinds: KindCache::new(client.clone()),
            queues: QueueCache::new(client.with_own_pool(1)),
            removed: Removed::default(),
            client: client.clone(),
            users,
            limits,
            connection_limit: ConnectionLimit::new(limits.connections),
            workers: Workers::default(),
            reserved: AllReserved::default(),
            fetches: Fetches::start(&client, &services, end_fetches.clone()),
            results: SharedResults::start(&client),
            counts: Counts::default(),
            started_at: Instant::now(),
            long_lines: Semaphore::new(LONG_LINES),
            stop: CancellationToken::new(),
        });
        services.spawn(maintain(client, door.stop.clone()));
        Self { door, services, sessions: TaskTracker::new(), end_fetches }
    }

    async fn stop(self) {
        let Self { door, services, sessions, end_fetches } = self;
        door.stop.cancel();
        sessions.close();
        if timeout(STOP_TIMEOUT, sessions.wait()).await.is_err() {
            tracing::warn!("commands were still under way at the end of the stop");
        }
        end_fetches.cancel();
        drop(door);
        services.close();
        let _ = timeout(STOP_TIMEOUT, services.wait()).await;
    }
}

/// One connection, from its TLS handshake on.
async fn connection(door: Arc<Door>, secured: Handshake, peer: Option<IpAddr>) {
    let stranger = door.connection_limit.stranger();
    let ended = async {
        let stream = timeout(door.limits.greeting, secured).await.map_err(|_| io::ErrorKind::TimedOut)??;
        session::run(&door, stream, peer, &stranger).await
    };
    if let Err(error) = ended.await {
        tracing::debug!(%error, "a connection ended with an error");
    }
    stranger.cancel();
}

/// Does the maintenance until the server stops.
async fn maintain(client: Client, stop: CancellationToken) {
    let Some(maintainer) = stop.run_until_cancelled(maintainer(&client)).await else { return };
    stop.cancelled().await;
    maintainer.stop().await;
}

/// Starts the maintenance as soon as the database is there.
async fn maintainer(client: &Client) -> MaintainerHandle {
    loop {
        match Maintainer::new(client.clone()).name("faktory").start().await {
            Ok(maintainer) => return maintainer,
            Err(error) => tracing::warn!(%error, "cannot start the maintenance, trying again"),
        }
        sleep(Duration::from_secs(1)).await;
    }
}
