//! A cluster of Citus, its nodes' crashes, and orders: rows on several nodes with a job.

use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;

use sqlx::types::Uuid;
use sqlx::{query_scalar, raw_sql};
use tokio::sync::Mutex;

use super::super::open;
use support::prelude::*;
use support::process::{postmaster, signal};
use support::tools;

/// The nodes of a cluster. Each test has it for itself.
pub(super) struct Cluster {
    /// A worker. The place is there.
    pub(super) worker: String,
    /// The coordinator, and the other workers.
    pub(super) coordinator: String,
    pub(super) others: Vec<String>,
    _turn: tokio::sync::MutexGuard<'static, ()>,
}

static TURN: Mutex<()> = Mutex::const_new(());

impl Cluster {
    /// `None`: no cluster is named.
    pub(super) async fn find() -> Option<Self> {
        let Some(worker) = std::env::var("CITUS_URL").ok().filter(|url| !url.is_empty()) else {
            tools::lacks("citus", "a worker node of Citus, named by CITUS_URL");
            return None;
        };
        let turn = TURN.lock().await;
        let mut connection = PgConnection::connect(&worker).await.unwrap();
        let own: i32 = query_scalar("SELECT inet_server_port()").fetch_one(&mut connection).await.unwrap();
        let nodes = "SELECT nodeport, groupid FROM pg_dist_node WHERE isactive ORDER BY groupid";
        let nodes = sqlx::query(nodes).fetch_all(&mut connection).await.unwrap();
        let url = |port: i32| worker.replace(&format!(":{own}/"), &format!(":{port}/"));
        let of = |row: &sqlx::postgres::PgRow| (row.get::<i32, _>("nodeport"), row.get::<i32, _>("groupid"));
        let (mut coordinator, mut others) = (None, Vec::new());
        for (port, group) in nodes.iter().map(of) {
            match group {
                0 => coordinator = Some(url(port)),
                _ if port != own => others.push(url(port)),
                _ => {}
            }
        }
        let coordinator = coordinator.expect("a coordinator, added by citus_set_coordinator_host");
        assert!(!others.is_empty(), "a second worker");
        for node in [&worker, &coordinator].into_iter().chain(&others) {
            // A test that failed may have left commits held, and prepared parts with their locks.
            execute(node, "ALTER SYSTEM RESET citus.recover_2pc_interval").await;
            execute(node, "SELECT pg_reload_conf()").await;
            execute(node, "SELECT recover_prepared_transactions()").await;
        }
        Some(Self { worker, coordinator, others, _turn: turn })
    }

    /// A place on the worker, ready for work.
    pub(super) async fn place(&self) -> Places {
        execute(&self.worker, "SET citus.enable_ddl_propagation = off; DROP SCHEMA IF EXISTS uniqueue CASCADE").await;
        let place = PlaceAddress::new("node", &self.worker).unwrap().on_citus();
        let places = open(PlaceMap::new([place]).unwrap().hashed(["node"]).unwrap());
        assert!(!places.migrate().await.remove(0).1.unwrap().is_empty());
        places.init().await.remove(0).1.unwrap();
        places
    }

    /// A distributed table with shards on every worker.
    pub(super) async fn table(&self) {
        let sql = "DROP TABLE IF EXISTS citus_order; CREATE TABLE citus_order (n bigint PRIMARY KEY, job uuid)";
        execute(&self.coordinator, sql).await;
        execute(&self.coordinator, "SELECT create_distributed_table('citus_order', 'n', shard_count => 8)").await;
    }

    pub(super) async fn clean_up(&self) {
        execute(&self.worker, "SET citus.enable_ddl_propagation = off; DROP SCHEMA IF EXISTS uniqueue CASCADE").await;
        execute(&self.coordinator, "DROP TABLE IF EXISTS citus_order").await;
    }
}

/// A server that was killed.
pub(super) struct Killed {
    node: String,
    restart: Command,
}

