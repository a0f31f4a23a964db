//! A queue in trouble: rows for the pages that are empty while all is well.

use std::path::Path;
use std::process::Stdio;

use sqlx::{Postgres, Transaction};
use test_support::prelude::*;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::task::JoinHandle;

use super::driver::{Driver, WAIT};

/// A live runner and a dead one, a running job of each, one that waits for its retry, and one that was discarded.
const ROWS: &str = "
    INSERT INTO {schema}.runner (id, name, heartbeat_at, leased_until, completed, failed, queues, slots, knows_groups)
    SELECT
        md5('runner ' || n)::uuid, 'worker-' || n, now() - n * interval '1 minute', now() + (3 - 2 * n) * interval '1 hour',
        1200, 7, ARRAY['default', 'images'], ARRAY[4, 2], true
    FROM generate_series(1, 2) AS n;
    INSERT INTO {schema}.job (id, kind, state, attempt, worker, attempted_at, finalized_at, scheduled_at, errors, progress)
    SELECT
        md5('job ' || state || n)::uuid, 'resize', state::{schema}.job_state, 1, md5('runner ' || n)::uuid,
        now() - interval '5 minutes', CASE WHEN state = 'discarded' THEN now() END, now() + interval '1 hour',
        CASE
            WHEN state = 'running' THEN '[]'::jsonb
            ELSE jsonb_build_array(jsonb_build_object('attempt', 1, 'at', now(), 'error', 'connection refused'))
        END,
        CASE WHEN state = 'running' THEN '{\"page\": 3, \"of\": 40}'::jsonb END
    FROM unnest(ARRAY['running', 'running', 'retryable', 'discarded'], ARRAY[1, 2, 1, 1]) AS t (state, n)";

/// Failed jobs, and a transaction that an insert waits for.
pub(super) struct Trouble {
    /// A job that was discarded.
    pub(super) failed: JobId,
    /// The transaction for which an insert waits.
    open: Transaction<'static, Postgres>,
    waits: JoinHandle<()>,
}

impl Trouble {
    /// Makes it.
    pub(super) async fn start(database: &Database) -> Self {
        database.execute(ROWS).await;
        let failed: uuid::Uuid =
            sqlx::query_scalar("SELECT md5('job discarded1')::uuid").fetch_one(database.pool()).await.unwrap();
        let client = database.client.clone();
        // An insert that replaces the holder waits for a transaction that changes it.
        let policy = UniquePolicy::new().key("contested").on_conflict(OnConflict::Replace);
        let job = || NewJob::new("mail", &json!({})).unique(policy.clone());
        let holder = client.insert(job()).await.unwrap().id();
        let mut open = database.pool().begin().await.unwrap();
        client.set_priority(holder, 7).tx(&mut open).await.unwrap();
        let waits = tokio::spawn({
            let (client, job) = (client.clone(), job());
            async move {
                client.insert(job).await.unwrap();
            }
        });
        eventually!(!Admin::new(&client).waiting_inserts().await.unwrap().is_empty());
        Self { failed: failed.into(), open, waits }
    }

    /// Lets the insert through.
    pub(super) async fn end(self) {
        self.open.rollback().await.unwrap();
        timeout(WAIT, self.waits).await.unwrap().unwrap();
    }
}

/// The line that the killed test prints before it waits for its end.
const STARTED: &str = "a browser is open: ";

#[tokio::test]
async fn a_browser_goes_with_a_test_that_is_killed() {
    if Driver::start().await.is_none() {
        return;
    }
    let mut test = Command::new(std::env::current_exe().unwrap());
    test.args(["--exact", "browser::trouble::the_test_that_is_killed", "--ignored", "--nocapture"]);
    let mut test = test.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(test.stdout.take().unwrap()).lines();
    let started = async {
        loop {
            let line = lines.next_line().await.unwrap().expect("the test ended");
            if let Some((_, told)) = line.split_once(STARTED) {
                return told.to_owned();
            }
        }
    };
    let told = timeout(WAIT, started).await.unwrap();
    let (group, directory) = told.split_once(' ').unwrap();
    let directory = Path::new(directory);
    assert!(living(group).await > 1, "chromedriver and its browser");
    assert!(std::fs::read_dir(directory).unwrap().count() > 0, "a profile");
    test.kill().await.unwrap();
    eventually!(
        !directory.exists() && living(group).await == 0,
        "{} processes live, {} is left",
        living(group).await,
        directory.display()
    );
}

#[tokio::test]
#[ignore = "played by the test above"]
async fn the_test_that_is_killed() {
    let driver = Driver::start().await.unwrap();
    let _browser = driver.session(800, 600, true).await;
    println!("{STARTED}{} {}", driver.group, driver.directory.display());
    std::future::pending::<()>().await;
}

/// How many processes of a group live. A dead one that waits for its parent does not.
async fn living(group: &str) -> usize {
    let listed = Command::new("ps").args(["-A", "-o", "pgid=,stat="]).output().await.unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let of_group = |line: &&str| {
        let mut words = line.split_whitespace();
        words.next() == Some(group) && words.next().is_some_and(|state| !state.starts_with('Z'))
    };
    listed.lines().filter(of_group).count()
}
