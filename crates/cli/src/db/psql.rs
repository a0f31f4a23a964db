//! `uniqueue db psql`.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use uniqueue::SchemaName;

use super::server::{Running, data_dir};
use crate::database::schema_name;
use crate::percent;
use crate::prelude::*;

/// Open psql on the queue's database.
///
/// It connects to the database of --database-url or DATABASE_URL, else to the server that `uniqueue db start` runs. The
/// queue's schema comes first in the search path, so `SELECT * FROM job` works.
///
/// ***
///
/// It runs psql from PG_BINDIR, else from the PATH. It passes the URL's password in the environment, where other users cannot
/// see it. psql prints JSON itself: SELECT json_agg(j) FROM job AS j.
///
/// Examples:
///   uniqueue db psql
///   uniqueue db psql -- -c 'SELECT state, count(*) FROM job GROUP BY state'
///   uniqueue db psql --database-url postgres://localhost/app --schema jobs
///
/// Exit codes:
///   0    psql: done
///   1    psql: an error of its own
///   2    a wrong command line, no psql, or no server; psql: a lost connection
///   3    psql: an error in a script
///   130  psql: ended by Ctrl-C
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct PsqlArguments {
    /// The database, such as postgres://user@host:5432/database. Other users of this machine can read arguments: give a
    /// password in DATABASE_URL or in ~/.pgpass
    #[arg(long, value_name = "URL", env = "DATABASE_URL", hide_env_values = true)]
    database_url: Option<String>,

    /// The data directory of a `uniqueue db start` server to use instead of DATABASE_URL
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    /// The schema that holds the queue
    #[arg(long, value_name = "NAME", env = "UNIQUEUE_SCHEMA", default_value_t, value_parser = schema_name)]
    schema: SchemaName,

    /// More arguments for psql, after --
    #[arg(last = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

/// Replaces this process with psql.
pub(super) async fn psql(arguments: PsqlArguments) -> Result<Verdict, Failure> {
    let given = arguments.database_url.filter(|url| !url.trim().is_empty() && arguments.data_dir.is_none());
    let url = match given {
        Some(url) => url,
        None => server(arguments.data_dir).await?,
    };
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        let problem = "it must start with postgres:// or postgresql://".to_owned();
        return Err(uniqueue::Error::InvalidUrl { problem }.into());
    }
    let Some((url, password)) = take_password(&url) else {
        let problem = "an @ follows the host: percent-encode / ? # @ in the user and the password".to_owned();
        return Err(uniqueue::Error::InvalidUrl { problem }.into());
    };
    let program = program();
    let mut command = Command::new(&program);
    command.arg(url).args(&arguments.arguments).env("PGOPTIONS", options(&arguments.schema));
    command.env("PGAPPNAME", "uniqueue db psql");
    if let Some(password) = password {
        command.env("PGPASSWORD", password);
    }
    let error = command.exec();
    let problem = format!("cannot run {}", Path::new(&program).display());
    let hint = match error.kind() {
        io::ErrorKind::NotFound => {
            "install psql (Debian, Ubuntu: apt-get install postgresql-client; macOS: brew install libpq), or set PG_BINDIR to \
             the directory that holds it"
        }
        _ => "check that you are allowed to run it",
    };
    Err(Failure::environment(problem, hint, error))
}

/// The URL of the server that runs in a data directory.
async fn server(given: Option<PathBuf>) -> Result<String, Failure> {
    let data_dir = data_dir(given)?;
    let Some(running) = Running::read(&data_dir)? else {
        return Err(Failure::refused(
            format!("no server runs in {}", data_dir.display()),
            "start it with `uniqueue db start`, or give --database-url or DATABASE_URL",
        ));
    };
    running.check().await?;
    Ok(running.url)
}

fn program() -> OsString {
    let from = std::env::var_os("PG_BINDIR").map(|directory| Path::new(&directory).join("psql"));
    from.filter(|program| program.is_file()).map_or_else(|| OsString::from("psql"), PathBuf::into_os_string)
}

/// The options that libpq sends at the start. The user's own come first.
fn options(schema: &SchemaName) -> OsString {
    let mut options = std::env::var_os("PGOPTIONS").unwrap_or_default();
    options.push(format!(" -c search_path={},public", schema.quoted()));
    options
}

/// Splits the password off a URL, because every user of a machine can see the arguments of a process. `None`: a `/`, `?` or
/// `#` of the password may end the host, so a part of it would stay.
fn take_password(url: &str) -> Option<(String, Option<OsString>)> {
    let whole = || Some((url.to_owned(), None));
    let Some((scheme, rest)) = url.split_once("://") else { return whole() };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let (before, query) = path.split_once('?').unwrap_or((path, ""));
    if before.contains('@') || query.split('&').any(may_end_the_password) {
        return None;
    }
    let Some((user, host)) = authority.rsplit_once('@') else { return whole() };
    let Some((user, password)) = user.split_once(':') else { return whole() };
    Some((format!("{scheme}://{user}@{host}{path}"), Some(percent::decode(password))))
}

/// Whether a pair of the query may hold the `@` that ends the password, as `Client::connect_options` decides it.
fn may_end_the_password(pair: &str) -> bool {
    let (name, _) = pair.split_once('=').unwrap_or((pair, ""));
    // In these values an @ is usual.
    pair.contains('@') && !matches!(name, "application_name" | "dbname" | "options" | "password" | "user")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn password_leaves_the_url() {
        let taken = |url: &str| {
            let (url, password) = take_password(url).expect("a password that is encoded");
            (url, password.and_then(|password| password.into_string().ok()))
        };
        let with = |url: &str, password: &str| (url.to_owned(), Some(password.to_owned()));
        let usual = "postgres://u@h:1/d?application_name=a:b@c";
        assert_eq!(taken("postgres://u:p%40ss@h:1/d?application_name=a:b@c"), with(usual, "p@ss"));
        assert_eq!(taken("postgres://u:a@b@h/d"), with("postgres://u@h/d", "a@b"));
        assert_eq!(taken("postgres://u:50%@h"), with("postgres://u@h", "50%"));
        assert_eq!(taken("postgres://u@h/d"), ("postgres://u@h/d".to_owned(), None));
        for split in
            ["postgres://u:p@S3/x@h/d", "postgres://u:12?x@h/d", "postgres://u:12?a=x@h/d", "postgres://u:12#x@h/d"]
        {
            assert_eq!(take_password(split), None, "{split}");
        }
        assert_eq!(taken("postgres:///d?host=%2Ftmp"), ("postgres:///d?host=%2Ftmp".to_owned(), None));
    }
}
