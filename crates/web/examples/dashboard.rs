//! An axum service that works its own jobs and mounts the dashboard under `/queue`.
//!
//!     cargo run -p uniqueue-web --example dashboard
//!     curl -d to=ada@example.com localhost:3000/welcome
//!
//! `DATABASE_URL` names the database, `PORT` the port. Without a URL the example starts a temporary PostgreSQL.

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::routing::post;
use axum::{Form, Router};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use uniqueue::{BoxError, Client, Job, Outcome, Runner, RunningJob, embedded, shutdown_signal};
use uniqueue_web::{Access, Right, Web};

/// Unique by its address: while one waits or runs, no second one is inserted.
#[derive(Deserialize, Job, Serialize)]
#[job(kind = "email.welcome", queue = "emails")]
struct WelcomeEmail {
    #[job(unique)]
    to: String,
}

async fn send(job: RunningJob<WelcomeEmail>) -> Result<Outcome, BoxError> {
    match job.args.to.contains('@') {
        true => Ok(Outcome::complete()),
        false => Ok(Outcome::discard("not an address")),
    }
}

async fn welcome(State(client): State<Client>, Form(email): Form<WelcomeEmail>) -> Result<String, StatusCode> {
    let inserted = client.insert(email).await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    Ok(format!("{}\n", inserted.id()))
}

/// The application's own authentication. Here a header of a proxy names the user.
fn access(request: &Parts) -> Access {
    match request.headers.get("x-user").and_then(|user| user.to_str().ok()) {
        Some("admin") => Access::all().user("admin"),
        Some(user) => Access::rights([Right::Change, Right::Queues]).user(user),
        None => Access::read(),
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let database = embedded::find_or_start().await?;
    let client = Client::connect(database.url()).await?;
    client.migrate().await?;

    // The task that reads the queue for open pages ends with the signal.
    let dashboard = Web::new(client.clone()).access(access).shutdown(stopped()).router();
    let service = Router::new().route("/welcome", post(welcome)).with_state(client.clone()).nest("/queue", dashboard);

    let port = std::env::var("PORT").map_or(Ok(3000), |port| port.parse())?;
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    println!("the dashboard is at http://{}/queue", listener.local_addr()?);
    let runner = Runner::new(client).queue("emails", 4).worker(send);
    let server = async { axum::serve(listener, service).with_graceful_shutdown(stopped()).await };
    let (worked, served) = tokio::join!(runner.run_until(shutdown_signal()), server);
    worked?;
    served?;
    println!("stopped");
    Ok(())
}

async fn stopped() {
    shutdown_signal().await;
}
