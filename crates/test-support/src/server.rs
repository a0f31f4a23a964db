//! The server of the run.

use std::fs;
use std::os::unix::fs::PermissionsExt;
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

/// Makes a directory for a test, in memory if the data of the server are. Any user can read it, as that of a server that root
/// starts must. The test removes it.
pub async fn directory(name: &str) -> PathBuf {
    let home = server().await.data_dir().parent().expect("the server's own directory");
    let directory = home.with_file_name(format!("uq-{name}-{}", uuid::Uuid::now_v7().simple()));
    fs::create_dir(&directory).expect("a directory");
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).expect("permissions");
    directory
}
