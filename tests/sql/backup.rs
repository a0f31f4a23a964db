//! A dump and its restore into another database, as docs/operate/operations.md says.

use std::process::Command;

use sqlx::AssertSqlSafe;
use uniqueue::testing::Database;
use uniqueue::{Client, Job, JobState, Runner, RunningJob, UniqueKey};

use support::{eventually, job, tools};

#[derive(Debug, serde::Deserialize, serde::Serialize, Job)]
#[job(kind = "task")]
struct Task {}

#[tokio::test]
async fn a_dump_restored_elsewhere_goes_on_where_it_was() {
    let (old, new) = (Database::new().await.unwrap(), Database::new().await.unwrap());
    let Some(dump) = tools::of_server("pg_dump", old.url()).await else { return };
    let Some(restore) = tools::of_server("pg_restore", old.url()).await else { return };
    sqlx::query("DROP SCHEMA uniqueue CASCADE").execute(new.pool()).await.unwrap();
    let held = || job("task").unique_key(UniqueKey::raw("k"));
    let holder = old.client().insert(held()).await.unwrap().id();
    let lost = old.client().insert(Task {}).await.unwrap().id();
    let run = "INSERT INTO uniqueue.runner (id, name, queues, leased_until, knows_groups) VALUES (md5('r')::uuid, 'r', '{default}', now(), true);
        UPDATE uniqueue.job SET state = 'running', worker = md5('r')::uuid, attempt = 1, attempted_at = now() WHERE id = '{lost}';
        SELECT uniqueue.pause_queue('other');
        ALTER TABLE uniqueue.job SET (autovacuum_vacuum_threshold = 4321)";
    sqlx::raw_sql(AssertSqlSafe(run.replace("{lost}", &lost.to_string()))).execute(old.pool()).await.unwrap();
    let before = fingerprint(&old).await;

    let file = std::env::temp_dir().join(format!("uniqueue-backup-{}.dump", std::process::id()));
    let mut dump = Command::new(dump);
    dump.args(["--format=custom", "--schema=uniqueue"]).arg("--file").arg(&file).arg(old.url());
    let mut restore = Command::new(restore);
    restore.args(["--exit-on-error", "--dbname", new.url()]).arg(&file);
    for mut command in [dump, restore] {
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    std::fs::remove_file(&file).unwrap();

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
