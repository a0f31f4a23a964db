//! A digest that is sent once at every slot of its schedule, however many processes there are.
//!
//!     cargo run --example periodic_digest
//!
//! Two runners, as on two machines, define the same schedule. The slot is part of the job's id and unique
//! key, so each slot inserts one job.
//!
//! `DATABASE_URL` names the database. Without it the example starts a temporary PostgreSQL.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use uniqueue::{BoxError, CatchUp, Client, Happened, Job, PeriodicJob, Runner, RunningJob, embedded};
use uniqueue_admin::Admin;

#[derive(Deserialize, Job, Serialize)]
#[job(kind = "digest.send", queue = "digests")]
struct SendDigest {
    to: String,
}

/// Takes the accounts that no digest has contained yet, and completes the job in the same transaction, so
/// that each account is in exactly one digest.
async fn send_digest(job: RunningJob<SendDigest>) -> Result<(), BoxError> {
    let mut tx = job.client().pool().begin().await?;
    let take = "UPDATE account SET digested = true WHERE NOT digested RETURNING email";
    let mut news: Vec<String> = sqlx::query_scalar(take).fetch_all(&mut *tx).await?;
    news.sort_unstable();
    job.complete_in(&mut tx).await?;
    tx.commit().await?;
    let slot = &job.row().meta["periodic"]["slot"];
    println!("digest for {} at {slot}: {} new, {news:?}", job.args.to, news.len());
    Ok(())
}

fn runner(client: &Client) -> Runner {
    let digest = || SendDigest { to: "team@example.com".into() };
    Runner::new(client.clone())
        .queue("digests", 1)
        .worker(send_digest)
        // Every second, so that the example ends soon. The slots are the full seconds.
        .periodic(PeriodicJob::every("digest", Duration::from_secs(1), digest()))
        // A realistic schedule. Slots that were missed are not made up for.
        .periodic(
            PeriodicJob::cron("morning-digest", "0 9 * * MON-FRI", digest())
                .time_zone("Europe/Berlin")
                .catch_up(CatchUp::Skip),
        )
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    // The library logs with `tracing`, and prints nothing by itself.
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let database = embedded::find_or_start().await?;
    let client = Client::connect(database.url()).await?;
    client.migrate().await?;
    sqlx::raw_sql(
        "CREATE TABLE IF NOT EXISTS account (email text PRIMARY KEY, digested boolean NOT NULL DEFAULT false);
         INSERT INTO account VALUES ('ada@example.com'), ('bob@example.com') ON CONFLICT DO NOTHING",
    )
    .execute(client.pool())
    .await?;

    let mut events = client.events();
    let (one, other) = (runner(&client).start().await?, runner(&client).start().await?);
    let mut sent = 0;
    while sent < 3 {
        match events.recv().await {
            Some(event) if event.happened == Happened::Completed => sent += 1,
            Some(_) => {}
            None => break,
        }
    }
    one.stop().await?;
    other.stop().await?;

    let count =
        "SELECT count(*), count(DISTINCT meta #>> '{periodic,slot}') FROM uniqueue.job WHERE kind = 'digest.send'";
    let (jobs, slots): (i64, i64) = sqlx::query_as(count).fetch_one(client.pool()).await?;
    println!("{jobs} jobs for {slots} slots");
    for periodic in Admin::new(&client).periodic().list().await? {
        println!("{}, {}: on", periodic.name, periodic.schedule);
    }
    Ok(())
}
