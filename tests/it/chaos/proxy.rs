//! A proxy in front of the database that cuts connections during an answer: the client cannot know whether the server
//! has committed.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::dice::Dice;

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
    open: Mutex<Vec<watch::Sender<Fate>>>,
}

/// What becomes of a connection.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Fate {
    Carried,
    /// Closed in the middle of the server's next answer.
    Cut,
    /// Silent from now on, and never closed: as when a cable is pulled.
    Frozen,
}

impl Proxy {
    /// Starts one before the server of this URL, which is at a socket.
    pub async fn before(url: &str) -> Self {
        let database = url.split(['/', '?']).nth(3).expect("a database").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let shared = Arc::new(Shared { socket: Mutex::new(socket(url)), open: Mutex::default() });
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
        open.iter().take(at_most).filter(|connection| connection.send(Fate::Cut).is_ok()).count()
    }

    /// Lets every connection that is open fall silent. New ones are carried.
    pub fn freeze(&self) {
        for connection in self.shared.open.lock().unwrap().drain(..) {
            connection.send_replace(Fate::Frozen);
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn socket(url: &str) -> PathBuf {
    let (_, home) = url.split_once("host=").expect("a socket");
    PathBuf::from(home.replace("%2F", "/")).join(".s.PGSQL.5432")
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        let socket = shared.socket.lock().unwrap().clone();
        let (decide, fate) = watch::channel(Fate::Carried);
        shared.open.lock().unwrap().push(decide);
        tokio::spawn(async move {
            // A server that is away is a connection that closes at once.
            if let Ok(server) = UnixStream::connect(socket).await {
                let _ = carry(client, server, fate).await;
            }
        });
    }
}

/// Carries bytes both ways until either end closes, or an answer is to be lost.
async fn carry(mut client: TcpStream, mut server: UnixStream, fate: watch::Receiver<Fate>) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let asking = async {
        tokio::io::copy(&mut from_client, &mut to_server).await?;
        to_server.shutdown().await
    };
    let answering = async {
        let mut answer = vec![0; 64 * 1024];
        loop {
            let size = from_server.read(&mut answer).await?;
            if size == 0 {
                return Ok(());
            }
            if *fate.borrow() == Fate::Cut {
                // Half of it, so that the client is left in the middle of a message.
                return to_client.write_all(&answer[..size / 2]).await;
            }
            to_client.write_all(&answer[..size]).await?;
        }
    };
    let mut decided = fate.clone();
    let frozen = async {
        // Without a decision, because its sender is gone, the data is forwarded.
        if decided.wait_for(|fate| *fate == Fate::Frozen).await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        biased;
        () = frozen => std::future::pending().await,
        ended = asking => ended,
        ended = answering => ended,
    }
}
