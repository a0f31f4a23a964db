//! R9 where the role's default isolation level is above READ COMMITTED.

use std::sync::Arc;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tokio::sync::Barrier;
use uniqueue::{Client, JobFilter, OnConflict, SchemaName, UniqueKey, UniqueScope};

use support::{Database, job};

/// A client whose connections begin transactions at this level, as after `ALTER ROLE … SET
/// default_transaction_isolation`.
async fn client_at(database: &Database, level: &str) -> Client {
    let options: PgConnectOptions = database.url.parse().unwrap();
    let options = options.options([("default_transaction_isolation", level)]);
    let pool = PgPoolOptions::new().max_connections(16).connect_with(options).await.unwrap();
    Client::builder().schema(SchemaName::new(&database.schema).unwrap()).pool(pool)
}

#[tokio::test]
async fn r9_the_client_s_own_transactions_surface_no_conflict_at_any_default_level() {
    for level in ["repeatable read", "serializable"] {
        let database = Database::new().await;
        let client = client_at(&database, level).await;
        let old = database.client.insert_many((0..20).map(|n| job("a").unique_key(UniqueKey::raw(format!("k{n}")))));
        let old: Vec<_> = old.await.unwrap().iter().map(|inserted| inserted.id()).collect();
        let barrier = Arc::new(Barrier::new(12));
        let key = |n: usize, on_conflict| {
            UniqueKey::raw(format!("k{}", n % 5)).scope(UniqueScope::Active).on_conflict(on_conflict)
        };
        let tasks: Vec<_> = (0..12)
            .map(|writer| {
                let (client, barrier, old) = (client.clone(), barrier.clone(), old.clone());
                tokio::spawn(async move {
                    barrier.wait().await;
                    for n in 0..60 {
                        let one = |on_conflict| job("a").unique_key(key(n + writer, on_conflict));
                        match writer % 4 {
                            0 => drop(client.insert(one(OnConflict::Ignore)).await.unwrap()),
                            1 => drop(client.insert(one(OnConflict::Replace)).await.unwrap()),
                            2 => {
                                let pair = [0, 1, 2].map(|m| job("a").unique_key(key(n + m, OnConflict::Ignore)));
                                client.insert_many(pair).await.unwrap();
                            }
                            _ if n % 2 == 0 => drop(client.cancel(JobFilter::new().kind("a")).await.unwrap()),
                            _ => drop(client.retry(old.clone()).await.unwrap()),
                        }
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap_or_else(|error| panic!("{level}: {error}"));
        }
        let doubled =
            "SELECT count(*) FROM (SELECT FROM {schema}.job WHERE claims GROUP BY unique_key HAVING count(*) > 1) AS d";
        assert_eq!(database.number(doubled).await, 0);
    }
}
