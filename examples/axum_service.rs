//! A web service that inserts a job in the transaction of its request, and works its jobs in the same process.
//!
//!     cargo run --example axum_service
//!     curl --json '{"email": "ada@example.com"}' localhost:3000/accounts
//!
//! `DATABASE_URL` names the database, `PORT` the port. Without a URL it starts a temporary PostgreSQL.

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use uniqueue::{BoxError, Client, Inserted, Job, Runner, RunningJob, embedded, shutdown_signal};

/// The fields are the payload. The key is made from `to`: no address gets a second email within a day.
#[derive(Deserialize, Job, Serialize)]
#[job(kind = "email.welcome", queue = "emails", max_attempts = 5)]
#[job(unique(scope = "completed", period = "1d"))]
struct WelcomeEmail {
    #[job(unique)]
    to: String,
    locale: String,
}

/// The worker. After an error or a panic, the job is tried again later.
async fn send(job: RunningJob<WelcomeEmail>) -> Result<(), BoxError> {
    println!("to {} in {}: welcome", job.args.to, job.args.locale);
    Ok(())
}

#[derive(Deserialize)]
struct SignUp {
    email: String,
}

/// Stores the account and its job together. After an error, neither exists.
async fn store(client: &Client, email: String) -> Result<Inserted, BoxError> {
    let mut tx = client.pool().begin().await?;
    sqlx::query("INSERT INTO account (email) VALUES ($1) ON CONFLICT DO NOTHING")
        .bind(&email)
        .execute(&mut *tx)
        .await?;
    let welcome = client.insert(WelcomeEmail { to: email, locale: "en".into() }).tx(&mut tx).await?;
    tx.commit().await?;
    Ok(welcome)
}

async fn sign_up(State(client): State<Client>, Json(SignUp { email }): Json<SignUp>) -> (StatusCode, Json<Value>) {
    match store(&client, email).await {
        Ok(welcome) if welcome.duplicate => (StatusCode::OK, Json(json!({"job": welcome.id(), "duplicate": true}))),
        Ok(welcome) => (StatusCode::CREATED, Json(json!({"job": welcome.id(), "duplicate": false}))),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, Json(json!({"error": error.to_string()}))),
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    // The library logs with `tracing`, and prints nothing by itself.
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let database = embedded::find_or_start().await?;
    let client = Client::connect(database.url()).await?;
    client.migrate().await?; // creates the schema `uniqueue`; many processes can do so at once
    sqlx::query("CREATE TABLE IF NOT EXISTS account (email text PRIMARY KEY)").execute(client.pool()).await?;

    // Works at most 20 jobs of the queue at once.
    let runner = Runner::new(client.clone()).queue("emails", 20).worker(send);

    let port = std::env::var("PORT").map_or(Ok(3000), |port| port.parse())?;
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let service = Router::new().route("/accounts", post(sign_up)).with_state(client);
    let server = async {
        tokio::select! {
            served = axum::serve(listener, service).with_graceful_shutdown(shutdown_signal()).into_future() => served,
            // A second signal waits for no request.
            () = async { shutdown_signal().await; shutdown_signal().await } => Ok(()),
        }
    };
    // At a signal the runner finishes the jobs that run, and the server its requests.
    let (worked, served) = tokio::join!(runner.run_until(shutdown_signal()), server);
    worked?;
    served?;
    println!("stopped");
    Ok(())
}
