//! A web service that inserts a job in the transaction of its request: the account and its welcome email
//! are stored together, or neither is. A second sign-up returns the email job that already waits.
//!
//!     cargo run --example axum_service
//!     curl --json '{"email": "ada@example.com"}' localhost:3000/accounts
//!
//! `DATABASE_URL` names the database, `PORT` the port. Without a URL the example starts a temporary PostgreSQL.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use uniqueue::{BoxError, Client, Job, JobId, JobState, embedded, shutdown_signal};

/// Unique by its address: while one waits or runs, no second one is inserted.
#[derive(Deserialize, Job, Serialize)]
#[job(kind = "email.welcome", queue = "emails")]
struct WelcomeEmail {
    #[job(unique)]
    to: String,
}

#[derive(Deserialize)]
struct SignUp {
    email: String,
}

#[derive(Serialize)]
struct SignedUp {
    job: JobId,
    state: JobState,
    duplicate: bool,
}

async fn sign_up(State(client): State<Client>, Json(SignUp { email }): Json<SignUp>) -> Result<Response, Failure> {
    let mut tx = client.pool().begin().await?;
    sqlx::query("INSERT INTO account (email) VALUES ($1) ON CONFLICT DO NOTHING")
        .bind(&email)
        .execute(&mut *tx)
        .await?;
    let welcome = client.insert(WelcomeEmail { to: email }).tx(&mut tx).await?;
    // The job becomes visible here. If the commit fails, the job does not exist.
    tx.commit().await?;

    let status = if welcome.duplicate { StatusCode::OK } else { StatusCode::CREATED };
    let answer = SignedUp { job: welcome.id(), state: welcome.job.state, duplicate: welcome.duplicate };
    Ok((status, Json(answer)).into_response())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let database = embedded::find_or_start().await?;
    let client = Client::connect(database.url()).await?;
    client.migrate().await?;
    sqlx::query("CREATE TABLE IF NOT EXISTS account (email text PRIMARY KEY)").execute(client.pool()).await?;

    let port = std::env::var("PORT").map_or(Ok(3000), |port| port.parse())?;
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let service = Router::new().route("/accounts", post(sign_up)).with_state(client);
    axum::serve(listener, service).with_graceful_shutdown(shutdown_signal()).await?;
    println!("stopped");
    Ok(())
}

/// Any error becomes a 500. An open transaction is rolled back when it is dropped.
struct Failure(BoxError);

impl<E: Into<BoxError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        eprintln!("request failed: {}", self.0);
        StatusCode::INTERNAL_SERVER_ERROR.into_response()
    }
}
