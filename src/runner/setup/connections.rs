//! The runner's own connections for fetches and results, apart from the application's pool.
//!
//! The pool does not serve for three reasons. An application may hold all of its connections for as long as it likes.
//! Work can be dropped at any `.await`: where that is sqlx's `begin`, the transaction stays open in the pool, and a fetch
//! over such a connection would never commit. And a pool pings a connection when it is taken and when it is given back:
//! two round trips for each statement.
//!
//! Invariants:
//! - Each statement sent over these connections is a transaction by itself, so none is ever left open.
//! - A connection stays open only if the server answered the statement, or refused it because of its data. A
//!   connection whose answer was not waited for is closed: a hanging statement blocks only its own connection. So is one
//!   whose [session is at fault](Error::is_of_session), with those that are idle: a primary that became a standby would
//!   refuse everything for ever, and the next connection goes to the new primary; and where the schema was made anew, a
//!   session would execute the plans of the old one for ever.
//! - A database that does not answer within half a lease counts as one that cannot be reached: a second try, on another
//!   connection, still comes before the lease ends. At a stop it is a quarter.
//! - The server ends a statement a little before the runner stops waiting for it. A backend that waits for a lock does
//!   not notice that its client is gone: each statement that is sent again while a table is locked would leave one more
//!   behind, and a fetch would take jobs for no runner when the lock is gone. (Through a pooler nothing can be set for a
//!   session. There the role's `statement_timeout` must do it.)

use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sqlx::{Connection, PgConnection};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;

use crate::client::connections::own_connections::OwnConnections;
use crate::client::connections::time_limit;
use crate::error::{Error, Result};
use crate::store::{self, Pooling, Statements};

/// Two for the producer, one for the completer, one for results that are set aside. Progress, which is stored once a
/// second, takes whichever is free.
const MAX_CONNECTIONS: usize = 4;

/// A connection that answered this lately is used without a ping.
const FRESH: Duration = Duration::from_secs(1);

/// A connection that was idle for so long is closed when another is given back: an idle runner, which still polls, comes
/// down to one.
const MAX_IDLE: Duration = Duration::from_secs(60);

/// How long a connection is used at most, so that the memory of its session in the server is freed.
const MAX_LIFETIME: Duration = Duration::from_mins(30);

/// The connections over which a runner fetches and records results.
pub(in crate::runner) struct Connections {
    own: OwnConnections,
    permits: Semaphore,
    /// The one that answered last is used first.
    idle: Mutex<Vec<OpenConnection>>,
    timeout: Duration,
    /// Fires at a stop.
    hurry: CancellationToken,
    has_sessions: bool,
}

/// An open connection. It is closed when it is dropped, unless it is [settled](Connections::settle).
struct OpenConnection {
    connection: PgConnection,
    opened_at: Instant,
    answered_at: Instant,
    /// Whether the last answer was an error: perhaps that the server closes the connection.
    has_failed: bool,
}

impl Connections {
    /// Connections that are opened when they are needed, for a runner with a lease of this term.
    pub(in crate::runner) fn new(own: OwnConnections, term: Duration) -> Self {
        let (permits, timeout, hurry) = (Semaphore::new(MAX_CONNECTIONS), term / 2, CancellationToken::new());
        Self { own, permits, idle: Mutex::default(), timeout, hurry, has_sessions: false }
    }

    /// From now on answers are awaited half as long, so that a stop has time for a second try.
    pub(in crate::runner) fn hurry(&self) {
        self.hurry.cancel();
    }

    /// Finds out whether a pooler stands between the runner and the database that gives each transaction another session
    /// (PgBouncer's transaction mode), and refuses one through which the runner could not work as it is set up. Without
    /// a pooler the statements are planned once, by index, and the server ends those that take too long.
    ///
    /// Answers whether each connection has a session of its own.
    pub(in crate::runner) async fn begin(&mut self, statements: &Statements, is_listening: bool) -> Result<bool> {
        let found = {
            let ((_one, mut one), (_other, mut other)) = tokio::try_join!(self.connection(), self.connection())?;
            let pooling = store::pooling(&mut one.connection, &mut other.connection, statements);
            let found = self.answer(pooling).await;
            let found = self.settle(one, found)?;
            self.settle(other, Ok(found))?
        };
        let pooler = "it reaches its database through a pooler that gives each transaction another session";
        match found {
            Pooling::Direct => {}
            Pooling::MixesUp => {
                return Err(Error::InvalidRunner {
                    problem: format!(
                        "{pooler}, and does not keep prepared statements apart; hint: PgBouncer does from 1.21 on, with max_prepared_statements above 0"
                    ),
                });
            }
            Pooling::KeepsApart if is_listening => {
                return Err(Error::InvalidRunner {
                    problem: format!(
                        "{pooler}, and would hear no notification; hint: add .poll_only(), or --poll-only to the command"
                    ),
                });
            }
            Pooling::KeepsApart => return Ok(false),
        }
        self.has_sessions = true;
        let idle = std::mem::take(&mut *self.idle());
        for mut idle in idle {
            self.answer(store::plan_by_index(&mut idle.connection, self.longest_statement())).await?;
            self.idle().push(idle);
        }
        Ok(true)
    }

