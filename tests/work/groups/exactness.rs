//! The limits and the order of groups, whatever dies.

use std::time::Duration;

use sqlx::AssertSqlSafe;
use uniqueue::Client;

use super::limits::{LEFT, work};
use super::{HISTORY, assert_kept};
use support::cluster::Cluster;
use support::dice::Dice;
use support::process::{Order, RunnerProcess};
use support::{eventually, soak};

const SCHEMA: &str = "uniqueue";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_and_order_hold_while_runners_are_killed_and_the_database_restarts() {
    hold(Cluster::start("groups").await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_and_order_hold_under_icu_and_serializable_and_with_a_clock_that_jumps() {
    hold(Cluster::start_odd("odd-groups").await).await;
}

async fn hold(mut cluster: Cluster) {
    let mut dice = Dice::new(std::process::id().into(), 7);
    let sql = |text: &str| AssertSqlSafe(text.replace("{schema}", SCHEMA));
    sqlx::raw_sql(sql(HISTORY)).execute(&cluster.direct).await.unwrap();
    let jobs = work(soak(40, 1_000), soak(600, 8_000), soak(300, 100)).into_iter().enumerate();
    // Every fifth group has the limit 1, and runs in order.
    let jobs = jobs.map(|(n, job)| if n % 5 == 0 { job.in_order() } else { job });
    Client::new(cluster.direct.clone()).insert_many(jobs).await.unwrap();

    let url = cluster.proxy.url();
    let order = |n: usize| Order {
        lease: Duration::from_secs(1),
        connections: 2,
        ..Order::new(&url, SCHEMA, &format!("r{n}"))
    };
    let mut runners: Vec<_> = (0..soak(3, 16)).map(|n| RunnerProcess::start(&order(n))).collect();
    for fault in 0..soak(6, 18) {
        tokio::time::sleep(Duration::from_millis(300)).await;
        if let Some(clock) = &cluster.clock {
            clock.jump(&mut dice);
        }
        let limit = [None, Some(1), Some(4), Some(2), Some(5), Some(3)][fault % 6];
        Client::new(cluster.direct.clone()).queue("default").group_limit(limit).await.unwrap();
        if fault % 3 == 2 {
            cluster.restart().await;
        } else {
            let place = fault % runners.len();
            runners[place].kill();
            runners[place] = RunnerProcess::start(&order(runners.len() + fault));
        }
    }
    let number = async |text: &str| -> i64 { sqlx::query_scalar(sql(text)).fetch_one(&cluster.direct).await.unwrap() };
    if let Some(clock) = &cluster.clock {
        clock.jump_ahead_of_all();
    }
    assert!(number(LEFT).await > 0, "the faults came while there was work");
    Client::new(cluster.direct.clone()).queue("default").group_limit(None).await.unwrap();
    eventually!(let left = number(LEFT).await; left == 0, "{left} jobs are left");
    drop(runners);
    assert_kept(&cluster.direct, SCHEMA).await;
    let full = "SELECT count(DISTINCT allowed) FROM {schema}.start_log WHERE is_start AND running = allowed";
    assert!(number(full).await >= soak(3, 5), "the limits that some group came to");
    for (what, happened) in [
        ("snoozes", "SELECT count(*) FROM {schema}.start_log WHERE state = 'scheduled'"),
        ("rescues", "SELECT count(*) FROM {schema}.job WHERE errors::text LIKE '%rescued: %'"),
        ("rescues in order", "SELECT count(*) FROM {schema}.job WHERE in_order AND errors::text LIKE '%rescued: %'"),
    ] {
        assert!(number(happened).await > 0, "no {what}");
    }
    cluster.stop().await;
}
