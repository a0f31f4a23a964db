//! A full disk under the job table: inserts fail with an error that says so, and nothing is lost.
//! A damaged file: the values of one job are gone.

use std::fs::OpenOptions;
use std::io::Write;

use super::{LONG, is_root, scratch, user_of};
use support::by_url::{execute, number, until};
use support::prelude::*;

/// A file system of 16 MB in memory.
struct Disk(PathBuf);

impl Disk {
    /// `None`: this process may not mount one.
    fn mount(path: &Path, (uid, gid): (u32, u32)) -> Option<Self> {
        fs::create_dir(path).unwrap();
        let options = format!("size=16m,mode=700,uid={uid},gid={gid}");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(path).output();
        mounted.is_ok_and(|mounted| mounted.status.success()).then(|| Self(path.to_owned()))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn is_full(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|error| error.code().as_deref() == Some("53100"))
}

/// Fills what is left of the disk.
async fn fill(url: &str) {
    let mut connection = PgConnection::connect(url).await.unwrap();
    sqlx::query("CREATE TABLE filler (t text) WITH (autovacuum_enabled = off) TABLESPACE small")
        .execute(&mut connection)
        .await
        .unwrap();
    for rows in [100_000, 1_000, 1] {
        let more = format!("INSERT INTO filler SELECT repeat('x', 1000) FROM generate_series(1, {rows})");
        let began = Instant::now();
        loop {
            match sqlx::query(sqlx::AssertSqlSafe(more.clone())).execute(&mut connection).await {
                Ok(_) => assert!(began.elapsed() < LONG, "the disk is never full"),
                Err(error) => {
                    assert!(is_full(&error), "{error}");
                    break;
                }
            }
        }
    }
    connection.close().await.unwrap();
}

#[tokio::test]
async fn a_full_tablespace_loses_no_job_and_work_goes_on_once_there_is_room() {
    if !is_root() {
        eprintln!("SKIPPED: only root can mount a small file system");
        return;
    }
    let scratch = scratch("full");
    let server = Postgres::start().await.unwrap();
    let Some(_disk) = Disk::mount(&scratch.0.join("small"), user_of(&server)) else {
        eprintln!("SKIPPED: no small file system can be mounted here");
        return;
    };
    let url = server.url();
    let client = Client::connect(url).await.unwrap();
    client.migrate().await.unwrap();
    execute(url, &format!("CREATE TABLESPACE small LOCATION '{}/small'", scratch.0.display())).await;
    execute(url, "ALTER TABLE uniqueue.job SET TABLESPACE small").await;
    client.insert_many((0..200).map(|n| Task { n })).await.unwrap();
    fill(url).await;

    // The last page of the table has room for some more jobs.
    let mut kept = 200;
    let error = loop {
        match client.insert(Task { n: kept }).await {
            Ok(_) => kept += 1,
            Err(error) => break error,
        }
        assert!(kept < 10_000, "the disk is not full");
    };
    let Error::Database(database) = &error else { panic!("{error:?}") };
    assert!(is_full(database) && error.to_string().contains("could not extend file"), "{error}");
    assert!(client.insert_many((0..1000).map(|n| Task { n })).await.is_err(), "all or nothing");

    let refused = async || number(url, "SELECT xact_rollback FROM pg_stat_database WHERE datname = 'postgres'").await;
    let refused_before = refused().await;
    let runner = quick(&client).worker(at_once).start().await.unwrap();
    eventually!(refused().await >= refused_before + 3, "the runner finds room");
    assert_eq!(number(url, "SELECT count(*) FROM uniqueue.job WHERE state = 'discarded'").await, 0);
    execute(url, "DROP TABLE filler").await;
    until(url, "SELECT count(*) FROM uniqueue.job WHERE state = 'completed'", kept.into()).await;
    assert_eq!(number(url, "SELECT count(*) FROM uniqueue.job").await, i64::from(kept), "none is lost");
    client.insert(Task { n: kept }).await.unwrap();
    runner.stop().await.unwrap();
    server.stop().await.unwrap();
}

async fn start(data: &Path) -> Postgres {
    Postgres::builder().data_dir(data).durability(Durability::Fast).start().await.expect("a server")
}

#[tokio::test]
async fn a_job_with_a_missing_toast_chunk_is_discarded_and_holds_up_no_other() {
    let scratch = scratch("damaged");
    let data = scratch.0.join("data");
    let server = start(&data).await;
    let client = Client::connect(server.url()).await.unwrap();
    client.migrate().await.unwrap();
    // Out of line, and not compressed: more than one page of 8 kB for each job.
    execute(server.url(), "ALTER TABLE uniqueue.job ALTER COLUMN args SET STORAGE EXTERNAL").await;
    let jobs = (0..6).map(|n| NewJob::new("task", &json!({ "n": n, "pad": "x".repeat(9_000) })));
    let inserted = client.insert_many(jobs).await.unwrap();
    let mut connection = PgConnection::connect(server.url()).await.unwrap();
    let file = "SELECT pg_relation_filepath(reltoastrelid) FROM pg_class WHERE oid = 'uniqueue.job'::regclass";
    let file: String = sqlx::query_scalar(file).fetch_one(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    client.pool().close().await;
    server.stop().await.unwrap();

    // The first page, which a disk lost: it has the first four chunks of the first job.
    OpenOptions::new().write(true).open(data.join(file)).unwrap().write_all(&[0; 8_192]).unwrap();

    let server = start(&data).await;
    let url = server.url();
    let client = Client::connect(url).await.unwrap();
    // A remote worker gets the others.
    let fetch = "SELECT count(*) FROM uniqueue.fetch_jobs(ARRAY['default'], 'remote', 10) AS f
        CROSS JOIN LATERAL uniqueue.give_back_jobs(ARRAY[f.id], ARRAY[f.run])";
    until(url, fetch, 5).await;
    let runner = quick(&client).worker(at_once).start().await.unwrap();
    until(url, "SELECT count(*) FROM uniqueue.job WHERE state = 'completed' AND attempt = 1", 5).await;
    let discarded = format!(
        "SELECT count(*) FROM uniqueue.job WHERE state = 'discarded' AND id = '{}'
            AND errors #>> '{{-1,error}}' LIKE '%cannot be read: %chunk number%'",
        inserted[0].id()
    );
    until(url, &discarded, 1).await;
    runner.stop().await.unwrap();
    server.stop().await.unwrap();
}