impl Killed {
    /// Kills all processes of a node's server at the same moment, as a power failure does.
    pub(super) async fn server(node: &str) -> Self {
        let mut connection = PgConnection::connect(node).await.unwrap();
        let directory: String = query_scalar("SHOW data_directory").fetch_one(&mut connection).await.unwrap();
        let directory = Path::new(&directory);
        let first = postmaster(directory);
        let words = |file: &str| fs::read_to_string(format!("/proc/{first}/{file}")).unwrap();
        let (arguments, variables) = (words("cmdline"), words("environ"));
        let mut restart = Command::new(fs::read_link(format!("/proc/{first}/exe")).unwrap());
        restart.args(arguments.split_terminator('\0').skip(1)).stdout(Stdio::null()).stderr(Stdio::null());
        restart.env_clear().envs(variables.split_terminator('\0').filter_map(|variable| variable.split_once('=')));
        let owner = fs::metadata(directory).unwrap();
        restart.current_dir(directory).uid(owner.uid()).gid(owner.gid()).process_group(0);
        // No process can react to the end of another one.
        signal(first, "STOP");
        let children = fs::read_to_string(format!("/proc/{first}/task/{first}/children")).unwrap();
        for child in children.split_whitespace() {
            signal(child.parse().unwrap(), "KILL");
        }
        signal(first, "KILL");
        // The files of the dead server name its process. As long as that is there, no other server starts.
        eventually!(!Path::new(&format!("/proc/{first}")).exists(), "the server of {node} lives");
        Self { node: node.to_owned(), restart }
    }

    /// Starts the server again, and waits until it answers.
    pub(super) async fn start(mut self) {
        let mut server = self.restart.spawn().unwrap();
        let mut is_up = async || {
            // A process that is about to be gone may hold the memory of the old server.
            if server.try_wait().unwrap().is_some() {
                server = self.restart.spawn().unwrap();
            }
            PgConnection::connect(&self.node).await.is_ok()
        };
        eventually!(is_up().await, "{} does not come back", self.node);
        std::thread::spawn(move || server.wait());
    }
}

pub(super) async fn execute(url: &str, sql: &str) {
    let mut connection = PgConnection::connect(url).await.unwrap();
    raw_sql(AssertSqlSafe(sql.to_owned()))
        .execute(&mut connection)
        .await
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
}

/// Inserts rows of several shards and a job, in a transaction on the place's node.
pub(super) async fn order(
    client: &Client,
    n: i64,
) -> Result<sqlx::Transaction<'static, sqlx::Postgres>, uniqueue::Error> {
    let mut tx = client.pool().begin().await?;
    let id = client.insert(job_of(n)).tx(&mut tx).await?.id();
    for shard in 0..4 {
        let row = sqlx::query("INSERT INTO citus_order VALUES ($1, $2)").bind(n * 4 + shard).bind(id.as_uuid());
        row.execute(&mut *tx).await?;
    }
    Ok(tx)
}

/// The job of an order. It has a unique key.
pub(super) fn job_of(n: i64) -> NewJob {
    NewJob::from(Task { n: u32::try_from(n).unwrap() }).unique_key(UniqueKey::raw(format!("order {n}")))
}

/// The jobs of the place, and those that rows of the distributed table name, with the number of rows.
pub(super) async fn both_sides(cluster: &Cluster) -> (BTreeSet<Uuid>, BTreeMap<Uuid, i64>) {
    let mut place = PgConnection::connect(&cluster.worker).await.unwrap();
    let jobs = query_scalar("SELECT id FROM uniqueue.job").fetch_all(&mut place).await.unwrap();
    let mut other = PgConnection::connect(&cluster.coordinator).await.unwrap();
    let rows =
        sqlx::query("SELECT job, count(*) AS rows FROM citus_order GROUP BY job").fetch_all(&mut other).await.unwrap();
    (jobs.into_iter().collect(), rows.iter().map(|row| (row.get("job"), row.get("rows"))).collect())
}
