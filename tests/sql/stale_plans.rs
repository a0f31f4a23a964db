//! Counts of queues that are estimated or shared, and plans that were made while few jobs claimed a key or ran, and that are kept when there are many.
//!
//! The planner then takes a partial index for empty, and reads all of it rather than look a job up by its id.

use support::prelude::*;
use uniqueue_admin::{QueueCache, QueueInfo};

/// The state of a job, what is special about it, and a call that is about it alone. `$id`, `$key`, `$worker` and `$policy`
/// stand for the job's id, its unique key, its worker, and a policy that makes the same key.
const CALLS: [(&str, &str, &str); 41] = [
    ("available", "", "cancel_jobs(ARRAY[$id]::uuid[])"),
    ("available", "", "discard_jobs(ARRAY[$id]::uuid[])"),
    ("available", "", "delete_jobs(ARRAY[$id]::uuid[])"),
    ("completed", "", "delete_jobs(ARRAY[$id]::uuid[])"),
    ("pending", "", "release_jobs(ARRAY[$id]::uuid[])"),
    ("available", "", "reschedule_jobs(ARRAY[$id]::uuid[], now() + interval '1 h')"),
    ("available", "", "set_priority(ARRAY[$id]::uuid[], 3)"),
    ("cancelled", "", "retry_jobs(ARRAY[$id]::uuid[])"),
    ("scheduled", "", "retry_jobs(ARRAY[$id]::uuid[])"),
    ("available", "", "cancel_graph(ARRAY[$id]::uuid[])"),
    ("cancelled", "", "retry_graph($id)"),
    ("available", "", "release_claim($key)"),
    ("available", "", "try_jobs(ARRAY[$id]::uuid[], $worker)"),
    ("available", "", "_discard_unreadable($id, 'a')"),
    ("available", "expired", "_run_service('expirer')"),
    ("cancelled", "yielded", "_take_claims(ARRAY[$id]::uuid[])"),
    ("running", "", "_complete_runs($worker, NULL, ARRAY[$id]::uuid[], '{1}')"),
    ("running", "", "_delete_runs($worker, NULL, ARRAY[$id]::uuid[], '{1}')"),
    (
        "running",
        "",
        "_finish_runs($worker, NULL, ARRAY[$id]::uuid[], '{1}', '{retry}', '{1 s}', '{a}', '{NULL}', '{NULL}', '{NULL}')",
    ),
    (
        "running",
        "",
        "_finish_runs($worker, NULL, ARRAY[$id]::uuid[], '{1}', '{discard}', '{NULL}', '{a}', '{NULL}', '{NULL}', '{NULL}')",
    ),
    ("running", "reserved", "complete_jobs(ARRAY[$id]::uuid[], '{1}')"),
    ("running", "reserved", "fail_jobs(ARRAY[$id]::uuid[], '{1}', '{a}')"),
    ("running", "reserved", "snooze_jobs(ARRAY[$id]::uuid[], '{1}', '{1 s}')"),
    ("running", "reserved", "give_back_jobs(ARRAY[$id]::uuid[], '{1}')"),
    ("running", "reserved", "extend_jobs(ARRAY[$id]::uuid[], '{1}')"),
    ("available", "", "insert_job('a', unique_policy => $policy)"),
    (
        "available",
        "",
        "insert_job('a', on_reject => 'row', unique_policy => $policy || '{\"on_conflict\": \"reject\"}')",
    ),
    ("available", "", "insert_job('a', unique_policy => $policy || '{\"on_conflict\": \"update\"}')"),
    ("available", "", "insert_job('a', unique_policy => $policy || '{\"on_conflict\": \"replace\"}')"),
    ("available", "", "insert_job('a', unique_policy => $policy || '{\"on_conflict\": \"run_again\"}')"),
    (
        "running",
        "",
        "insert_job('a', unique_policy => $policy || '{\"scope\": \"active\", \"on_conflict\": \"preempt\"}')",
    ),
    ("available", "past", "insert_job('a', unique_policy => $policy)"),
    ("available", "expired", "insert_job('a', unique_policy => $policy)"),
    (
        "available",
        "",
        "insert_jobs('[{\"kind\": \"a\"}]' || jsonb_build_object('kind', 'a', 'unique_policy', $policy || '{\"on_conflict\": \"update\"}'))",
    ),
    (
        "available",
        "",
        "insert_jobs('[{\"kind\": \"a\"}]' || jsonb_build_object('kind', 'a', 'unique_policy', $policy || '{\"on_conflict\": \"replace\"}'))",
    ),
    (
        "available",
        "",
        "insert_jobs('[{\"kind\": \"a\"}]' || jsonb_build_object('kind', 'a', 'unique_policy', $policy || '{\"on_conflict\": \"run_again\"}'))",
    ),
    (
        "available",
        "past",
        "insert_jobs('[{\"kind\": \"a\"}]' || jsonb_build_object('kind', 'a', 'unique_policy', $policy || '{}'))",
    ),
    ("available", "", "explain_unique('a', unique_policy => $policy || '{\"on_conflict\": \"update\"}')"),
    ("running", "", "_running_times(ARRAY[$id]::uuid[])"),
    ("available", "past", "_release_expired($id)"),
    ("available", "", "_replace_holder($id, gen_random_uuid(), false)"),
];

