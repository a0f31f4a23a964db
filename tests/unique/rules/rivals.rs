//! R9 and R11: uncommitted rivals, snapshots, and inserts that never answer "nothing".

use support::prelude::*;

fn key(text: &str) -> UniqueKey {
    UniqueKey::raw(text).scope(UniqueScope::Active)
}

#[tokio::test]
async fn r9_an_insert_waits_for_a_rival_and_is_a_duplicate_if_it_commits_and_inserts_if_it_rolls_back() {
    for commit in [true, false] {
        let database = Database::new().await;
        let mut rival = database.pool().begin().await.unwrap();
        let held = database.client.insert(job("rival").unique_key(key("k"))).tx(&mut rival).await.unwrap();
        let waiting = inserting(&database.client, job("a").unique_key(key("k")));
        database.until_inserts_wait(1).await;
        if commit {
            rival.commit().await.unwrap();
        } else {
            rival.rollback().await.unwrap();
        }
        let answer = waiting.await.unwrap().unwrap();
        assert_eq!((answer.duplicate, answer.id() == held.id()), (commit, commit));
    }
}

#[support::test]
async fn r9_a_caller_who_must_not_wait_can_bound_it(database: Database) {
    let mut rival = database.pool().begin().await.unwrap();
    database.client.insert(job("rival").unique_key(key("k"))).tx(&mut rival).await.unwrap();
    let mut tx = database.pool().begin().await.unwrap();
    let limit = Duration::from_millis(50);
    let insert = database.client.insert(job("a").unique_key(key("k"))).max_wait(limit).tx(&mut tx);
    let error = insert.await.unwrap_err();
    assert!(matches!(error, Error::Busy { waited } if waited == limit), "{error}");
    assert!(error.is_retryable());
    // The transaction is usable, its lock_timeout is its own, and nothing was inserted.
    let timeout: String = sqlx::query_scalar("SHOW lock_timeout").fetch_one(&mut *tx).await.unwrap();
    assert_eq!(timeout, "0");
    database.client.insert(job("a").unique_key(key("other"))).max_wait(limit).tx(&mut tx).await.unwrap();
    let timeout: String = sqlx::query_scalar("SHOW lock_timeout").fetch_one(&mut *tx).await.unwrap();
    assert_eq!(timeout, "0");
    tx.commit().await.unwrap();
    rival.rollback().await.unwrap();
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 1);
}

/// A claim that has expired keeps no insert out, but a lock on its holder's row makes the insert wait.
#[tokio::test]
async fn r7_an_insert_waits_for_a_locked_holder_whose_claim_is_over_and_a_caller_can_bound_it() {
    let lock = "SELECT FROM {schema}.job WHERE unique_key = 'k' FOR UPDATE";
    // As a worker's open complete_in.
    let complete =
        "UPDATE {schema}.job SET state = 'completed', finalized_at = now(), worker = NULL WHERE unique_key = 'k'";
    for locking in [lock, complete] {
        let database = Database::new().await;
        let client = &database.client;
        let unique = || job("a").unique_key(key("k").period(MINUTE));
        let old = client.insert(unique()).await.unwrap().id();
        database.set_state(old, "running").await;
        database.pass(MINUTE).await;
        let locker = database.begin(locking).await;

        // Bounded, in Rust and in SQL.
        let limit = Duration::from_millis(50);
        let mut tx = database.pool().begin().await.unwrap();
        for error in [
            client.insert(unique()).max_wait(limit).await.unwrap_err(),
            client.insert(unique()).max_wait(limit).tx(&mut tx).await.unwrap_err(),
            client.insert_many([unique(), job("b")]).max_wait(limit).await.unwrap_err(),
        ] {
            assert!(matches!(error, Error::Busy { waited } if waited == limit), "{error}");
            assert!(error.is_retryable() && error.to_string().contains("locks its holder"), "{error}");
        }
        // The transaction is usable.
        client.insert(job("c")).tx(&mut tx).await.unwrap();
        tx.rollback().await.unwrap();
        let policy = r#"'{"key": "k", "period": "PT1M"}'"#;
        for call in [
            format!("insert_job('a', unique_policy => {policy}, max_wait => '50 ms')"),
            format!(
                "insert_jobs(jsonb_build_array(jsonb_build_object('kind', 'a', 'unique_policy', {policy}::jsonb)), '50 ms')"
            ),
        ] {
            let said = "another open transaction holds the unique key or locks its holder: waited 50 ms";
            let refused = database.refused(&format!("SELECT * FROM {{schema}}.{call}")).await;
            assert_eq!(refused, ("55P03".to_owned(), said.to_owned()));
        }

        // Unbounded it waits, and goes in when the lock is gone.
        let waiting = inserting(client, unique());
        database.until_inserts_wait(1).await;
        // Nor do other inserts wait for that one.
        assert!(!client.insert(job("a").unique_key(key("other"))).await.unwrap().duplicate);
        locker.commit().await.unwrap();
        let new = waiting.await.unwrap().unwrap();
        assert!(!new.duplicate && new.id() != old);
    }
}

