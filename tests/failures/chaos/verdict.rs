//! The outcome of every job, by the database's record.

use std::fmt::Write;

use super::insert::{ANSWER, Ledger};
use super::torment::Tormentor;
use support::prelude::*;

/// What must be nothing, each with the query that counts it.
const CRIMES: [(&str, &str); 11] = [
    (
        "poison that is not discarded",
        "SELECT count(*) FROM uniqueue.job AS j
         WHERE j.args ->> 'deed' = 'abort' AND j.state NOT IN ('cancelled', 'discarded')",
    ),
    (
        "discarded for others' crashes",
        "SELECT count(*) FROM uniqueue.job AS j
         WHERE j.args ->> 'deed' <> 'abort' AND j.state = 'discarded'
            AND j.errors -> -1 ->> 'error' LIKE 'rescued:%its runner died%'",
    ),
    (
        "acknowledged, and lost",
        "SELECT count(*) FROM chaos.acknowledged AS a
         WHERE NOT EXISTS (SELECT FROM uniqueue.job AS j WHERE j.id = a.job)",
    ),
    ("never brought to an end", "SELECT count(*) FROM uniqueue.job AS j WHERE j.finalized_at IS NULL"),
    (
        "there without a commit",
        "SELECT count(*) FROM uniqueue.job AS j WHERE j.id IN (SELECT r.job FROM chaos.rolled_back AS r)",
    ),
    (
        "finished more than once",
        "SELECT count(*) FROM (
            SELECT FROM chaos.change AS c WHERE c.new IN ('cancelled', 'completed', 'discarded')
            GROUP BY c.job HAVING count(*) > 1
         ) AS twice",
    ),
    (
        "changed in a way that is none",
        "SELECT count(*) FROM chaos.change AS c
         WHERE NOT (
             (c.new = 'running' AND c.old = 'available')
             OR (c.old = 'running' AND c.new IN
                 ('available', 'cancelled', 'completed', 'discarded', 'retryable', 'scheduled'))
             OR (c.old IN ('retryable', 'scheduled') AND c.new = 'available')
             OR (c.old IN ('available', 'retryable', 'scheduled') AND c.new = 'cancelled')
         )",
    ),
    // Each change out of `running` must be by the worker and the attempt that the change before made.
    (
        "ended by another attempt",
        "SELECT count(*) FROM (
            SELECT c.old, c.new, c.worker, c.attempt,
                lag(c.new) OVER history AS before,
                lag(c.worker) OVER history AS began_by,
                lag(c.attempt) OVER history AS began_as
            FROM chaos.change AS c
            WINDOW history AS (PARTITION BY c.job ORDER BY c.place)
         ) AS c
         WHERE c.old = 'running'
            AND NOT (c.before = 'running' AND c.worker = c.began_by AND c.began_as - c.attempt IN (0, 1))",
    ),
    ("more attempts than allowed", "SELECT count(*) FROM chaos.change AS c WHERE c.attempt > c.max_attempts"),
    (
        "completed without its effect",
        "SELECT count(*) FROM uniqueue.job AS j
         WHERE j.state = 'completed' AND j.args ->> 'deed' = 'effect'
            AND NOT EXISTS (SELECT FROM uniqueue.effect AS e WHERE e.job = j.id)",
    ),
    (
        "effects made twice, or of none",
        "SELECT (SELECT count(*) FROM uniqueue.effect AS e)
            - (SELECT count(DISTINCT e.job) FROM uniqueue.effect AS e
               JOIN uniqueue.job AS j ON j.id = e.job WHERE j.state = 'completed')",
    ),
];

/// What is good to know.
const COUNTS: [(&str, &str); 13] = [
    ("jobs", "SELECT count(*) FROM uniqueue.job"),
    ("  with a unique key", "SELECT count(unique_key) FROM uniqueue.job"),
    ("  completed", "SELECT count(*) FROM uniqueue.job WHERE state = 'completed'"),
    ("  cancelled", "SELECT count(*) FROM uniqueue.job WHERE state = 'cancelled'"),
    ("  discarded", "SELECT count(*) FROM uniqueue.job WHERE state = 'discarded'"),
    ("effects", "SELECT count(*) FROM uniqueue.effect"),
    ("attempts started", "SELECT count(*) FROM chaos.change WHERE new = 'running'"),
    ("  completed", "SELECT count(*) FROM chaos.change WHERE old = 'running' AND new = 'completed'"),
    ("  failed or rescued", "SELECT count(*) FROM chaos.change WHERE old = 'running' AND new = 'retryable'"),
    ("  snoozed", "SELECT count(*) FROM chaos.change WHERE old = 'running' AND new = 'scheduled'"),
    ("  cancelled while they ran", "SELECT count(*) FROM chaos.change WHERE old = 'running' AND new = 'cancelled'"),
    (
        "  rescued",
        "SELECT count(*) FROM uniqueue.job AS j, jsonb_array_elements(j.errors) AS e
         WHERE e ->> 'error' LIKE 'rescued:%'",
    ),
    ("lives of runners", "SELECT count(DISTINCT worker) FROM chaos.change WHERE worker IS NOT NULL"),
];