/// Makes a job for a call, and returns the call.
const PREPARED: &str = "CREATE FUNCTION pg_temp.prepared(state text, special text, call text) RETURNS text
    LANGUAGE plpgsql AS $$
DECLARE
    target uuid := {schema}.new_job_id();
    worker uuid := gen_random_uuid();
    policy jsonb := jsonb_build_object('key', gen_random_uuid(), 'scope', 'queued');
    key text := (SELECT e.unique_key FROM {schema}.explain_unique('a', unique_policy => policy) AS e);
BEGIN
    INSERT INTO {schema}.job (
        id, kind, state, run, attempt, unique_key, unique_states, worker, unique_until, reserved_until, finalized_at,
        scheduled_at, expires_at, unique_yielded
    )
    SELECT
        target, 'a', state::{schema}.job_state, 1, 1, key, CASE WHEN special = 'yielded' THEN 126 ELSE 127 END,
        CASE WHEN state = 'running' THEN worker END,
        CASE WHEN special = 'past' THEN now() - interval '1 h' END,
        CASE WHEN special = 'reserved' THEN now() + interval '1 h' END,
        CASE WHEN state IN ('cancelled', 'completed') THEN now() END,
        CASE WHEN special = 'due' THEN now() - interval '1 s' ELSE now() END,
        CASE WHEN special = 'expired' THEN now() - interval '1 s' END,
        special = 'yielded';
    call := replace(replace(call, '$id', quote_literal(target)), '$key', quote_literal(key));
    RETURN replace(replace(call, '$worker', quote_literal(worker) || '::uuid'), '$policy', quote_literal(policy) || '::jsonb');
END
$$";

#[support::test]
async fn a_call_about_one_job_reads_no_others_however_few_claimed_or_ran_when_its_plan_was_made(database: Database) {
    let mut connection = database.pool().acquire().await.unwrap();
    database.execute("ALTER TABLE {schema}.job SET (autovacuum_enabled = off)").await;
    let over = "INSERT INTO {schema}.job (id, kind, state, finalized_at)
        SELECT {schema}.new_job_id(), 'a', 'completed', now() FROM generate_series(1, 5000)";
    database.execute(over).await;
    // The statistics now say that the partial indexes are empty.
    database.execute("VACUUM ANALYZE {schema}.job").await;
    sqlx::raw_sql(database.sql(PREPARED)).execute(&mut *connection).await.unwrap();
    for (state, special, call) in CALLS {
        for _ in 0..8 {
            rows_read(&database, &mut connection, state, special, call).await;
        }
    }
    let crowd = "INSERT INTO {schema}.job (
            id, kind, state, worker, run, attempt, unique_key, unique_states, finalized_at, scheduled_at, expires_at,
            group_key, awaited, crashes
        )
        SELECT
            {schema}.new_job_id(), 'a', s.state, CASE WHEN s.state = 'running' THEN gen_random_uuid() END, 1, 1,
            s.state::text || n, 127, CASE WHEN s.is_over THEN now() END, now() + interval '1 h',
            CASE WHEN n % 2 = 0 AND NOT s.is_over THEN now() + interval '1 h' END,
            CASE WHEN n % 3 = 0 THEN 'g' || n % 7 END, n % 5 = 0, (n % 4 = 0)::integer
        FROM generate_series(1, 500) AS n
        CROSS JOIN (
            SELECT state, state IN ('cancelled', 'completed', 'discarded') AS is_over
            FROM unnest(enum_range(NULL::{schema}.job_state)) AS state
        ) AS s";
    database.execute(crowd).await;
    let mut many = Vec::new();
    for (state, special, call) in CALLS {
        let read = rows_read(&database, &mut connection, state, special, call).await;
        if read > 40 {
            many.push(format!("{call} of a job that is {state} {special}: {read} rows"));
        }
    }
    assert!(many.is_empty(), "{}", many.join("\n"));
}

