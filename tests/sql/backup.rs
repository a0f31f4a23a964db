//! Jobs that move: a dump and its restore into another database, as docs/operate/operations.md says, and the statements of
//! examples/moving that bring jobs from other queues.

use support::prelude::*;
use support::tools;
use uniqueue::testing;
use uniqueue::testing::Database;

#[derive(Debug, serde::Deserialize, serde::Serialize, Job)]
#[job(kind = "task")]
struct Task {}

#[tokio::test]
async fn a_dump_restored_elsewhere_goes_on_where_it_was() {
    let (old, new) = (Database::new().await.unwrap(), Database::new().await.unwrap());
    let Some(backup) = Backup::find(&old).await else { return };
    let held = || job("task").unique_key(UniqueKey::raw("k"));
    let holder = old.client().insert(held()).await.unwrap().id();
    let lost = old.client().insert(Task {}).await.unwrap().id();
    let run = "INSERT INTO uniqueue.runner (id, name, queues, leased_until, knows_groups) VALUES (md5('r')::uuid, 'r', '{default}', now(), true);
        UPDATE uniqueue.job SET state = 'running', worker = md5('r')::uuid, attempt = 1, attempted_at = now() WHERE id = '{lost}';
        SELECT uniqueue.pause_queue('other');
        ALTER TABLE uniqueue.job SET (autovacuum_vacuum_threshold = 4321)";
    sqlx::raw_sql(AssertSqlSafe(run.replace("{lost}", &lost.to_string()))).execute(old.pool()).await.unwrap();
    let before = fingerprint(&old).await;

    backup.take(&old).await;
    backup.restore(&new).await;

    let client = Client::connect(new.url()).await.unwrap();
    client.check_schema().await.unwrap();
    assert!(client.migrate().await.unwrap().is_empty());
    assert_eq!(fingerprint(&new).await, before);
    let again = client.insert(held()).await.unwrap();
    assert!(again.duplicate && again.id() == holder);
    let runner = Runner::new(client.clone()).queue("default", 2).worker(|_: RunningJob<Task>| async {});
    let runner = runner.start().await.unwrap();
    for id in [holder, lost] {
        eventually!(client.job(id).await.unwrap().unwrap().state == JobState::Completed, "{id} does not go on");
    }
    let row = client.job(lost).await.unwrap().unwrap();
    assert_eq!((row.attempt, row.crashes), (1, 1));
    assert!(!client.insert(held()).await.unwrap().duplicate);
    runner.stop().await.unwrap();
}

#[tokio::test]
async fn the_doctor_finds_nothing_in_a_restored_schema() {
    let (old, new) = (Database::new().await.unwrap(), Database::new().await.unwrap());
    let Some(backup) = Backup::find(&old).await else { return };
    backup.take(&old).await;
    backup.restore(&new).await;
    let found = Admin::new(new.client()).diagnose().await.unwrap().findings;
    assert!(found.is_empty(), "{found:#?}");
}

