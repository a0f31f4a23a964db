//! Programs that some tests need and that a machine may lack.

use std::io::Write;
use std::path::PathBuf;

use sqlx::{Connection, PgConnection};

/// Says that a test tests nothing, or not all, for want of a tool. libtest hides what `eprintln!` writes in a test that
/// passes, so this goes to standard error itself.
///
/// # Panics
///
/// Where `UNIQUEUE_TOOLS` names the tool, or is `all`: then the machine must have it.
pub fn lacks(tool: &str, remedy: &str) {
    let must = std::env::var("UNIQUEUE_TOOLS").unwrap_or_default();
    let must_have = must.split([' ', ',']).any(|named| named == tool || named == "all");
    assert!(!must_have, "no {tool}, though UNIQUEUE_TOOLS names it: {remedy}");
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let _ = writeln!(std::io::stderr(), "WARNING: no {tool} ({remedy}): {test} did not test all");
}

/// A program of PostgreSQL's own, such as `pg_dump`, of the version of the server at this URL or a newer one. `PG_BINDIR` is looked
/// in first. `None`: there is none, and [`lacks`] has said so.
pub async fn of_server(name: &str, url: &str) -> Option<PathBuf> {
    let mut connection = PgConnection::connect(url).await.unwrap();
    let version = "SELECT current_setting('server_version_num')::integer / 10000";
    let server: i32 = sqlx::query_scalar(version).fetch_one(&mut connection).await.unwrap();
    let near = (server..=18).map(|major| PathBuf::from(format!("/usr/lib/postgresql/{major}/bin")));
    let named = std::env::var_os("PG_BINDIR").map(PathBuf::from);
    let found = named.into_iter().chain(near).map(|directory| directory.join(name)).find(|path| path.exists());
    if found.is_none() {
        lacks(name, &format!("that of PostgreSQL {server}"));
    }
    found
}