async fn rows_read(database: &Database, connection: &mut PgConnection, state: &str, special: &str, call: &str) -> i64 {
    let prepared = sqlx::query_scalar("SELECT pg_temp.prepared($1, $2, $3)").bind(state).bind(special).bind(call);
    let prepared: String = prepared.fetch_one(&mut *connection).await.unwrap();
    let (found, read) = made(database, connection, &prepared).await;
    assert!(found > 0, "{call} found no job that is {state} {special}");
    read
}

/// Calls about one graph: `$parent` and `$other` are its parents, `$child` is its child.
const GRAPH: [&str; 11] = [
    "insert_job('a', id => $parent, queue => 'graph')",
    "insert_job('a', id => $other, queue => 'graph')",
    "insert_job('a', id => $child, after => ARRAY[$parent, $other]::uuid[])",
    "_release_step(100, NULL, NULL, NULL)",
    "why_waiting($child)",
    "cancel_jobs(ARRAY[$parent]::uuid[])",
    "_run_service('releaser', '{}', jsonb_build_object('check_at', now() + interval '1 min'))",
    "retry_graph($parent, true)",
    "retry_graph($child)",
    "cancel_graph(ARRAY[$child]::uuid[])",
    "delete_jobs(ARRAY[$other]::uuid[])",
];

#[support::test]
async fn a_graph_s_release_reads_its_own_edges_however_few_were_open_when_its_plan_was_made(database: Database) {
    let mut connection = database.pool().acquire().await.unwrap();
    for table in ["job", "job_parent"] {
        database.execute(&format!("ALTER TABLE {{schema}}.{table} SET (autovacuum_enabled = off)")).await;
    }
    let over = "INSERT INTO {schema}.job (id, kind, state, finalized_at)
        SELECT {schema}.new_job_id(), 'a', 'completed', now() FROM generate_series(1, 5000)";
    database.execute(over).await;
    let ended = "INSERT INTO {schema}.job_parent (child, parent, outcome, linked, condition)
        SELECT gen_random_uuid(), gen_random_uuid(), 'completed', true, 'completed' FROM generate_series(1, 20000)";
    database.execute(ended).await;
    for table in ["job", "job_parent"] {
        database.execute(&format!("VACUUM ANALYZE {{schema}}.{table}")).await;
    }
    for _ in 0..8 {
        graph(&database, &mut connection).await;
    }
    let pending = "INSERT INTO {schema}.job (id, kind, state)
        SELECT {schema}.new_job_id(), 'a', 'pending' FROM generate_series(1, 2000)";
    database.execute(pending).await;
    let open = "INSERT INTO {schema}.job_parent (child, parent, linked, condition)
        SELECT c.id, p.id, true, 'completed' FROM {schema}.job AS c, {schema}.job AS p
        WHERE c.state = 'pending' AND p.id = (SELECT q.id FROM {schema}.job AS q WHERE q.state = 'pending' AND q.id <> c.id LIMIT 1)";
    database.execute(open).await;
    let many: Vec<_> = graph(&database, &mut connection).await.into_iter().filter(|(_, read)| *read > 60).collect();
    assert!(many.is_empty(), "{many:?}");
}

/// Makes a graph, and returns how many jobs and edges each call read.
async fn graph(database: &Database, connection: &mut PgConnection) -> Vec<(&'static str, i64)> {
    let [parent, other, child] = std::array::from_fn(|_| JobId::generate());
    let mut reads = Vec::new();
    for call in GRAPH {
        let named = call.replace("$parent", &format!("'{parent}'")).replace("$other", &format!("'{other}'"));
        let named = named.replace("$child", &format!("'{child}'"));
        reads.push((call, made(database, connection, &named).await.1));
    }
    reads
}

