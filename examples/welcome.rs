//! A job that is inserted once, however often its event comes: `cargo run --example welcome`, Ctrl-C ends it.

use serde::{Deserialize, Serialize};
use uniqueue::{BoxError, Client, Job, Runner, RunningJob, embedded, shutdown_signal};

/// The fields are the payload. The key is made from `to`: no address gets a second email within a day.
#[derive(Deserialize, Job, Serialize)]
#[job(kind = "email.welcome", queue = "emails", unique(scope = "completed", period = "1d"))]
struct WelcomeEmail {
    #[job(unique)]
    to: String,
    locale: String,
}

async fn sign_up(client: &Client, email: &str) -> Result<(), BoxError> {
    let mut tx = client.pool().begin().await?; // your own statements go into the same transaction
    let welcome = client.insert(WelcomeEmail { to: email.into(), locale: "en".into() }).tx(&mut tx).await?;
    tx.commit().await?;
    match welcome.duplicate_of() {
        None => println!("inserted: job {}", welcome.id()),
        Some(holder) => println!("duplicate: {holder}"),
    }
    Ok(())
}

/// The worker. After an error or a panic, the job is tried again later.
async fn send(job: RunningJob<WelcomeEmail>) -> Result<(), BoxError> {
    println!("to {} in {}: welcome", job.args.to, job.args.locale);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let database = embedded::find_or_start().await?; // `DATABASE_URL`, else a temporary PostgreSQL
    let client = Client::connect(database.url()).await?;
    client.migrate().await?; // creates the schema `uniqueue`; many processes can do so at once
    for email in ["ada@example.com", "bob@example.com", "ada@example.com"] {
        sign_up(&client, email).await?;
    }
    // Works at most 20 jobs of the queue at once. At a signal it finishes the jobs that run.
    Runner::new(client).queue("emails", 20).worker(send).run_until(shutdown_signal()).await?;
    Ok(())
}
