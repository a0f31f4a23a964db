//! Effects that happen exactly once, although the process dies during its work.
//!
//!     cargo run --example exactly_once
//!
//! Two jobs pay one invoice each. The first commits the payment, and the runner records the completion
//! afterwards. The second completes its job in the payment's own transaction. A first process works
//! both, and aborts when the first has paid and the second is about to commit. A second process works
//! both jobs again after the lease of the first process and a back-off, a second each.
//!
//! `DATABASE_URL` names the database. Without it the example starts a temporary PostgreSQL.

use std::process::{Command, abort};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sqlx::PgConnection;
use tokio::sync::Barrier;
use uniqueue::{BoxError, Client, Event, Happened, Job, Runner, RunningJob, embedded};

#[derive(Deserialize, Job, Serialize)]
#[job(kind = "invoice.pay")]
struct PayInvoice {
    invoice: String,
}

#[derive(Deserialize, Job, Serialize)]
#[job(kind = "invoice.pay_once")]
struct PayInvoiceOnce {
    invoice: String,
}

/// Where the first process aborts, once both jobs have reached it. The second process has `None`.
type Crash = Option<Arc<Barrier>>;

/// At least once: the process can die between the payment and its record.
async fn pay(job: RunningJob<PayInvoice>) -> Result<(), BoxError> {
    pay_into(&mut *job.client().pool().acquire().await?, &job.args.invoice).await?;
    crash_here(job.state()?).await;
    Ok(())
}

/// Exactly once: payment and record commit together.
async fn pay_once(job: RunningJob<PayInvoiceOnce>) -> Result<(), BoxError> {
    let mut tx = job.client().pool().begin().await?;
    pay_into(&mut tx, &job.args.invoice).await?;
    job.complete_in(&mut tx).await?;
    crash_here(job.state()?).await;
    tx.commit().await?;
    Ok(())
}

async fn pay_into(connection: &mut PgConnection, invoice: &str) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO payment (invoice) VALUES ($1)").bind(invoice).execute(connection).await?;
    Ok(())
}

async fn crash_here(crash: &Crash) {
    if let Some(both) = crash {
        both.wait().await;
        // As with kill -9, no destructor runs, and no job is returned to the queue.
        abort();
    }
}

fn runner(client: Client, crash: Crash) -> Runner {
    // A short lease, so that the example ends soon. The default is 20 s.
    Runner::new(client).queue("default", 2).lease(Duration::from_secs(1)).state(crash).worker(pay).worker(pay_once)
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    // The library logs with `tracing`, and prints nothing by itself.
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    if std::env::args().nth(1).as_deref() == Some("crash") {
        let client = Client::connect(&std::env::var("DATABASE_URL")?).await?;
        runner(client, Some(Arc::new(Barrier::new(2)))).run_until(std::future::pending()).await?;
        return Ok(());
    }
    let database = embedded::find_or_start().await?;
    let client = Client::connect(database.url()).await?;
    client.migrate().await?;
    sqlx::query("CREATE TABLE IF NOT EXISTS payment (invoice text)").execute(client.pool()).await?;
    client.insert(PayInvoice { invoice: "A".into() }).await?;
    client.insert(PayInvoiceOnce { invoice: "B".into() }).await?;

    let mut process = Command::new(std::env::current_exe()?);
    let ended = process.arg("crash").env("DATABASE_URL", database.url()).status()?;
    println!("the first process died: {ended}");

    let mut events = client.events();
    let second = runner(client.clone(), None).start().await?;
    let mut open = 2;
    while let Some(Event { kind, attempt, happened, .. }) = events.recv().await {
        if let Happened::Completed = happened {
            println!("the second process completed {kind}, attempt {attempt}");
            open -= 1;
        }
        if open == 0 {
            break;
        }
    }
    second.stop().await?;

    let payments = "SELECT invoice, count(*) FROM payment GROUP BY invoice ORDER BY invoice";
    for (invoice, times) in sqlx::query_as::<_, (String, i64)>(payments).fetch_all(client.pool()).await? {
        println!("invoice {invoice} was paid {times} times");
    }
    Ok(())
}
