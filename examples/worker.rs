//! A worker binary with shared state, failing jobs and an orderly stop.
//!
//!     cargo run --example worker          (Ctrl-C or SIGTERM stops it)
//!
//! On the signal it fetches no more jobs, finishes those that run, and ends. A job that still runs after
//! the stop timeout is told to stop and is returned to the queue, without using up an attempt.
//!
//! `DATABASE_URL` names the database. Without it the example starts a temporary PostgreSQL.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use uniqueue::{BoxError, Client, Job, Outcome, RetryPolicy, Runner, RunningJob, embedded, shutdown_signal};

#[derive(Deserialize, Job, Serialize)]
#[job(kind = "email.send", queue = "emails", max_attempts = 5)]
struct SendEmail {
    #[job(unique)]
    to: String,
}

/// State that all jobs share, such as a mailer, a pool, an HTTP client or a configuration.
#[derive(Default)]
struct Mailer {
    sent: AtomicU32,
}

impl Mailer {
    async fn send(&self, to: &str) -> Result<u32, BoxError> {
        if to.starts_with("flaky@") && self.sent.load(Ordering::Relaxed) == 0 {
            return Err("the mail server is out for lunch".into());
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        Ok(self.sent.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// An `Err` is retried later. The outcome decides everything else.
async fn send_email(job: RunningJob<SendEmail>) -> Result<Outcome, BoxError> {
    let to = &job.args.to;
    if !to.contains('@') {
        // A retry would fail too.
        println!("gave up on {to:?}");
        return Ok(Outcome::discard(format!("not an address: {to:?}")));
    }
    println!("sending to {to}, attempt {}", job.attempt());
    let number = job.state::<Mailer>()?.send(to).await?;
    println!("sent to {to}");
    Ok(Outcome::complete_with(number)?)
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    // The library logs with `tracing`, and prints nothing by itself.
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let database = embedded::find_or_start().await?;
    let client = Client::connect(database.url()).await?;
    client.migrate().await?;

    // Some jobs. In an application its services insert them.
    let addresses = ["flaky@example.com", "ada@example.com", "nobody", "ada@example.com"];
    for inserted in client.insert_many(addresses.map(|to| SendEmail { to: to.into() })).await? {
        println!("job {} {}", inserted.id(), if inserted.duplicate { "was there already" } else { "inserted" });
    }

    let runner = Runner::new(client)
        .queue("emails", 2)
        .state(Mailer::default())
        .worker(send_email)
        .retry_policy(RetryPolicy::exponential().first(Duration::from_millis(200)))
        .stop_timeout(Duration::from_secs(10));
    println!("working");
    runner.run_until(shutdown_signal()).await?;
    println!("stopped: nothing is lost");
    Ok(())
}
