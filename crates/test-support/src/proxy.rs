//! A proxy in front of the database that harms connections: all that are open, some of them, or the one over which a
//! certain statement is sent next.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::dice::Dice;
use crate::frames::Frames;

/// How long each answer of a slow connection takes.
const SLOWNESS: Duration = Duration::from_millis(300);

pub struct Proxy {
    port: u16,
    /// The database's name.
    database: String,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

struct Shared {
    /// The server's socket, which is another after each restart.
    socket: Mutex<PathBuf>,
    open: Mutex<Vec<watch::Sender<Option<Fault>>>>,
    traps: Mutex<Vec<Trap>>,
    /// How long a frozen connection stays open.
    silence: Mutex<Duration>,
}

/// A fault of a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    /// Closed in the middle of the server's next answer.
    Cut,
    /// Reset in place of the server's next answer.
    Reset,
    /// Silent from now on, both ways: as when a cable is pulled. Never closed, or late ([`Proxy::close_silent_after`]).
    Frozen,
    /// The server receives, and its answers are lost.
    FrozenOneWay,
    /// The server receives, and the client is told that no more answers come.
    HalfClosed,
    /// Each answer takes a third of a second.
    Slow,
}

/// A fault for the connection over which a statement is sent next.
struct Trap {
    /// A part of the statement's text.
    marker: &'static str,
    fault: Fault,
    sprung: oneshot::Sender<()>,
}

impl Proxy {
    /// Starts one before the server of this URL, which is at a socket.
    pub async fn before(url: &str) -> Self {
        let database = url.split(['/', '?']).nth(3).expect("a database").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (socket, open, traps) = (Mutex::new(socket(url)), Mutex::default(), Mutex::default());
        let silence = Mutex::new(Duration::MAX);
        let shared = Arc::new(Shared { socket, open, traps, silence });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self { port, database, shared, accepting }
    }

    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{}?sslmode=disable", self.port, self.database)
    }

    pub fn lead_to(&self, url: &str) {
        *self.shared.socket.lock().unwrap() = socket(url);
    }

    /// Cuts some connections as soon as the server answers on them. Says how many it chose.
    pub fn cut(&self, dice: &mut Dice, at_most: usize) -> usize {
        let mut open = self.shared.open.lock().unwrap();
        open.retain(|connection| !connection.is_closed());
        dice.shuffle(&mut open);
        let chosen = open.iter().take(at_most);
        chosen.filter(|connection| connection.send(Some(Fault::Cut)).is_ok()).count()
    }

    /// Closes frozen connections after this time, as a pooler on the client's host does that watches them
    /// (docs/operate/operations.md, Keepalive).
    pub fn close_silent_after(&self, limit: Duration) {
        *self.shared.silence.lock().unwrap() = limit;
    }

    /// Lets every connection that is open fall silent. New ones are carried. Says how many there were.
    pub fn freeze(&self) -> usize {
        let mut open = self.shared.open.lock().unwrap();
        open.drain(..).filter(|connection| connection.send(Some(Fault::Frozen)).is_ok()).count()
    }

    /// Harms the connection over which a statement with this text is sent next, as it is sent. Resolves when it was.
    pub fn strike(&self, marker: &'static str, fault: Fault) -> oneshot::Receiver<()> {
        let (sprung, struck) = oneshot::channel();
        self.shared.traps.lock().unwrap().push(Trap { marker, fault, sprung });
        struck
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Shared {
    /// The fault for the connection over which these statements are sent.
    fn trapped(&self, sent: &[String]) -> Option<Fault> {
        let mut traps = self.traps.lock().unwrap();
        let place = traps.iter().position(|trap| sent.iter().any(|statement| statement.contains(trap.marker)))?;
        let Trap { fault, sprung, .. } = traps.swap_remove(place);
        let _ = sprung.send(());
        Some(fault)
    }
}

fn socket(url: &str) -> PathBuf {
    let (_, home) = url.split_once("host=").expect("a socket");
    PathBuf::from(home.replace("%2F", "/")).join(".s.PGSQL.5432")
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        let socket = shared.socket.lock().unwrap().clone();
        let (decide, fault) = watch::channel(None);
        shared.open.lock().unwrap().push(decide.clone());
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            // A server that is away is a connection that closes at once.
            if let Ok(server) = UnixStream::connect(socket).await {
                let _ = carry(client, server, &shared, decide, fault).await;
            }
        });
    }
}

/// Carries bytes both ways until either end closes, or a fault ends it.
async fn carry(
    mut client: TcpStream,
    mut server: UnixStream,
    shared: &Shared,
    decide: watch::Sender<Option<Fault>>,
    fault: watch::Receiver<Option<Fault>>,
) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let asking = async {
        let mut frames = Frames::default();
        let mut asked = vec![0; 64 * 1024];
        loop {
            let size = from_client.read(&mut asked).await?;
            if size == 0 {
                return to_server.shutdown().await;
            }
            if let Some(fault) = shared.trapped(&frames.sent(&asked[..size])) {
                decide.send_replace(Some(fault));
                if fault == Fault::Frozen {
                    std::future::pending::<()>().await;
                }
            }
            to_server.write_all(&asked[..size]).await?;
        }
    };
    let answering = async {
        let mut answer = vec![0; 64 * 1024];
        loop {
            let size = from_server.read(&mut answer).await?;
            if size == 0 {
                return Ok(());
            }
            let fault = *fault.borrow();
            match fault {
                // Half of it, so that the client is left in the middle of a message.
                Some(Fault::Cut) => return to_client.write_all(&answer[..size / 2]).await,
                Some(Fault::Reset) => return to_client.as_ref().set_zero_linger(),
                Some(Fault::FrozenOneWay) => continue,
                Some(Fault::HalfClosed) => {
                    let _ = to_client.shutdown().await;
                    continue;
                }
                Some(Fault::Slow) => tokio::time::sleep(SLOWNESS).await,
                Some(Fault::Frozen) | None => {}
            }
            to_client.write_all(&answer[..size]).await?;
        }
    };
    let mut decided = fault.clone();
    let frozen = async {
        // Without a decision, because its sender is gone, the data is forwarded.
        if decided.wait_for(|fault| *fault == Some(Fault::Frozen)).await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        biased;
        () = frozen => {
            let limit = *shared.silence.lock().unwrap();
            tokio::time::sleep(limit).await;
            Ok(())
        }
        ended = asking => ended,
        ended = answering => ended,
    }
}
