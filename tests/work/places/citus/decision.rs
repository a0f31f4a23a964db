//! A node dies at a known step of a transaction over two nodes.
//!
//! The place's node runs the transaction. It prepares the other node's part and commits its own part, which is the decision. Then it
//! sends COMMIT PREPARED. PostgreSQL lets a commit wait for a standby after its record is on disk and before another session
//! sees it, and a PREPARE likewise. So a standby that is not there holds the transaction:
//!
//! - *prepared*: the other node holds the PREPARE, and nothing is decided;
//! - *decided*: the place's node holds the COMMIT, and COMMIT PREPARED is not sent.

use sqlx::query_scalar;
use tokio::task::JoinHandle;

use super::cluster::{Cluster, Killed, both_sides, execute, job_of, order};
use support::prelude::*;

#[derive(Clone, Copy, Debug)]
enum Step {
    Prepared,
    Decided,
}

/// An order whose COMMIT was sent, and which stands at a step.
struct Held {
    committing: JoinHandle<sqlx::Result<()>>,
    /// The parts that the other node has prepared.
    parts: Vec<String>,
}

impl Held {
    async fn at(step: Step, cluster: &Cluster, client: &Client, n: i64) -> Self {
        let other = &cluster.others[0];
        assert_eq!(prepared(other).await, [""; 0]);
        let mut tx = eventually!(let tx = order(client, n).await; tx.is_ok(), "{tx:?}").unwrap();
        let session = query_scalar::<_, i32>("SELECT pg_backend_pid()").fetch_one(&mut *tx).await.unwrap();
        let holder = match step {
            Step::Prepared => other,
            Step::Decided => &cluster.worker,
        };
        hold(holder).await;
        let committing = tokio::spawn(tx.commit());
        match step {
            Step::Prepared => {
                eventually!(!prepared(other).await.is_empty(), "nothing is prepared");
                assert!(!is_held(&cluster.worker, session).await);
            }
            Step::Decided => eventually!(is_held(&cluster.worker, session).await, "the commit is not held"),
        }
        let parts = prepared(other).await;
        assert!(!parts.is_empty() && !committing.is_finished());
        Self { committing, parts }
    }
}

/// Lets each PREPARE and COMMIT of a node wait, after its record is on disk, until [`release`] or a restart.
async fn hold(node: &str) {
    execute(node, "ALTER SYSTEM SET synchronous_standby_names = 'no_such_standby'").await;
    execute(node, "SELECT pg_reload_conf()").await;
    // The server has read the file when a commit waits.
    let mut probe = PgConnection::connect(node).await.unwrap();
    let session = query_scalar("SELECT pg_backend_pid()").fetch_one(&mut probe).await.unwrap();
    let committing = tokio::spawn(async move {
        let write = "SELECT pg_logical_emit_message(true, 'probe', '')::text";
        while query_scalar::<_, String>(write).fetch_one(&mut probe).await.is_ok() {}
    });
    eventually!(is_held(node, session).await, "{node} does not wait for a standby");
    execute(node, "ALTER SYSTEM RESET synchronous_standby_names").await;
    committing.abort();
}

async fn release(node: &str) {
    execute(node, "SELECT pg_reload_conf()").await;
}

/// Whether the COMMIT or the PREPARE of a session is held.
async fn is_held(node: &str, session: i32) -> bool {
    let held = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {session} AND wait_event = 'SyncRep'");
    count(node, &held).await == 1
}

async fn count(node: &str, sql: &str) -> i64 {
    let mut connection = PgConnection::connect(node).await.unwrap();
    query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(&mut connection).await.unwrap()
}

/// The parts of distributed transactions that wait for their end on a node.
async fn prepared(node: &str) -> Vec<String> {
    let mut connection = PgConnection::connect(node).await.unwrap();
    let parts =
        "SELECT gid FROM pg_prepared_xacts WHERE gid LIKE 'citus\\_%' AND database = current_database() ORDER BY gid";
    query_scalar(parts).fetch_all(&mut connection).await.unwrap()
}

/// How many of the parts a node has decided to commit.
async fn decided(node: &str, parts: &[String]) -> usize {
    let mut connection = PgConnection::connect(node).await.unwrap();
    let records = "SELECT count(*) FROM pg_dist_transaction WHERE gid = ANY($1)";
    let records: i64 = query_scalar(records).bind(parts).fetch_one(&mut connection).await.unwrap();
    usize::try_from(records).unwrap()
}

