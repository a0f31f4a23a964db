//! What a suppressed duplicate costs, with its kind audited and without, against River's statement and against a bare
//! look-up.
//!
//! `cargo bench --bench duplicates` starts a durable PostgreSQL of its own and runs the four methods in turns, on the
//! same table and the same number of connections. It prints duplicates a second and WAL bytes a duplicate, the median
//! of the rounds.

#![allow(missing_docs, clippy::expect_used)]

use std::time::{Duration, Instant};

use serde_json::json;
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use uniqueue::embedded::{Durability, Postgres};
use uniqueue::{Client, NewJob, UniqueKey, UniqueScope};
use uniqueue_admin::Admin;

const CONNECTIONS: u32 = 4;
const KEYS: usize = 100;
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_secs(2);

/// River's insert: a conflict rewrites the row, so that RETURNING has something to give back.
const RIVERS_WAY: &str =
    "INSERT INTO uniqueue.job (id, kind, unique_key, unique_states) VALUES (gen_random_uuid(), 'a', $1, 241)
    ON CONFLICT (unique_key) WHERE claims DO UPDATE SET kind = EXCLUDED.kind
    RETURNING id, kind, queue, state::text, created_at, args, xmax <> 0 AS duplicate";

/// The kind whose duplicates are counted.
const AUDITED: &str = "b";

const LOOK_UP: &str =
    "SELECT id, kind, queue, state::text, created_at, args FROM uniqueue.job WHERE unique_key = $1 AND claims";

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Method {
    Uniqueue,
    Audited,
    RiversWay,
    LookUp,
}

fn job(kind: &str, n: usize) -> NewJob {
    let key = UniqueKey::raw(format!("key {}", n % KEYS)).scope(UniqueScope::Active);
    NewJob::new(kind, &json!({})).unique_key(key)
}

async fn once(method: Method, client: &Client, n: usize) {
    match method {
        Method::Uniqueue => {
            assert!(client.insert(job("a", n)).await.expect("an insert").duplicate);
        }
        Method::Audited => {
            assert!(client.insert(job(AUDITED, n)).await.expect("an insert").duplicate);
        }
        Method::RiversWay | Method::LookUp => {
            let statement = if method == Method::RiversWay { RIVERS_WAY } else { LOOK_UP };
            let key = format!("key {}", n % KEYS);
            sqlx::query(statement).bind(key).fetch_one(client.pool()).await.expect("a row");
        }
    }
}

async fn wal(pool: &PgPool) -> i64 {
    sqlx::query_scalar("SELECT (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint").fetch_one(pool).await.expect("an LSN")
}

/// Duplicates a second, and WAL bytes each.
async fn round(method: Method, client: &Client) -> (f64, f64) {
    let before = wal(client.pool()).await;
    let started = Instant::now();
    let tasks: Vec<_> = (0..CONNECTIONS as usize)
        .map(|task| {
            let client = client.clone();
            tokio::spawn(async move {
                let mut done = 0_usize;
                while started.elapsed() < ROUND {
                    once(method, &client, task + done * CONNECTIONS as usize).await;
                    done += 1;
                }
                done
            })
        })
        .collect();
    let mut done = 0;
    for task in tasks {
        done += task.await.expect("a task");
    }
    let seconds = started.elapsed().as_secs_f64();
    let written = wal(client.pool()).await - before;
    (done as f64 / seconds, written as f64 / done as f64)
}

/// Folds what was noted, as the pruner does every half minute. How long it took, and the WAL it wrote.
async fn fold(pool: &PgPool) -> (Duration, i64) {
    let (before, began) = (wal(pool).await, Instant::now());
    let fold = "SELECT uniqueue.fold_duplicates()";
    while sqlx::query_scalar::<_, i32>(fold).fetch_one(pool).await.expect("a fold") == 10_000 {}
    (began.elapsed(), wal(pool).await - before)
}

#[tokio::main]
async fn main() {
    let postgres = Postgres::builder().durability(Durability::Durable).start().await.expect("PostgreSQL");
    let pool = PgPoolOptions::new().max_connections(CONNECTIONS).connect(postgres.url()).await.expect("a pool");
    let client = Client::new(pool);
    client.migrate().await.expect("a migration");
    client.insert_many((0..KEYS).map(|n| job("a", n))).await.expect("the holders");
    Admin::new(&client).audit_duplicates(AUDITED, None).await.expect("an audit");
    let methods = [Method::Uniqueue, Method::Audited, Method::RiversWay, Method::LookUp];
    let mut figures: Vec<(Method, Vec<(f64, f64)>)> = methods.iter().map(|method| (*method, Vec::new())).collect();
    for _ in 0..ROUNDS {
        for (method, rounds) in &mut figures {
            rounds.push(round(*method, &client).await);
        }
    }
    let counted = Admin::new(&client).audited_kinds().await.expect("the audit")[0].suppressed;
    let folding = fold(client.pool()).await;
    println!(
        "PostgreSQL {}, durable, {CONNECTIONS} connections, {KEYS} keys, median of {ROUNDS} rounds",
        postgres.version()
    );
    println!("{:<12} {:>14} {:>14}", "method", "duplicates/s", "WAL bytes each");
    for (method, mut rounds) in figures {
        rounds.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (rate, bytes) = rounds[rounds.len() / 2];
        println!("{:<12} {rate:>14.0} {bytes:>14.1}", format!("{method:?}"));
    }
    println!("{counted} audited duplicates of {KEYS} keys folded in {:.2?}, {} B of WAL", folding.0, folding.1);
    postgres.stop().await.expect("a stop");
}