/// Makes a call. Returns how many rows it answered, and how many jobs and edges it read.
async fn made(database: &Database, connection: &mut PgConnection, call: &str) -> (i64, i64) {
    let mut tx = connection.begin().await.unwrap();
    let before = read_so_far(database, &mut tx).await;
    let rows = format!("SELECT count(*) FROM {{schema}}.{call}");
    let rows = sqlx::query_scalar(database.sql(&rows)).fetch_one(&mut *tx).await;
    let rows = rows.unwrap_or_else(|error| panic!("{call}: {error}"));
    let read = read_so_far(database, &mut tx).await - before;
    tx.commit().await.unwrap();
    (rows, read)
}

async fn read_so_far(database: &Database, connection: &mut PgConnection) -> i64 {
    let read = "SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::bigint FROM pg_stat_xact_all_tables
        WHERE relid IN ('{schema}.job'::regclass, '{schema}.job_parent'::regclass)";
    sqlx::query_scalar(database.sql(read)).fetch_one(connection).await.unwrap()
}

#[support::test]
async fn jobs_beyond_the_limit_of_counting_are_estimated_from_a_sample_of_the_table(database: Database) {
    let completed = "INSERT INTO {schema}.job (id, kind, queue, state, finalized_at)
        SELECT {schema}.new_job_id(), 'a', CASE WHEN n % 10 < 6 THEN 'deep' ELSE 'low' END, 'completed', now()
        FROM generate_series(1, 100000) AS n";
    database.execute(completed).await;
    let available = "INSERT INTO {schema}.job (id, kind, queue)
        SELECT {schema}.new_job_id(), 'a', 'deep' FROM generate_series(1, 12000)";
    database.execute(available).await;
    let queues = Admin::new(&database.client).queues().await.unwrap();
    let [deep, low] = queues.as_slice() else { panic!("{queues:?}") };
    for (count, jobs) in [(deep.available, 12_000), (deep.completed, 60_000), (low.completed, 40_000)] {
        let JobCount::About(estimate) = count else { panic!("{count:?} of {jobs}") };
        assert!((jobs / 2..jobs * 2).contains(&estimate), "{estimate} of {jobs}");
    }
    // A count that was complete is no estimate.
    assert_eq!(low.available, JobCount::Exactly(0));
    let stats = Admin::new(&database.client).stats().await.unwrap();
    assert_eq!(stats.jobs[&JobState::Completed], JobCount::About(deep.completed.counted() + low.completed.counted()));
}

/// Longer than an answer is shared.
const SLOW: Duration = Duration::from_millis(1_200);

/// The answers to forty clients that ask before and while a slow read is under way.
async fn answers(database: &Database, cache: &Arc<QueueCache>) -> Vec<Arc<[QueueInfo]>> {
    let mut locking = database.pool().begin().await.unwrap();
    let lock = database.sql("LOCK TABLE {schema}.queue IN ACCESS EXCLUSIVE MODE");
    sqlx::query(lock).execute(&mut *locking).await.unwrap();
    let mut clients = JoinSet::new();
    for _ in 0..40 {
        let cache = Arc::clone(cache);
        clients.spawn(async move { cache.queues().await.unwrap() });
    }
    database.until_waits_for("queue").await;
    tokio::time::sleep(SLOW).await;
    locking.rollback().await.unwrap();
    clients.join_all().await
}

#[support::test(with_connections(4))]
async fn clients_that_waited_for_a_slow_read_of_counts_accept_it(database: Database) {
    let cache = Arc::new(QueueCache::new(database.client.clone()));
    let first = answers(&database, &cache).await;
    assert!(first.iter().all(|answer| Arc::ptr_eq(answer, &first[0])), "they read anew");
    cache.changed();
    let second = answers(&database, &cache).await;
    assert!(second.iter().all(|answer| Arc::ptr_eq(answer, &second[0])), "they read anew");
    assert!(!Arc::ptr_eq(&first[0], &second[0]), "the change is not in the first");
}