/// The live runners find the tables empty and without keys, as between two statements of `pg_restore --clean`.
#[support::test]
async fn a_restore_under_live_runners_doubles_no_row(database: testing::Database) {
    let Some(backup) = Backup::find(&database).await else { return };
    let client = database.client();
    let runner = || Runner::new(client.clone()).queue("default", 2).worker(|_: RunningJob<Task>| async {}).start();
    let runners = [runner().await.unwrap(), runner().await.unwrap()];
    let led = "SELECT count(*) FROM uniqueue.maintenance WHERE leased_until > now() AND holder IS NOT NULL";
    let count = async |sql: &'static str| sqlx::query_scalar::<_, i64>(sql).fetch_one(database.pool()).await;
    eventually!(count(led).await.unwrap() >= 6, "services without a lease");
    sqlx::raw_sql("SELECT uniqueue.pause_queue('q')").execute(database.pool()).await.unwrap();
    backup.take(&database).await;
    backup.restore_section(&database, SECTIONS[0]).await;
    // The live runners have found the new tables.
    eventually!(count("SELECT count(*) FROM uniqueue.runner").await.is_ok_and(|runners| runners >= 2));
    for writes in [
        "SELECT uniqueue._take_service('pruner', md5('a')::uuid, 'a', '1 s')",
        "SELECT uniqueue._lock_queue('q')",
        "SELECT uniqueue._enter_worker('w', '{q}', NULL, '1 min')",
        "SELECT uniqueue.set_periodic('p', kind => 'k', schedule => '@daily')",
        "SELECT uniqueue._add_parents('{}', '{}', '{}', '{}')",
    ] {
        let written = sqlx::raw_sql(writes).execute(database.pool()).await;
        let error = written.expect_err(writes);
        let code = error.as_database_error().and_then(|error| error.code().map(String::from));
        assert!(matches!(code.as_deref(), Some("42P10" | "42704")), "{writes}: {error}");
    }
    backup.restore_section(&database, SECTIONS[1]).await;
    // This fails where a row is doubled.
    backup.restore_section(&database, SECTIONS[2]).await;
    let found = Admin::new(client).diagnose().await.unwrap().findings;
    let is_of_schema = |code: &str| ["object_missing", "object_changed", "index_missing"].contains(&code);
    assert!(!found.iter().any(|finding| is_of_schema(&finding.code)), "{found:#?}");
    let id = client.insert(Task {}).scheduled_in(Duration::from_millis(50)).await.unwrap().id();
    eventually!(client.job(id).await.unwrap().unwrap().state == JobState::Completed, "the runners do not go on");
    for runner in runners {
        runner.stop().await.unwrap();
    }
}

#[support::test]
async fn no_slot_of_a_periodic_job_runs_while_a_key_of_jobs_is_missing(database: testing::Database) {
    let define = "SELECT uniqueue.set_periodic('p', kind => 'k', schedule => '@daily')";
    sqlx::raw_sql(define).execute(database.pool()).await.unwrap();
    let slots = "SELECT count(r.job) FROM uniqueue.periodic AS p,
        uniqueue.run_periodic('p', p.next_at, p.starts_at, ARRAY[now()], now() + interval '1 day') AS r";
    for (drop, wanted) in [
        ("ALTER TABLE uniqueue.job DROP CONSTRAINT job_pkey CASCADE", 0),
        ("DROP INDEX uniqueue.job_unique_key", 0),
        ("SELECT", 1),
    ] {
        let mut transaction = database.pool().begin().await.unwrap();
        sqlx::raw_sql(drop).execute(&mut *transaction).await.unwrap();
        let inserted: i64 = sqlx::query_scalar(slots).fetch_one(&mut *transaction).await.unwrap();
        assert_eq!(inserted, wanted, "{drop}");
    }
}

#[support::test]
async fn a_doubled_row_stops_no_service(database: testing::Database, client: &Client) {
    let double = "ALTER TABLE uniqueue.maintenance DROP CONSTRAINT maintenance_pkey;
        INSERT INTO uniqueue.maintenance (service, leased_until, sleeps)
        SELECT s, now(), false FROM unnest('{promoter,expirer,rescuer,pruner,releaser,periodic,reindexer}'::text[]) AS s, generate_series(1, 2)";
    sqlx::raw_sql(double).execute(database.pool()).await.unwrap();
    let runner = Runner::new(client.clone()).queue("default", 2).worker(|_: RunningJob<Task>| async {});
    let runner = runner.start().await.unwrap();
    let free = "SELECT count(*) FROM uniqueue.maintenance WHERE leased_until <= now()";
    eventually!(
        sqlx::query_scalar::<_, i64>(free).fetch_one(database.pool()).await.unwrap() == 0,
        "services without a lease"
    );
    let id = client.insert(Task {}).scheduled_in(Duration::from_millis(50)).await.unwrap().id();
    eventually!(client.job(id).await.unwrap().unwrap().state == JobState::Completed, "nothing is promoted");
    runner.stop().await.unwrap();
}

/// The parts of a restore: the tables, their rows, their keys.
const SECTIONS: [&str; 3] = ["pre-data", "data", "post-data"];

/// A dump of the schema in a file.
struct Backup {
    dump: PathBuf,
    restore: PathBuf,
    file: PathBuf,
}

