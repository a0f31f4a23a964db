//! Places on nodes of Citus. `CITUS_URL` names a database on a worker node of this machine, as a superuser and without schemas
//! `uniqueue` and `race`. The other nodes are found in `pg_dist_node`, the coordinator among them. `UNIQUEUE_CITUS_SECONDS` is how
//! long the runner works, by default 5.

mod cluster;
mod decision;

use sqlx::{query_scalar, raw_sql};
use uniqueue_admin::doubled_keys;

use self::cluster::{Cluster, Killed, both_sides, execute, order};
use super::unfinished;
use support::prelude::*;

fn runner(client: Client) -> Runner {
    Runner::new(client).queue("default", 4).worker(at_once).lease(Duration::from_secs(4))
}

#[tokio::test]
async fn a_place_on_a_citus_node_is_opened_with_its_option() {
    let Some(cluster) = Cluster::find().await else { return };
    let client = Client::connect(&cluster.worker).await.unwrap();
    let error = client.migrate().await.unwrap_err().to_string();
    assert!(error.contains("options=-c%20citus.enable_ddl_propagation%3Doff"), "{error}");
    let places = cluster.place().await;
    let once = || NewJob::from(support::Task { n: 1 }).unique(uniqueue::UniquePolicy::new()).place(PlaceBy::UniqueKey);
    assert!(!places.insert(once()).await.unwrap().1.duplicate);
    assert!(places.insert(once()).await.unwrap().1.duplicate);
    let node = places.at("node").unwrap();
    let mut tx = node.pool().begin().await.unwrap();
    let id = node.insert(job("task")).tx(&mut tx).await.unwrap().id();
    tx.rollback().await.unwrap();
    assert!(node.job(id).await.unwrap().is_none());
    // The schema is on this node only.
    let mut other = PgConnection::connect(&cluster.coordinator).await.unwrap();
    let found =
        query_scalar::<_, bool>("SELECT to_regnamespace('uniqueue') IS NULL").fetch_one(&mut other).await.unwrap();
    assert!(found);
    cluster.clean_up().await;
}

