//! Jobs inserted by plain SQL, and a worker for them in Rust.
//!
//!     cargo run --example sql_producer
//!
//! The producer is `examples/sql_producer/produce.sql`. `psql -f` runs it too. It needs no library, only
//! the schema that `uniqueue migrate` makes.
//!
//! `DATABASE_URL` names the database. Without it the example starts a temporary PostgreSQL.

use serde::{Deserialize, Serialize};
use uniqueue::{BoxError, Client, Happened, Job, Runner, RunningJob, embedded};

#[derive(Deserialize, Job, Serialize)]
#[job(kind = "parcel.weigh")]
struct WeighParcel {
    parcel: i64,
}

#[derive(Deserialize, Job, Serialize)]
#[job(kind = "parcel.ship")]
struct ShipParcel {
    parcel: i64,
}

async fn weigh(job: RunningJob<WeighParcel>) {
    println!("weighing parcel {}", job.args.parcel);
}

async fn ship(job: RunningJob<ShipParcel>) -> Result<(), sqlx::Error> {
    let (address,): (String,) = sqlx::query_as("SELECT address FROM parcel WHERE number = $1")
        .bind(job.args.parcel)
        .fetch_one(job.client().pool())
        .await?;
    println!("shipping parcel {} to {address}", job.args.parcel);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    // The library logs with `tracing`, and prints nothing by itself.
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let database = embedded::find_or_start().await?;
    let client = Client::connect(database.url()).await?;
    client.migrate().await?;

    sqlx::raw_sql(include_str!("produce.sql")).execute(client.pool()).await?;
    let (mut waiting,): (i64,) =
        sqlx::query_as("SELECT count(*) FROM uniqueue.job WHERE state = 'available'").fetch_one(client.pool()).await?;
    println!("{waiting} jobs came from SQL");

    let mut events = client.events();
    let runner = Runner::new(client).queue("parcels", 1).worker(weigh).worker(ship).start().await?;
    while waiting > 0 {
        match events.recv().await {
            Some(event) if event.happened == Happened::Completed => waiting -= 1,
            Some(_) => {}
            None => break,
        }
    }
    runner.stop().await?;
    Ok(())
}