impl Backup {
    /// `None`: the machine lacks the programs.
    async fn find(database: &Database) -> Option<Self> {
        let dump = tools::of_server("pg_dump", database.url()).await?;
        let restore = tools::of_server("pg_restore", database.url()).await?;
        let name = format!("uniqueue-backup-{}.dump", uuid::Uuid::now_v7());
        Some(Self { dump, restore, file: std::env::temp_dir().join(name) })
    }

    async fn take(&self, database: &Database) {
        let mut dump = Command::new(&self.dump);
        dump.args(["--format=custom", "--schema=uniqueue", "--file"]).arg(&self.file).arg(database.url());
        run(dump).await;
    }

    /// Restores it in place of the schema.
    async fn restore(&self, database: &Database) {
        for section in SECTIONS {
            self.restore_section(database, section).await;
        }
    }

    async fn restore_section(&self, database: &Database, section: &str) {
        if section == SECTIONS[0] {
            sqlx::query("DROP SCHEMA uniqueue CASCADE").execute(database.pool()).await.unwrap();
        }
        let mut restore = Command::new(&self.restore);
        restore.args(["--exit-on-error", "--dbname", database.url(), "--section", section]).arg(&self.file);
        run(restore).await;
    }
}

impl Drop for Backup {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

async fn run(mut command: Command) {
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// What is in the views, and what the functions are.
async fn fingerprint(database: &Database) -> Vec<String> {
    let mut all = Vec::new();
    for query in [
        "SELECT concat_ws(' ', queue, status, available, running) FROM uniqueue.queue_status",
        "SELECT concat_ws(' ', unique_key, holder, frees) FROM uniqueue.unique_claim",
        "SELECT concat_ws(' ', id, runner_name, attempt) FROM uniqueue.running_job",
        "SELECT concat_ws(' ', table_name, vacuum_at_dead_rows) FROM uniqueue.table_health WHERE table_name = 'job'",
        // Bodies are parsed anew, and may be written otherwise since: the names and comments must be there.
        "SELECT concat_ws(' ', oid::regprocedure, obj_description(oid)) FROM pg_proc
            WHERE pronamespace = 'uniqueue'::regnamespace ORDER BY 1",
        "SELECT concat_ws(' ', relname, attname, col_description(c.oid, attnum)) FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = attrelid
            WHERE relnamespace = 'uniqueue'::regnamespace AND relkind IN ('r', 'v') AND attnum > 0 ORDER BY 1",
    ] {
        let rows: Vec<String> = sqlx::query_scalar(query).fetch_all(database.pool()).await.unwrap();
        assert!(!rows.is_empty(), "{query}");
        all.extend(rows);
    }
    all
}

/// The columns of each queue's tables that the statements read, and jobs: two that wait, one that runs, one without attempts.
const TABLES: [(&str, &str); 3] = [
    (
        "apalis-postgres",
        r#"CREATE SCHEMA apalis;
        CREATE TABLE apalis.jobs (
            id text PRIMARY KEY, job_type text NOT NULL, job bytea NOT NULL, status text NOT NULL, attempts integer NOT NULL,
            max_attempts integer NOT NULL, run_at timestamptz NOT NULL DEFAULT now(), priority integer NOT NULL DEFAULT 0
        );
        INSERT INTO apalis.jobs (id, job_type, job, status, attempts, max_attempts, run_at, priority) VALUES
            ('a', 'email', '{"to": "ada"}', 'Pending', 0, 5, now(), 7),
            ('b', 'email', '{"to": "bob"}', 'Failed', 3, 5, now() + interval '1 day', 0),
            ('c', 'email', '{}', 'Running', 1, 5, now(), 0),
            ('d', 'email', '{}', 'Failed', 5, 5, now(), 0)"#,
    ),
    (
        "graphile-worker",
        r#"CREATE SCHEMA graphile_worker;
        CREATE TABLE graphile_worker._private_tasks (id integer PRIMARY KEY, identifier text NOT NULL);
        CREATE TABLE graphile_worker._private_job_queues (id integer PRIMARY KEY, queue_name text NOT NULL);
        CREATE TABLE graphile_worker._private_jobs (
            id bigint PRIMARY KEY, job_queue_id integer, task_id integer NOT NULL, payload json NOT NULL,
            priority smallint NOT NULL, run_at timestamptz NOT NULL, attempts smallint NOT NULL, max_attempts smallint NOT NULL,
            key text UNIQUE, locked_at timestamptz
        );
        INSERT INTO graphile_worker._private_tasks VALUES (1, 'email');
        INSERT INTO graphile_worker._private_job_queues VALUES (1, 'ada');
        INSERT INTO graphile_worker._private_jobs VALUES
            (1, 1, 1, '{"to": "ada"}', -7, now(), 0, 5, NULL, NULL),
            (2, NULL, 1, '{"to": "bob"}', 0, now() + interval '1 day', 3, 5, 'bob', NULL),
            (3, NULL, 1, '{}', 0, now(), 1, 5, NULL, now()),
            (4, NULL, 1, '{}', 0, now(), 5, 5, NULL, NULL)"#,
    ),
    (
        "River",
        r#"CREATE TYPE river_job_state AS ENUM (
            'available', 'cancelled', 'completed', 'discarded', 'pending', 'retryable', 'running', 'scheduled'
        );
        CREATE TABLE river_job (
            id bigserial PRIMARY KEY, state river_job_state NOT NULL, attempt smallint NOT NULL, max_attempts smallint NOT NULL,
            scheduled_at timestamptz NOT NULL, priority smallint NOT NULL, args jsonb, kind text NOT NULL,
            queue text NOT NULL DEFAULT 'default', unique_key bytea
        );
        INSERT INTO river_job (state, attempt, max_attempts, scheduled_at, priority, args, kind, unique_key) VALUES
            ('available', 0, 5, now(), 1, '{"to": "ada"}', 'email', NULL),
            ('retryable', 3, 5, now() + interval '1 day', 4, '{"to": "bob"}', 'email', '\x01'),
            ('running', 1, 5, now(), 1, '{}', 'email', NULL),
            ('discarded', 5, 5, now(), 1, '{}', 'email', NULL)"#,
    ),
];

fn statement(queue: &str) -> &'static str {
    match queue {
        "apalis-postgres" => include_str!("../../examples/moving/apalis.sql"),
        "graphile-worker" => include_str!("../../examples/moving/graphile_worker.sql"),
        _ => include_str!("../../examples/moving/river.sql"),
    }
}

