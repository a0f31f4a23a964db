//! A migrated database for targets that need one: a server of their own, which ends with them.

use std::sync::LazyLock;

use tokio::runtime::Runtime;
use uniqueue::Client;
use uniqueue::embedded::Postgres;

pub struct Database {
    pub client: Client,
    pub runtime: Runtime,
    _server: Postgres,
}

pub static DATABASE: LazyLock<Database> = LazyLock::new(|| {
    let runtime = Runtime::new().expect("a runtime");
    let (server, client) = runtime.block_on(async {
        let server = Postgres::builder().start().await.expect("an embedded PostgreSQL");
        let client = Client::connect(server.url()).await.expect("a client");
        client.migrate().await.expect("a migration");
        (server, client)
    });
    Database { client, runtime, _server: server }
});