/// Writes down what the inserters know.
pub async fn record(pool: &PgPool, ledger: &Ledger) {
    let acknowledged = ledger.acknowledged.lock().unwrap().clone();
    let rolled_back = ledger.rolled_back.lock().unwrap().clone();
    for (statement, ids) in [
        ("INSERT INTO chaos.acknowledged SELECT unnest($1::uuid[])", acknowledged),
        ("INSERT INTO chaos.rolled_back SELECT unnest($1::uuid[])", rolled_back),
    ] {
        let ids: Vec<_> = ids.into_iter().map(JobId::as_uuid).collect();
        sqlx::query(statement).bind(ids).execute(pool).await.expect(statement);
    }
}

/// Waits until every job is final, or nothing has happened for a long time.
pub async fn settle(tormentor: &mut Tormentor, patience: Duration) {
    let (mut changes, mut since) = (0, Instant::now());
    loop {
        tormentor.start_again();
        let pool = &tormentor.cluster.direct;
        let left = number(pool, "SELECT count(*) FROM uniqueue.job WHERE finalized_at IS NULL").await;
        if left == 0 {
            return;
        }
        // Poison crashes after longer and longer waits.
        let now = number(pool, "SELECT count(*) FROM chaos.change").await;
        if now != changes {
            (changes, since) = (now, Instant::now());
        }
        // What is left is in the verdict.
        if since.elapsed() > patience {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The table, and the crimes in it.
pub async fn verdict(pool: &PgPool) -> (String, Vec<&'static str>) {
    let mut text = String::new();
    let mut crimes = Vec::new();
    for (name, query) in COUNTS {
        writeln!(text, "{name:<30}{:>9}", number(pool, query).await).expect("a string takes everything");
    }
    writeln!(text, "what must be nothing").expect("a string takes everything");
    for (name, query) in CRIMES {
        let count = number(pool, query).await;
        writeln!(text, "  {name:<28}{count:>9}").expect("a string takes everything");
        if count != 0 {
            crimes.push(name);
        }
    }
    if crimes.contains(&"never brought to an end") {
        text.push_str(&left(pool).await);
    }
    (text, crimes)
}

/// The jobs that did not end, the runners, and the services.
async fn left(pool: &PgPool) -> String {
    let left = "SELECT string_agg(what, E'\n') FROM (
            SELECT 'job ' || to_jsonb(j)::text AS what FROM uniqueue.job AS j WHERE j.finalized_at IS NULL
            UNION ALL SELECT 'runner ' || to_jsonb(r)::text FROM uniqueue.runner AS r
            UNION ALL SELECT 'service ' || to_jsonb(m)::text FROM uniqueue.maintenance AS m
            UNION ALL SELECT 'now ' || clock_timestamp()
        ) AS w";
    sqlx::query_scalar(left).fetch_one(pool).await.expect(left)
}

/// Looks again and again for a key that two jobs claim, through connections that break.
pub async fn observe(pool: PgPool, is_over: Arc<AtomicBool>, looks: Arc<AtomicU64>) {
    let twice = "SELECT j.unique_key FROM uniqueue.job AS j
         WHERE j.unique_key IS NOT NULL AND j.finalized_at IS NULL
            AND uniqueue._state_bit(j.state) & j.unique_states <> 0
         GROUP BY j.unique_key
         HAVING count(*) FILTER (WHERE NOT j.unique_yielded) > 1 OR count(*) FILTER (WHERE j.claims) > 1";
    while !is_over.load(Ordering::Relaxed) {
        if let Ok(Ok(found)) = timeout(ANSWER, sqlx::query(twice).fetch_optional(&pool)).await {
            looks.fetch_add(1, Ordering::Relaxed);
            if let Some(row) = found {
                panic!("two jobs claim {}", row.get::<String, _>(0));
            }
        }
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
}

async fn number(pool: &PgPool, query: &'static str) -> i64 {
    sqlx::query_scalar(query).fetch_one(pool).await.expect(query)
}
