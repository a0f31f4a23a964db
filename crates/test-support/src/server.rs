//! The server of the run.

use tokio::sync::OnceCell;
use uniqueue::embedded::Postgres;

static SERVER: OnceCell<Postgres> = OnceCell::const_new();

/// The URL of the server, which is started by the first test that asks.
pub async fn url() -> &'static str {
    let server = Postgres::builder().max_connections(400).in_memory();
    SERVER.get_or_init(async || server.start().await.expect("an embedded PostgreSQL")).await.url()
}

/// The URL of a database of the server.
pub(crate) async fn url_of(name: &str) -> String {
    url().await.replace("/postgres?", &format!("/{name}?"))
}
