//! A full disk under the job table: inserts fail with an error that says so, and nothing is lost.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use sqlx::{Connection, PgConnection};
use uniqueue::embedded::Postgres;
use uniqueue::{Client, Error, RunningJob};

use super::{LONG, Scratch, execute, is_root, number, until, user_of};
use support::{Task, eventually, quick};

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
    let scratch = Scratch::new();
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
    let runner = quick(&client).worker(async |_: RunningJob<Task>| {}).start().await.unwrap();
    eventually!(refused().await >= refused_before + 3, "the runner finds room");
    assert_eq!(number(url, "SELECT count(*) FROM uniqueue.job WHERE state = 'discarded'").await, 0);
    execute(url, "DROP TABLE filler").await;
    until(url, "SELECT count(*) FROM uniqueue.job WHERE state = 'completed'", kept.into()).await;
    assert_eq!(number(url, "SELECT count(*) FROM uniqueue.job").await, i64::from(kept), "none is lost");
    client.insert(Task { n: kept }).await.unwrap();
    runner.stop().await.unwrap();
    server.stop().await.unwrap();
}