#[tokio::test]
async fn r9_a_conflict_newer_than_the_snapshot_is_retryable() {
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        let database = Database::new().await;
        let client = &database.client;
        let begin = async || {
            let mut tx = database.pool().begin().await.unwrap();
            let level = format!("SET TRANSACTION ISOLATION LEVEL {level}");
            sqlx::query(database.sql(&level)).execute(&mut *tx).await.unwrap();
            sqlx::query("SELECT count(*) FROM pg_class").execute(&mut *tx).await.unwrap();
            tx
        };
        for (n, on_conflict) in OnConflict::ALL.into_iter().enumerate() {
            // One insert, two in a batch, and one over a claim that has expired since.
            for way in ["one", "batch", "expired"] {
                let text = format!("{way} {n}");
                let scope = if on_conflict == OnConflict::RunAgain { UniqueScope::Queued } else { UniqueScope::Active };
                let unique = || job("a").unique_key(key(&text).scope(scope).on_conflict(on_conflict));
                if way == "expired" {
                    let old = key(&text).period(MINUTE);
                    client.insert(job("old").unique_key(old)).await.unwrap();
                    database.pass(MINUTE).await;
                }
                let mut tx = begin().await;
                client.insert(job("a").unique_key(key(&text))).await.unwrap();
                let error = match way {
                    "batch" => client.insert_many([unique(), job("b")]).tx(&mut tx).await.unwrap_err(),
                    _ => client.insert(unique()).tx(&mut tx).await.unwrap_err(),
                };
                assert!(error.is_retryable(), "{level}, {text}, {on_conflict:?}: {error}");
                // Another transaction sees the rival, and all is as the policy says.
                let mut again = begin().await;
                let answer = client.insert(unique()).tx(&mut again).await;
                match on_conflict {
                    OnConflict::Ignore => assert!(answer.unwrap().duplicate),
                    OnConflict::Update => assert!(answer.unwrap().updated),
                    OnConflict::RunAgain => assert!(answer.unwrap().covered),
                    OnConflict::Reject => assert!(matches!(answer, Err(Error::Rejected(_)))),
                    OnConflict::Replace | OnConflict::ReplaceExceptSchedule | OnConflict::Preempt => {
                        assert!(answer.unwrap().replaced.is_some());
                    }
                }
            }
        }
        // The SQL door.
        let insert = database.sql(
            "SELECT duplicate FROM {schema}.insert_job('a', unique_policy => '{\"key\": \"sql\", \"on_conflict\": \"ignore\"}')",
        );
        let mut tx = begin().await;
        sqlx::query(insert.clone()).execute(database.pool()).await.unwrap();
        let error = sqlx::query(insert.clone()).execute(&mut *tx).await.unwrap_err();
        let code = error.as_database_error().and_then(|error| error.code());
        assert_eq!(code.as_deref(), Some("40001"), "{level}: {error}");
        assert!(sqlx::query_scalar::<_, bool>(insert).fetch_one(&mut *begin().await).await.unwrap());
    }
}

#[tokio::test]
async fn r9_the_client_s_own_transactions_surface_no_conflict_at_any_default_level() {
    for level in ["repeatable read", "serializable"] {
        let database = Database::new().await;
        // As after `ALTER ROLE … SET default_transaction_isolation`.
        let client =
            database.client_with(16, |options| options.options([("default_transaction_isolation", level)])).await;
        let old = database.client.insert_many((0..20).map(|n| job("a").unique_key(UniqueKey::raw(format!("k{n}")))));
        let old: Vec<_> = old.await.unwrap().iter().map(|inserted| inserted.id()).collect();
        let key = |n: usize, on_conflict| {
            UniqueKey::raw(format!("k{}", n % 5)).scope(UniqueScope::Active).on_conflict(on_conflict)
        };
        let write = |writer| {
            let (client, old) = (client.clone(), old.clone());
            async move {
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
            }
        };
        together((0..12).map(write)).await;
        let doubled =
            "SELECT count(*) FROM (SELECT FROM {schema}.job WHERE claims GROUP BY unique_key HAVING count(*) > 1) AS d";
        assert_eq!(database.number(doubled).await, 0);
    }
}