#[tokio::test]
async fn a_transaction_over_two_nodes_commits_with_its_job_or_not_at_all() {
    let Some(cluster) = Cluster::find().await else { return };
    let places = cluster.place().await;
    cluster.table().await;
    let node = places.at("node").unwrap();
    for round in 0..2 {
        // In the second round a runner sleeps, so that inserts notify it.
        let handle = match round {
            0 => None,
            _ => {
                let handle = places.runner(runner).start().await.unwrap();
                eventually!(
                    Admin::new(node).runners().await.unwrap().iter().any(|runner| runner.is_idle),
                    "no runner sleeps"
                );
                Some(handle)
            }
        };
        for n in 0..10 {
            order(node, 2 * n + 100 * round).await.unwrap().commit().await.unwrap();
            order(node, 2 * n + 1 + 100 * round).await.unwrap().rollback().await.unwrap();
        }
        let (jobs, rows) = both_sides(&cluster).await;
        let count = usize::try_from(10 * (round + 1)).unwrap();
        assert_eq!((jobs.len(), rows.len()), (count, count));
        assert!(rows.values().all(|rows| *rows == 4) && rows.keys().all(|job| jobs.contains(job)));
        if let Some(handle) = handle {
            eventually!(node.count_jobs(unfinished(), 100).await.unwrap().counted() == 0, "jobs are left");
            handle.stop().await.unwrap();
        }
    }
    cluster.clean_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_crashes_at_any_moment_leaves_both_or_neither() {
    let Some(cluster) = Cluster::find().await else { return };
    let places = cluster.place().await;
    cluster.table().await;
    let node = places.at("node").unwrap().clone();
    // Before the decision: a node of the rows, and the place's own.
    for (n, crashed) in [(1_000_000, &cluster.others[0]), (1_000_001, &cluster.worker)] {
        let tx = eventually!(let tx = order(&node, n).await; tx.is_ok(), "{tx:?}").unwrap();
        Killed::server(crashed).await.start().await;
        assert!(tx.commit().await.is_err(), "{crashed}");
    }
    // At any moment, that of the decision among them.
    let is_over = Arc::new(AtomicBool::new(false));
    let mut callers = Vec::new();
    for caller in 0..4_i64 {
        let (is_over, node) = (Arc::clone(&is_over), node.clone());
        callers.push(tokio::spawn(async move {
            let (mut committed, mut unknown) = (0, 0);
            for n in 0.. {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                match order(&node, caller * 100_000 + n).await {
                    Ok(tx) => match tx.commit().await {
                        Ok(()) => committed += 1,
                        Err(_) => unknown += 1,
                    },
                    Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                }
            }
            (committed, unknown)
        }));
    }
    let mut dice = Dice::new(37, 1);
    for round in 0..support::soak(6, 30) {
        tokio::time::sleep(dice.millis(50, 400)).await;
        let node = if round % 2 == 0 { &cluster.others[0] } else { &cluster.worker };
        Killed::server(node).await.start().await;
    }
    is_over.store(true, Ordering::Relaxed);
    let (mut committed, mut unknown) = (0, 0);
    for caller in callers {
        let of = caller.await.unwrap();
        (committed, unknown) = (committed + of.0, unknown + of.1);
    }
    // Each node ends the prepared transactions that it began and lost sight of.
    let nodes = [&cluster.worker, &cluster.coordinator].into_iter().chain(&cluster.others);
    for node in nodes {
        execute(node, "SELECT recover_prepared_transactions()").await;
    }
    let (jobs, rows) = both_sides(&cluster).await;
    assert!(rows.values().all(|rows| *rows == 4), "{rows:?}");
    assert_eq!(rows.keys().copied().collect::<BTreeSet<_>>(), jobs);
    assert!(jobs.len() >= committed && jobs.len() <= committed + unknown, "{committed} + {unknown}: {}", jobs.len());
    assert!(committed > 0);
    println!("{committed} committed, {unknown} unknown to their callers, {} found on both sides", jobs.len());
    cluster.clean_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_works_and_maintains_a_place_on_a_worker_node() {
    let Some(cluster) = Cluster::find().await else { return };
    let places = cluster.place().await;
    let node = places.at("node").unwrap();
    let build = |client| {
        runner(client)
            .reindex_interval(Duration::from_secs(1))
            .retention(uniqueue::Retention::forever().completed(Duration::from_secs(1)))
    };
    let handle = places.runner(build).start().await.unwrap();
    let seconds = std::env::var("UNIQUEUE_CITUS_SECONDS").ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(5);
    let (began, mut inserted) = (Instant::now(), 0);
    while began.elapsed() < Duration::from_secs(seconds) {
        node.insert_many((0..100).map(|n| Task { n })).await.unwrap();
        node.insert(NewJob::from(Task { n: 1 }).scheduled_in(Duration::from_millis(300))).await.unwrap();
        inserted += 101;
        // A rebuild that no other node hears of, while jobs are worked.
        raw_sql("REINDEX INDEX CONCURRENTLY uniqueue.job_pkey").execute(node.pool()).await.unwrap();
        eventually!(node.count_jobs(unfinished(), 1_000).await.unwrap().counted() == 0, "jobs are left");
    }
    let totals = eventually!(
        let totals = { node.write_history().await.unwrap(); Admin::new(node).history_totals().await.unwrap() };
        totals.iter().map(|of| of.counts.completed).sum::<u64>() == inserted, "{inserted}: {totals:?}"
    );
    assert_eq!(totals.iter().map(|of| of.counts.failed).sum::<u64>(), 0);
    // The pruner came by, and each service has its lease.
    eventually!(node.count_jobs(uniqueue::JobFilter::all(), 1_000).await.unwrap().counted() == 0, "final jobs stay");
    let idle = "SELECT count(*) FROM uniqueue.maintenance WHERE leased_until IS NULL OR leased_until < now()";
    assert_eq!(query_scalar::<_, i64>(idle).fetch_one(node.pool()).await.unwrap(), 0);
    let problems: Vec<_> = Admin::new(node)
        .diagnose()
        .await
        .unwrap()
        .findings
        .into_iter()
        .filter(|one| one.severity > uniqueue_admin::Severity::Notice)
        .collect();
    assert!(problems.is_empty(), "{problems:?}");
    println!("{inserted} jobs in {seconds} s");
    handle.stop().await.unwrap();
    cluster.clean_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_claim_wins_a_race_over_three_nodes() {
    let Some(cluster) = Cluster::find().await else { return };
    let nodes = [&cluster.worker, &cluster.coordinator, &cluster.others[0]];
    let drop_all = async || {
        for node in nodes {
            execute(node, "SET citus.enable_ddl_propagation = off; DROP SCHEMA IF EXISTS race CASCADE").await;
        }
    };
    drop_all().await;
    let names = ["one", "two", "three"];
    let address = |(name, url): (&str, &&String)| {
        PlaceAddress::new(name, url).unwrap().schema(SchemaName::new("race").unwrap()).on_citus()
    };
    let map = PlaceMap::new(names.into_iter().zip(&nodes).map(address)).unwrap().hashed(names).unwrap();
    let places = super::ready(map).await;
    let mut racers = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let places = places.clone();
        racers.spawn(async move {
            let mut won = Vec::new();
            for n in 0..120 {
                let job =
                    NewJob::from(Task { n }).unique_key(UniqueKey::raw(format!("key {n}"))).place(PlaceBy::UniqueKey);
                if !places.insert(job).await.unwrap().1.duplicate {
                    won.push(n);
                }
            }
            won
        });
    }
    let mut won: Vec<u32> = racers.join_all().await.into_iter().flatten().collect();
    won.sort_unstable();
    assert_eq!(won, (0..120).collect::<Vec<_>>());
    assert!(doubled_keys(&places, 1_000).await.is_empty());
    drop_all().await;
}
