//! A durable cluster of the test's own, which can crash and start again.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{PgPool, raw_sql};
use uniqueue::Client;
use uniqueue::embedded::Postgres;

use crate::WAIT;
use crate::eventually;
use crate::odd::{self, Clock};
use crate::process::{postmaster, signal};
use crate::proxy::Proxy;

/// Every change of a job's state, as the database committed it. The queue itself has no triggers;
/// this one belongs to the test, and is what its verdict rests on.
const RECORD: &str = "
    CREATE SCHEMA chaos;
    CREATE TABLE chaos.change (
        place bigserial PRIMARY KEY, job uuid NOT NULL, old text, new text NOT NULL,
        worker uuid, attempt smallint NOT NULL, max_attempts smallint NOT NULL
    );
    CREATE FUNCTION chaos.record() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO chaos.change (job, old, new, worker, attempt, max_attempts)
        VALUES (NEW.id, OLD.state::text, NEW.state::text, NEW.worker, NEW.attempt, NEW.max_attempts);
        RETURN NULL;
    END
    $$;
    CREATE TRIGGER record AFTER UPDATE ON uniqueue.job
        FOR EACH ROW WHEN (OLD.state <> NEW.state) EXECUTE FUNCTION chaos.record();
    CREATE TABLE chaos.acknowledged (job uuid PRIMARY KEY);
    CREATE TABLE chaos.rolled_back (job uuid PRIMARY KEY);
    CREATE TABLE uniqueue.effect (job uuid NOT NULL, attempt smallint NOT NULL);
";

pub struct Cluster {
    postgres: Option<Postgres>,
    directory: PathBuf,
    pub proxy: Proxy,
    /// Past the proxy, for the test's own looks. Good until the next restart.
    pub direct: PgPool,
    is_odd: bool,
    /// Of an odd database, where the machine can set one.
    pub clock: Option<Clock>,
}

impl Cluster {
    /// Starts a cluster that loses nothing that it said it has, with a migrated schema. Its directory has the name.
    pub async fn start(name: &str) -> Self {
        Self::with(name, false).await
    }

    /// The same with a database that has an ICU locale, `serializable` transactions and a clock that jumps.
    pub async fn start_odd(name: &str) -> Self {
        Self::with(name, true).await
    }

    async fn with(name: &str, is_odd: bool) -> Self {
        let directory = crate::directory(name).await;
        let clock = if is_odd { Clock::new(&directory).await } else { None };
        let postgres = start(&directory, clock.as_ref()).await;
        if is_odd {
            odd::create(postgres.url()).await;
        }
        let proxy = Proxy::before(&url(&postgres, is_odd)).await;
        // The last check of a connection that a pool takes back is sqlx's own, and has no limit.
        proxy.close_silent_after(Duration::from_secs(10));
        let direct = connect(&url(&postgres, is_odd)).await;
        Client::new(direct.clone()).migrate().await.expect("a migration");
        raw_sql(RECORD).execute(&direct).await.expect("the record");
        // As docs/operate/operations.md says: a session whose client fell silent in a transaction would hold its keys for ever.
        for statement in ["ALTER SYSTEM SET idle_in_transaction_session_timeout = '5s'", "SELECT FROM pg_reload_conf()"]
        {
            sqlx::query(statement).execute(&direct).await.expect(statement);
        }
        Self { postgres: Some(postgres), directory, proxy, direct, is_odd, clock }
    }

    /// Stops the server as a crash would (`pg_ctl stop -m immediate`), and starts it again.
    pub async fn restart(&mut self) {
        let postgres = self.postgres.take().expect("it runs");
        signal(postmaster(postgres.data_dir()), "QUIT");
        // An immediate stop counts as a failure.
        let _ = postgres.stop().await;
        let postgres = start(&self.directory, self.clock.as_ref()).await;
        self.proxy.lead_to(postgres.url());
        self.direct = connect(&url(&postgres, self.is_odd)).await;
        self.postgres = Some(postgres);
    }

    pub async fn stop(mut self) {
        self.direct.close().await;
        let postgres = self.postgres.take().expect("it runs");
        postgres.stop().await.expect("a stop");
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // The server must be gone before its directory is.
        if let Some(postgres) = self.postgres.take() {
            let process = postmaster(postgres.data_dir());
            signal(process, "QUIT");
            eventually!(blocking !Path::new(&format!("/proc/{process}")).exists());
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

async fn start(directory: &Path, clock: Option<&Clock>) -> Postgres {
    // Transactions of clients that fell silent end, and their locks with them.
    let mut postgres = Postgres::builder().setting("idle_in_transaction_session_timeout", "2s");
    if let Some(clock) = clock {
        postgres = postgres.binaries(&clock.binaries);
    }
    postgres.data_dir(directory.join("data")).max_connections(300).start().await.expect("a durable cluster")
}

fn url(postgres: &Postgres, is_odd: bool) -> String {
    if is_odd {
        postgres.url().replace("/postgres?", &format!("/{}?", odd::DATABASE))
    } else {
        postgres.url().to_owned()
    }
}

async fn connect(url: &str) -> PgPool {
    let options: PgConnectOptions = url.parse().expect("a URL");
    // The tormentor knows it by this name, and spares it.
    let options = options.application_name("verdict").options([("default_transaction_isolation", "read committed")]);
    PgPoolOptions::new().max_connections(4).acquire_timeout(WAIT).connect_with(options).await.expect("a pool")
}
