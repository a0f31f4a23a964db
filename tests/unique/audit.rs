//! The audit of suppressed duplicates: its counts, its cost for inserts, and its limits.

use uniqueue_admin::{AuditedKind, SuppressedDuplicate};

use support::prelude::*;

fn key(conflict: OnConflict) -> UniqueKey {
    UniqueKey::raw("k").on_conflict(conflict)
}

fn ignored() -> uniqueue::NewJob {
    job("a").unique_key(key(OnConflict::Ignore))
}

/// How many duplicates of kind `a` and key `k` were counted.
async fn counted(database: &Database) -> u64 {
    let counters = Admin::new(&database.client).suppressed_duplicates().kind("a").unique_key("k").await.unwrap();
    assert!(counters.len() <= 1, "one counter a key: {counters:?}");
    counters.first().map_or(0, |counter| counter.suppressed)
}

/// A database where kind `a` is audited, and a job of it claims `k`.
async fn audited() -> Database {
    let database = Database::new().await;
    Admin::new(&database.client).audit_duplicates("a", None).await.unwrap();
    database.client.insert(ignored()).await.unwrap();
    database
}

#[support::test]
async fn a_duplicate_of_a_kind_that_is_not_audited_writes_nothing(database: Database) {
    // Another kind is audited, and this one was.
    Admin::new(&database.client).audit_duplicates("b", None).await.unwrap();
    Admin::new(&database.client).audit_duplicates("a", None).await.unwrap();
    Admin::new(&database.client).stop_audit("a", None).await.unwrap();
    database.client.insert(ignored()).await.unwrap();
    let mut tx = database.pool().begin().await.unwrap();
    assert!(database.client.insert(ignored()).tx(&mut tx).await.unwrap().duplicate);
    let batch = [ignored(), job("a").unique_key(key(OnConflict::Reject)), ignored()];
    assert!(database.client.insert_many([ignored(), ignored()]).tx(&mut tx).await.unwrap()[1].duplicate);
    assert!(database.client.insert_many(batch).tx(&mut tx).await.unwrap_err().is_duplicate());
    let by_sql = "SELECT duplicate FROM {schema}.insert_job('a', unique_policy => '{\"key\": \"k\"}')";
    assert!(sqlx::query_scalar::<_, bool>(database.sql(by_sql)).fetch_one(&mut *tx).await.unwrap());
    let wrote = "SELECT pg_current_xact_id_if_assigned() IS NOT NULL OR EXISTS (SELECT FROM {schema}.duplicate_tally)";
    assert!(!sqlx::query_scalar::<_, bool>(database.sql(wrote)).fetch_one(&mut *tx).await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(Admin::new(&database.client).suppressed_duplicates().await.unwrap(), []);
}

#[support::test(self::audited())]
async fn duplicates_are_counted_by_key_and_kind_through_every_door(database: Database, client: &Client) {
    let holder = client.insert(ignored()).await.unwrap().id();
    assert_eq!(counted(&database).await, 1, "alone");
    client.insert_many([ignored(), job("a"), ignored()]).await.unwrap();
    assert_eq!(counted(&database).await, 3, "in a batch, with the twin that was never sent");
    let twins = || job("a").unique_key(UniqueKey::raw("twins"));
    let answers = client.insert_many([twins(), twins(), job("b").unique_key(UniqueKey::raw("b")), twins()]).await;
    assert_eq!(answers.unwrap().iter().filter(|answer| answer.duplicate).count(), 2);
    assert_eq!(
        Admin::new(client).suppressed_duplicates().unique_key("twins").await.unwrap()[0].suppressed,
        2,
        "of a new job"
    );
    client.insert_many([ignored(), job("a").unique_key(key(OnConflict::Reject))]).await.unwrap_err();
    assert_eq!(counted(&database).await, 4, "a refused batch counts what refused it");
    client.insert(job("a").unique_key(key(OnConflict::Reject))).await.unwrap_err();
    assert_eq!(counted(&database).await, 5, "rejected");
    database.execute("SELECT id FROM {schema}.insert_job('a', unique_policy => '{\"key\": \"k\"}')").await;
    assert_eq!(counted(&database).await, 6, "in SQL");
    let insert = |_| {
        let client = client.clone();
        async move { client.insert(ignored()).await.unwrap() }
    };
    assert!(together((0..20).map(insert)).await.iter().all(|answer| answer.duplicate));
    assert_eq!(counted(&database).await, 26, "at the same time");
    // Another kind with the same key is not audited, and its jobs are not kind a's.
    client.insert(job("b").unique_key(key(OnConflict::Ignore))).await.unwrap();
    assert_eq!(counted(&database).await, 26);
    let [counter] =
        Admin::new(client).suppressed_duplicates().kind("a").unique_key("k").await.unwrap().try_into().unwrap();
    let SuppressedDuplicate { last_holder, first_at, last_at, .. } = counter;
    assert_eq!(last_holder, holder);
    assert!(first_at < last_at);
    let [kind] = Admin::new(client).audited_kinds().await.unwrap().try_into().unwrap();
    let AuditedKind { is_audited, since, suppressed, tally_is_full, .. } = kind;
    assert_eq!((is_audited, suppressed, tally_is_full), (true, 28, false));
    assert!(since < first_at);
}

#[support::test(self::audited())]
async fn what_is_replaced_or_inserted_is_not_suppressed(database: Database, client: &Client) {
    let replacing = || job("a").unique_key(key(OnConflict::Replace));
    assert!(client.insert(replacing()).await.unwrap().replaced.is_some());
    let again = client.insert(replacing()).await.unwrap();
    // Sent again by its id, it is the same insert.
    assert!(!client.insert(replacing().id(again.id())).await.unwrap().duplicate);
    assert_eq!(counted(&database).await, 0);
    database.set_state(again.id(), "running").await;
    database.execute("UPDATE {schema}.job SET unique_states = 255 WHERE state = 'running'").await;
    assert!(matches!(client.insert(replacing()).await, Err(Error::Rejected(_))));
    assert_eq!(counted(&database).await, 1, "a running holder is not replaced");
}

#[support::test(self::audited())]
async fn only_what_committed_counts(database: Database, client: &Client) {
    let mut tx = database.pool().begin().await.unwrap();
    client.insert(ignored()).tx(&mut tx).await.unwrap();
    client.insert_many([ignored(), ignored()]).tx(&mut tx).await.unwrap();
    assert_eq!(counted(&database).await, 0, "the transaction is open");
    tx.rollback().await.unwrap();
    assert_eq!(counted(&database).await, 0);
    // In SQL a refusal is an error, and an error takes back what its statement wrote.
    let mut tx = database.pool().begin().await.unwrap();
    let refused = "DO $$ BEGIN
        PERFORM {schema}.insert_job('a', unique_policy => '{\"key\": \"k\", \"on_conflict\": \"reject\"}');
    EXCEPTION WHEN unique_violation THEN NULL;
    END $$";
    sqlx::raw_sql(database.sql(refused)).execute(&mut *tx).await.unwrap();
    client.insert(ignored()).tx(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(counted(&database).await, 1);
}

#[support::test(self::audited())]
async fn open_transactions_with_duplicates_of_one_key_hold_up_nobody(database: Database, client: &Client) {
    let mut open = Vec::new();
    for _ in 0..5 {
        let mut tx = database.pool().begin().await.unwrap();
        sqlx::query("SET LOCAL lock_timeout = '1s'").execute(&mut *tx).await.unwrap();
        client.insert(ignored()).tx(&mut tx).await.unwrap();
        open.push(tx);
    }
    // Neither the others, nor folding, nor a switch waits for them.
    client.insert(ignored()).await.unwrap();
    assert_eq!(database.number("SELECT {schema}.fold_duplicates()::bigint").await, 1);
    Admin::new(client).stop_audit("a", None).await.unwrap();
    Admin::new(client).audit_duplicates("a", Some(MINUTE)).await.unwrap();
    for mut tx in open {
        client.insert(ignored()).tx(&mut tx).await.unwrap();
        tx.commit().await.unwrap();
    }
    assert_eq!(counted(&database).await, 11);
    assert_eq!(database.number("SELECT {schema}.fold_duplicates(4)::bigint").await, 4);
    assert_eq!(counted(&database).await, 11, "folded or not");
    assert_eq!(database.number("SELECT {schema}.fold_duplicates()::bigint").await, 6);
    assert_eq!(counted(&database).await, 11);
    assert_eq!(Admin::new(client).audited_kinds().await.unwrap()[0].suppressed, 11);
}

#[tokio::test]
async fn many_folding_at_once_lose_and_double_nothing() {
    fold_while_others_insert(&audited().await).await;
}

#[support::test(self::audited())]
async fn a_tally_that_is_cleared_away_while_others_insert_loses_nothing(database: Database) {
    // Whatever its size, so at any moment when it is empty.
    let any_size = "DO $$ BEGIN
        EXECUTE replace(
            pg_get_functiondef('{schema}.fold_duplicates(integer)'::regprocedure), '32 * 1024 * 1024', '1'
        );
    END $$";
    database.execute(any_size).await;
    let file = "SELECT pg_relation_filenode('{schema}.duplicate_tally')::bigint";
    let before = database.number(file).await;
    fold_while_others_insert(&database).await;
    assert_ne!(database.number(file).await, before, "it was cleared away");
    assert_eq!(database.number("SELECT pg_relation_size('{schema}.duplicate_tally')").await, 0);
}

async fn fold_while_others_insert(database: &Database) {
    Admin::new(&database.client).audit_duplicates("b", None).await.unwrap();
    database.client.insert(job("b").unique_key(UniqueKey::raw("b"))).await.unwrap();
    let insert_or_fold = |n| {
        let client = database.client.clone();
        let fold = database.sql("SELECT {schema}.fold_duplicates(7)");
        async move {
            for _ in 0..25 {
                if n % 2 == 0 {
                    let b = job("b").unique_key(UniqueKey::raw("b"));
                    client.insert_many([ignored(), b.clone(), b]).await.unwrap();
                } else {
                    sqlx::query(fold.clone()).execute(client.pool()).await.unwrap();
                }
            }
        }
    };
    together((0..8).map(insert_or_fold)).await;
    let totals = || async {
        let kinds = Admin::new(&database.client).audited_kinds().await.unwrap();
        kinds.iter().map(|kind| kind.suppressed).collect::<Vec<_>>()
    };
    assert_eq!(totals().await, [100, 200]);
    database.execute("SELECT {schema}.fold_duplicates()").await;
    assert_eq!(totals().await, [100, 200]);
    assert_eq!(database.number("SELECT sum(suppressed)::bigint FROM {schema}.duplicate_count").await, 300);
}

#[support::test(self::audited())]
async fn stopping_keeps_what_was_counted_and_deleting_forgets_it(database: Database, client: &Client) {
    client.insert(ignored()).await.unwrap();
    Admin::new(client).stop_audit("a", None).await.unwrap();
    client.insert(ignored()).await.unwrap();
    assert_eq!(counted(&database).await, 1);
    let [stopped] = Admin::new(client).audited_kinds().await.unwrap().try_into().unwrap();
    assert!(!stopped.is_audited && stopped.stopped_at.is_some());
    database.execute("SELECT {schema}.fold_duplicates()").await;
    Admin::new(client).audit_duplicates("a", None).await.unwrap();
    client.insert(ignored()).await.unwrap();
    let [again] = Admin::new(client).audited_kinds().await.unwrap().try_into().unwrap();
    assert_eq!((again.since, again.suppressed, again.stopped_at), (stopped.since, 2, None));
    database.execute("DELETE FROM {schema}.duplicate_audit").await;
    database.execute("SELECT {schema}.fold_duplicates()").await;
    assert_eq!(counted(&database).await, 0);
    assert_eq!(database.number("SELECT count(*) FROM {schema}.duplicate_tally").await, 0);
}

#[support::test(self::audited())]
async fn counters_go_when_their_time_is_over_and_totals_stay(database: Database, client: &Client) {
    Admin::new(client).audit_duplicates("a", Some(HOUR)).await.unwrap();
    client.insert(ignored()).await.unwrap();
    let late = job("a").unique_key(UniqueKey::raw("late"));
    client.insert_many([late.clone(), late]).await.unwrap();
    database.execute("SELECT {schema}.fold_duplicates()").await;
    let age = "UPDATE {schema}.duplicate_count SET last_at = last_at - interval '2 hours' WHERE unique_key = 'k'";
    database.execute(age).await;
    database.execute("SELECT {schema}.fold_duplicates()").await;
    let left = Admin::new(client).suppressed_duplicates().await.unwrap();
    assert_eq!(left.iter().map(|counter| counter.unique_key.as_str()).collect::<Vec<_>>(), ["late"]);
    assert_eq!(Admin::new(client).audited_kinds().await.unwrap()[0].suppressed, 2);
}

#[support::test(self::audited())]
async fn a_tally_that_nobody_folds_ends_at_64_mb_and_says_so(database: Database) {
    let tally = "INSERT INTO {schema}.duplicate_tally (at, holder, suppressed, kind, unique_key)
        SELECT now(), gen_random_uuid(), 1, 'a', repeat('x', 500) || n % 10 FROM generate_series(1, 125000) AS n";
    database.execute(tally).await;
    assert!(Admin::new(&database.client).audited_kinds().await.unwrap()[0].tally_is_full);
    assert!(database.client.insert(ignored()).await.unwrap().duplicate);
    assert_eq!(counted(&database).await, 0);
    // One looks at what is folded, another has only an old snapshot.
    let old = database.begin("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT now()").await;
    let looks = database.begin("SELECT FROM {schema}.duplicate_tally LIMIT 1").await;
    let fold = async || database.number("SELECT {schema}.fold_duplicates(50000)::bigint").await;
    assert_eq!([fold().await, fold().await, fold().await], [50_000, 50_000, 25_000]);
    assert!(
        Admin::new(&database.client).audited_kinds().await.unwrap()[0].tally_is_full,
        "in use, and no session waited"
    );
    looks.rollback().await.unwrap();
    // Folded, it is cleared away at once, and goes on.
    assert_eq!(fold().await, 0);
    let [kind] = Admin::new(&database.client).audited_kinds().await.unwrap().try_into().unwrap();
    assert_eq!((kind.tally_is_full, kind.suppressed), (false, 125_000));
    assert!(database.client.insert(ignored()).await.unwrap().duplicate);
    assert_eq!(counted(&database).await, 1);
    old.rollback().await.unwrap();
}

#[support::test(self::audited())]
async fn a_fold_reads_no_counter_that_stays_and_takes_any_time_for_ever(database: Database, client: &Client) {
    client.insert(ignored()).await.unwrap();
    for kind in ["a", "b", "forgotten"] {
        let counters = format!(
            "INSERT INTO {{schema}}.duplicate_count (first_at, last_at, last_holder, suppressed, kind, unique_key)
             SELECT now(), now() - n * interval '1 min', gen_random_uuid(), 1, '{kind}', 'k' || n
             FROM generate_series(1, 3000) AS n"
        );
        database.execute(&counters).await;
    }
    database.execute("SELECT {schema}.audit_duplicates('b', keep => '178000000 years')").await;
    let mut tx = database.pool().begin().await.unwrap();
    // The first plans without statistics, the second for tables that it knows.
    for (kind, left) in [("forgotten", 2_900), ("forgotten", 2_800)] {
        let fold = database.sql("SELECT {schema}.fold_duplicates(100)");
        sqlx::query(fold).execute(&mut *tx).await.unwrap();
        let count = database.sql(&format!("SELECT count(*) FROM {{schema}}.duplicate_count WHERE kind = '{kind}'"));
        let counted = sqlx::query_scalar::<_, i64>(count).fetch_one(&mut *tx).await.unwrap();
        assert_eq!(counted, left);
        sqlx::query(database.sql("ANALYZE {schema}.duplicate_count")).execute(&mut *tx).await.unwrap();
    }
    tx.rollback().await.unwrap();
    database.execute("DELETE FROM {schema}.duplicate_count WHERE kind = 'forgotten'").await;
    let read = "SELECT (coalesce(idx_tup_fetch, 0) + coalesce(seq_tup_read, 0))::bigint
        FROM pg_stat_xact_user_tables WHERE relid = '{schema}.duplicate_count'::regclass";
    Admin::new(client).audit_duplicates("a", Some(Duration::from_secs(2_990 * 60 + 30))).await.unwrap();
    let mut tx = database.pool().begin().await.unwrap();
    let before = sqlx::query_scalar::<_, i64>(database.sql(read)).fetch_one(&mut *tx).await.unwrap();
    sqlx::query(database.sql("SELECT {schema}.fold_duplicates()")).execute(&mut *tx).await.unwrap();
    let after = sqlx::query_scalar::<_, i64>(database.sql(read)).fetch_one(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
    assert!((10..100).contains(&(after - before)), "{} counters were read", after - before);
    let left = "SELECT string_agg(kind || ' ' || n, ', ' ORDER BY kind)
        FROM (SELECT kind, count(*) AS n FROM {schema}.duplicate_count GROUP BY kind) AS k";
    assert_eq!(database.text(left).await, "a 2991, b 3000");
    assert_eq!(Admin::new(client).audited_kinds().await.unwrap().len(), 2);
}

#[support::test(self::audited())]
async fn a_runner_folds_what_was_noted(database: Database) {
    database.client.insert(ignored()).await.unwrap();
    let runner = database.runner().queue("another", 1).prune_interval(Duration::from_millis(10));
    database.start(runner.worker(at_once)).await;
    eventually!(database.number("SELECT count(*) FROM {schema}.duplicate_count").await > 0, "not folded");
    database.end().await;
    assert_eq!(counted(&database).await, 1);
    assert_eq!(database.number("SELECT count(*) FROM {schema}.duplicate_tally").await, 0);
}

#[support::test(self::audited())]
async fn what_is_noted_costs_no_wal_and_a_look_at_a_key_goes_by_index(database: Database) {
    let kept = "SELECT relpersistence::text FROM pg_class WHERE oid = '{schema}.duplicate_tally'::regclass";
    assert_eq!(database.text(kept).await, "u");
    let counters = "INSERT INTO {schema}.duplicate_count (first_at, last_at, last_holder, suppressed, kind, unique_key)
        SELECT now(), now(), gen_random_uuid(), 1, 'a', 'k' || n FROM generate_series(1, 20000) AS n";
    database.execute(counters).await;
    database.execute("ANALYZE {schema}.duplicate_count").await;
    let explain = "EXPLAIN SELECT suppressed FROM {schema}.suppressed_duplicate WHERE unique_key = 'k7'";
    let lines = sqlx::query(database.sql(explain)).fetch_all(database.pool()).await.unwrap();
    let plan = lines.iter().map(|line| line.get::<String, _>(0)).collect::<Vec<_>>().join("\n");
    assert!(plan.contains("using duplicate_count_pkey") && !plan.contains("Seq Scan on duplicate_count"), "{plan}");
}

#[support::test]
async fn keys_and_policies_are_the_same_with_an_audit_and_without(database: Database) {
    let policy = || UniquePolicy::new().by_args();
    let first = database.client.insert(job("a").unique(policy())).await.unwrap();
    Admin::new(&database.client).audit_duplicates("a", None).await.unwrap();
    let second = database.client.insert(job("a").unique(policy())).await.unwrap();
    assert_eq!((second.duplicate, second.id()), (true, first.id()));
    let [counter] = Admin::new(&database.client).suppressed_duplicates().await.unwrap().try_into().unwrap();
    assert_eq!(Some(counter.unique_key), first.job.unique_key);
}

#[support::test]
async fn what_cannot_be_audited_is_refused(database: Database) {
    let admin = Admin::new(&database.client);
    let millennium = Duration::from_secs(365_250 * 86_400);
    admin.audit_duplicates("a", Some(millennium)).await.unwrap();
    admin.audit_duplicates("a", Some(Duration::MAX)).await.unwrap_err();
    assert!(admin.audited_kinds().await.unwrap()[0].keep > millennium / 2, "as it was");
    assert!(admin.audit_duplicates("", None).await.is_err());
}