    /// Sends one statement over a connection of its own, and waits for its answer as [`answer`](Self::answer) does.
    pub(in crate::runner) async fn ask<T>(
        &self,
        statement: impl AsyncFnOnce(&mut PgConnection) -> Result<T>,
    ) -> Result<T> {
        let (_permit, mut open) = self.connection().await?;
        let answer = self.answer(statement(&mut open.connection)).await;
        self.settle(open, answer)
    }

    /// A connection for one statement, whose answer is then [settled](Self::settle).
    async fn connection(&self) -> Result<(SemaphorePermit<'_>, OpenConnection)> {
        self.answer(async {
            let permit = self.permits.acquire().await.map_err(|_| sqlx::Error::PoolClosed)?;
            Ok((permit, self.open().await?))
        })
        .await
    }

    /// An idle connection that lives, or a new one.
    async fn open(&self) -> Result<OpenConnection> {
        let latest = || self.idle().pop();
        let check_timeout = time_limit::CHECK_TIMEOUT.min(self.timeout / 4);
        while let Some(mut open) = latest() {
            let is_fresh = open.answered_at.elapsed() < FRESH && !open.has_failed;
            if is_fresh || time_limit::lives(&mut open.connection, check_timeout).await {
                return Ok(open);
            }
        }
        let mut connection = self.own.open().await?;
        if self.has_sessions {
            store::plan_by_index(&mut connection, self.longest_statement()).await?;
        }
        let now = Instant::now();
        Ok(OpenConnection { connection, opened_at: now, answered_at: now, has_failed: false })
    }

    /// How long an answer is awaited.
    pub(in crate::runner) const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// How long the server works on a statement at most: its answer still comes in time.
    fn longest_statement(&self) -> Duration {
        self.timeout / 10 * 9
    }

    /// Waits for a statement's answer, no longer than half a lease, and at a stop no longer than a quarter.
    async fn answer<T>(&self, answer: impl Future<Output = Result<T>>) -> Result<T> {
        let ends_at = Instant::now() + self.timeout;
        let limit = async {
            tokio::select! {
                () = sleep_until(ends_at.into()) => self.timeout,
                () = self.hurry.cancelled() => {
                    sleep_until(ends_at.min(Instant::now() + self.timeout / 2).into()).await;
                    self.timeout / 2
                }
            }
        };
        tokio::select! {
            biased;
            answer = answer => answer,
            limit = limit => {
                // The other connections probably fell silent as well, and each would be waited for.
                self.idle().clear();
                Err(time_limit::no_answer(limit))
            }
        }
    }

    /// Closes the open connections. Later requests get [`sqlx::Error::PoolClosed`].
    pub(in crate::runner) async fn close(&self) {
        self.permits.close();
        let idle = std::mem::take(&mut *self.idle());
        let closing = async {
            for OpenConnection { connection, .. } in idle {
                let _ = connection.close().await;
            }
        };
        let _ = tokio::time::timeout(time_limit::CHECK_TIMEOUT.min(self.timeout / 2), closing).await;
    }

    /// Passes the answer on, and keeps the connection open if the server can answer other statements over it.
    fn settle<T>(&self, open: OpenConnection, answer: Result<T>) -> Result<T> {
        let is_of_use = match &answer {
            Ok(_) => true,
            Err(error) => matches!(error, Error::Database(sqlx::Error::Database(_))) && !error.is_of_session(),
        };
        let mut idle = self.idle();
        if !is_of_use {
            // Opened at the same time, they remember the same.
            idle.clear();
        } else if open.opened_at.elapsed() < MAX_LIFETIME {
            idle.retain(|other| other.answered_at.elapsed() < MAX_IDLE);
            idle.push(OpenConnection { answered_at: Instant::now(), has_failed: answer.is_err(), ..open });
        }
        answer
    }

    fn idle(&self) -> MutexGuard<'_, Vec<OpenConnection>> {
        // Nothing panics while it holds the lock.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
