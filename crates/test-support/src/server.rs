//! The server of the run.

use std::path::PathBuf;

use tokio::sync::OnceCell;
use uniqueue::embedded::Postgres;

static SERVER: OnceCell<Postgres> = OnceCell::const_new();

async fn server() -> &'static Postgres {
    let server = Postgres::builder().max_connections(400).in_memory();
    SERVER.get_or_init(async || server.start().await.expect("an embedded PostgreSQL")).await
}

/// The URL of the server, which is started by the first test that asks.
pub async fn url() -> &'static str {
    server().await.url()
}

/// The URL of a database of the server.
pub(crate) async fn url_of(name: &str) -> String {
    url().await.replace("/postgres?", &format!("/{name}?"))
}

/// A path for the files of a test: in memory if the data of the server are.
pub async fn path(name: &str) -> PathBuf {
    let home = server().await.data_dir().parent().expect("the server's own directory");
    home.with_file_name(format!("uq-{name}-{}", uuid::Uuid::now_v7().simple()))
}
