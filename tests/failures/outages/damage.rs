//! A damaged file: the values of one job are gone.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use serde_json::json;
use sqlx::{Connection, PgConnection};
use uniqueue::embedded::{Durability, Postgres};
use uniqueue::{Client, NewJob, RunningJob};

use super::{Scratch, execute, until};
use support::{Task, quick};

async fn start(data: &Path) -> Postgres {
    Postgres::builder().data_dir(data).durability(Durability::Fast).start().await.expect("a server")
}

#[tokio::test]
async fn a_job_with_a_missing_toast_chunk_is_discarded_and_holds_up_no_other() {
    let scratch = Scratch::new();
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
    let runner = quick(&client).worker(async |_: RunningJob<Task>| {}).start().await.unwrap();
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