#[tokio::test]
async fn jobs_that_wait_are_moved_once_with_what_is_left_of_them() {
    for (queue, tables) in TABLES {
        let database = Database::new().await.unwrap();
        sqlx::raw_sql(tables).execute(database.pool()).await.unwrap();
        for moved in [2, 0] {
            let count: i64 = sqlx::query_scalar(statement(queue)).fetch_one(database.pool()).await.unwrap();
            assert_eq!(count, moved, "{queue}");
        }
        let jobs =
            "SELECT concat_ws(' ', kind, args ->> 'to', state, max_attempts, priority > 0, unique_key IS NOT NULL,
                group_key, group_limit)
            FROM uniqueue.job ORDER BY args ->> 'to' COLLATE \"C\"";
        let found: Vec<String> = sqlx::query_scalar(jobs).fetch_all(database.pool()).await.unwrap();
        let (first, second) = match queue {
            "graphile-worker" => ("email ada available 5 t f ada 1", "email bob scheduled 2 f t"),
            "River" => ("email ada available 5 f f", "email bob scheduled 2 f t"),
            _ => ("email ada available 5 t f", "email bob scheduled 2 f f"),
        };
        assert_eq!(found, [first, second], "{queue}");
        let left = statement(queue).split("SELECT j.id FROM ").nth(1).unwrap().split(' ').next().unwrap();
        let left = AssertSqlSafe(format!("SELECT count(*) FROM {left}"));
        assert_eq!(sqlx::query_scalar::<_, i64>(left).fetch_one(database.pool()).await.unwrap(), 2, "{queue}");
    }
}