/// Whether Citus ends by itself what a dead node left behind. A file of settings has it, and a test changes it.
async fn recover_by_itself(node: &str, does: bool) {
    let setting = if does { "RESET citus.recover_2pc_interval" } else { "SET citus.recover_2pc_interval = -1" };
    execute(node, &format!("ALTER SYSTEM {setting}")).await;
    execute(node, "SELECT pg_reload_conf()").await;
}

/// The cluster, with a place and a table, in which nothing is recovered by itself.
async fn unrecovered() -> Option<(Cluster, Places)> {
    let cluster = Cluster::find().await?;
    let places = cluster.place().await;
    cluster.table().await;
    recover_by_itself(&cluster.worker, false).await;
    Some((cluster, places))
}

/// The nodes of which one dies: the one that has prepared its part, and the place's own.
fn victims(cluster: &Cluster) -> [&String; 2] {
    [&cluster.others[0], &cluster.worker]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_killed_before_the_decision_leaves_nothing_on_any_node() {
    let Some((cluster, places)) = unrecovered().await else { return };
    let (client, other) = (places.at("node").unwrap(), &cluster.others[0]);
    for (n, victim) in (0..).zip(victims(&cluster)) {
        let held = Held::at(Step::Prepared, &cluster, client, n).await;
        let killed = Killed::server(victim).await;
        // Its end does not depend on a node that is dead.
        assert!(held.committing.await.unwrap().is_err(), "{victim}");
        killed.start().await;
        release(other).await;
        assert_eq!((prepared(other).await, decided(&cluster.worker, &held.parts).await), (held.parts, 0), "{victim}");
        execute(&cluster.worker, "SELECT recover_prepared_transactions()").await;
        assert_eq!(prepared(other).await, [""; 0], "{victim}");
        let (jobs, rows) = both_sides(&cluster).await;
        let before = usize::try_from(n).unwrap();
        assert_eq!((jobs.len(), rows.len()), (before, before), "{victim}");
        // Neither the unique key nor a row of the table is held.
        let again = eventually!(let again = order(client, n).await; again.is_ok(), "{again:?}").unwrap();
        again.commit().await.unwrap();
        let (jobs, rows) = both_sides(&cluster).await;
        assert_eq!((jobs.len(), rows.len()), (before + 1, before + 1), "{victim}");
    }
    recover_by_itself(&cluster.worker, true).await;
    cluster.clean_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_killed_after_the_decision_has_the_job_and_its_rows_once() {
    let Some((cluster, places)) = unrecovered().await else { return };
    let (client, other) = (places.at("node").unwrap(), &cluster.others[0]);
    for (n, victim) in (0..).zip(victims(&cluster)) {
        let held = Held::at(Step::Decided, &cluster, client, n).await;
        let killed = Killed::server(victim).await;
        if victim == other {
            // COMMIT PREPARED finds no server.
            release(&cluster.worker).await;
        }
        // Only the caller whose own node died does not know.
        assert_eq!(held.committing.await.unwrap().is_ok(), victim == other, "{victim}");
        killed.start().await;
        // Decided, and not carried out on the other node.
        let decided = decided(&cluster.worker, &held.parts).await;
        assert_eq!((decided, prepared(other).await), (held.parts.len(), held.parts), "{victim}");
        let (jobs, rows) = both_sides(&cluster).await;
        let before = usize::try_from(n).unwrap();
        assert_eq!(jobs.len(), before + 1, "{victim}");
        assert!(rows.values().sum::<i64>() < 4 * (n + 1), "{victim}: {rows:?}");
        execute(&cluster.worker, "SELECT recover_prepared_transactions()").await;
        assert_eq!(prepared(other).await, [""; 0], "{victim}");
        let (jobs, rows) = both_sides(&cluster).await;
        assert!(rows.values().all(|rows| *rows == 4), "{victim}: {rows:?}");
        assert_eq!((jobs.len(), rows.into_keys().collect()), (before + 1, jobs), "{victim}");
        // The job of the order holds its key.
        let again = eventually!(let again = client.insert(job_of(n)).await; again.is_ok(), "{again:?}").unwrap();
        assert!(again.duplicate, "{victim}");
    }
    recover_by_itself(&cluster.worker, true).await;
    cluster.clean_up().await;
}
