//! The runner's own connections for fetches and results, apart from the application's pool.
//!
//! Not the pool's, for three reasons. An application may hold all of its connections for as long as it
//! likes. Work can be dropped at any `.await`: where that is sqlx's `begin`, the transaction has
//! begun and nobody ends it, so the connection goes back to the pool with it open. A fetch over such
//! a connection would never commit: its jobs would run, for nobody to see. And a pool asks a connection
//! whether it still lives when it is taken and when it is given back: two round trips for each statement.
//!
//! Invariants:
//! - What is sent over these connections is a transaction by itself, so none is ever left open; but for a fetch in its turn
//!   ([`look`](super::look)), which ends what it began, or closes the connection.
//! - A connection stays open only if the server did what it was asked, or refused it for its own sake. One that was not
//!   waited for to its end is closed, and whatever hangs of it hangs alone; so is one over which the server says no to
//!   everything: a primary that became a standby would do so for ever, and the next connection goes to the new one.
//! - A database that does not answer within a lease counts as one that cannot be reached.
//! - What nobody waits for any more does not go on in the server: it ends a statement a little before that. A backend
//!   that waits for a lock does not notice that its client is gone, and without an end each statement that is tried
//!   again while a table is locked would leave one more behind, and a fetch take jobs for nobody when the lock is gone.
//!   (Through a pooler nothing can be set for a session. There the role's `statement_timeout` must do it.)

use std::future::Future;
use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::{Error, Result};
use crate::store;

/// Two for the producer, one for the completer's line, one for what waits aside. Progress, which is stored once a second,
/// takes whichever is free.
const CONNECTIONS: usize = 4;

/// A connection that answered this lately is used without asking whether it still lives.
const FRESH: Duration = Duration::from_secs(1);

/// A connection that nobody needed for so long is closed when another is given back: an idle runner, which
/// still polls, comes down to one.
const IDLE: Duration = Duration::from_secs(60);

/// How long a connection is used at most, so that what a session gathers in the server goes with it.
const LIFETIME: Duration = Duration::from_mins(30);

/// Where a runner fetches and hands in results.
pub(super) struct Desk {
    options: PgConnectOptions,
    places: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<Idle>>>,
    patience: Duration,
    has_sessions: bool,
}

/// An open connection that nobody uses. The one that answered last is used first.
struct Idle {
    connection: PgConnection,
    opened_at: Instant,
    answered_at: Instant,
    /// Whether the last answer was an error: perhaps that it is being closed.
    is_doubtful: bool,
}

impl Desk {
    /// A desk that waits no longer than this for any answer.
    pub(super) fn new(options: PgConnectOptions, patience: Duration) -> Self {
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        Self { options, places, idle: Arc::default(), patience, has_sessions: false }
    }

    /// What is set for a session stays with it: no pooler gives it to others. So its statements are planned
    /// once, by index, and the server ends those that take too long.
    pub(super) async fn own_sessions(&mut self) -> Result<()> {
        self.has_sessions = true;
        let idle = std::mem::take(&mut *lock(&self.idle));
        for mut idle in idle {
            self.answer(store::plan_by_index(&mut idle.connection, self.longest())).await?;
            lock(&self.idle).push(idle);
        }
        Ok(())
    }

    /// Whether what is set for a session stays with it.
    pub(super) const fn has_sessions(&self) -> bool {
        self.has_sessions
    }

    /// A connection for one statement, whose answer is then [settled](DeskConnection::settle).
    pub(super) async fn connection(&self) -> Result<DeskConnection> {
        self.answer(async {
            let place = Arc::clone(&self.places).acquire_owned().await.map_err(|_| sqlx::Error::PoolClosed)?;
            let (connection, opened_at) = self.open().await?;
            Ok(DeskConnection { connection, opened_at, idle: Arc::clone(&self.idle), _place: place })
        })
        .await
    }

    /// An idle connection that lives, or a new one.
    async fn open(&self) -> Result<(PgConnection, Instant)> {
        let latest = || lock(&self.idle).pop();
        while let Some(Idle { mut connection, opened_at, answered_at, is_doubtful }) = latest() {
            if (answered_at.elapsed() < FRESH && !is_doubtful) || connection.ping().await.is_ok() {
                return Ok((connection, opened_at));
            }
        }
        let mut connection = PgConnection::connect_with(&self.options).await?;
        if self.has_sessions {
            store::plan_by_index(&mut connection, self.longest()).await?;
        }
        Ok((connection, Instant::now()))
    }

    /// How long the server works on a statement at most: so long that its answer still finds somebody waiting.
    fn longest(&self) -> Duration {
        self.patience / 10 * 9
    }

    /// Waits for a statement's answer, no longer than a lease.
    pub(super) async fn answer<T>(&self, answer: impl Future<Output = Result<T>>) -> Result<T> {
        match tokio::time::timeout(self.patience, answer).await {
            Ok(answer) => answer,
            Err(_) => {
                // Where one connection fell silent, so did the others, and each would be waited for.
                lock(&self.idle).clear();
                let problem = format!("no answer within {:?}", self.patience);
                Err(sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, problem)).into())
            }
        }
    }

    /// Closes what is open, as far as it answers. Who comes later gets none.
    pub(super) async fn close(&self) {
        self.places.close();
        let idle = std::mem::take(&mut *lock(&self.idle));
        let closing = async {
            for Idle { connection, .. } in idle {
                let _ = connection.close().await;
            }
        };
        let _ = tokio::time::timeout(self.patience / 4, closing).await;
    }
}

fn lock(idle: &Mutex<Vec<Idle>>) -> MutexGuard<'_, Vec<Idle>> {
    // Nothing panics while it holds the lock.
    idle.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection that is closed rather than used again, unless it is [settled](DeskConnection::settle).
pub(super) struct DeskConnection {
    connection: PgConnection,
    opened_at: Instant,
    idle: Arc<Mutex<Vec<Idle>>>,
    _place: OwnedSemaphorePermit,
}

impl DeskConnection {
    /// Hands the answer on, and lets the connection be used again if the server can be asked other things over it.
    pub(super) fn settle<T>(self, answer: Result<T>) -> Result<T> {
        let is_of_use = match &answer {
            Ok(_) => true,
            Err(error) => matches!(error, Error::Database(sqlx::Error::Database(_))) && !error.is_of_server(),
        };
        if is_of_use && self.opened_at.elapsed() < LIFETIME {
            let Self { connection, opened_at, idle, .. } = self;
            let mut idle = lock(&idle);
            idle.retain(|other| other.answered_at.elapsed() < IDLE);
            idle.push(Idle { connection, opened_at, answered_at: Instant::now(), is_doubtful: answer.is_err() });
        }
        answer
    }
}

impl Deref for DeskConnection {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.connection
    }
}

impl DerefMut for DeskConnection {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.connection
    }
}
