//! Workers in other languages: each says who works a job, and ends the job when the test allows it.
use std::process::Command;

use uniqueue::testing::Database;

use support::clients::{self, Program};
use support::eventually;

pub(super) const QUEUE: &str = "shared";
pub(super) const KIND: &str = "share";

/// The languages that are to be had here.
pub(super) fn languages() -> Vec<Language> {
    [Language::Python, Language::Node].into_iter().filter(|language| language.command().is_some()).collect()
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Language {
    Python,
    Node,
}

impl Language {
    /// The interpreter. None: it is not to be had.
    pub(super) fn command(self) -> Option<Command> {
        match self {
            Self::Python => clients::python(),
            Self::Node => clients::node(),
        }
    }

    /// A command that runs a program.
    pub(super) fn program(self, python: &str, node: &str) -> Command {
        let mut command = self.command().expect("it was there before");
        match self {
            Self::Python => command.args(["-c", python]),
            Self::Node => command.args(["--input-type=module", "-e", node]),
        };
        command
    }

    /// Starts a worker in a process of its own.
    pub(super) fn start(self, database: &Database, who: &str, concurrency: usize, reserve: u32) -> Program {
        Program::start(&mut self.worker(database, who, concurrency, reserve))
    }

    /// The command of a worker. Its name is one that no other has, unless `NAME` is set.
    pub(super) fn worker(self, database: &Database, who: &str, concurrency: usize, reserve: u32) -> Command {
        let mut command = self.program(include_str!("worker.py"), include_str!("worker.mjs"));
        command
            .env("DATABASE_URL", database.url())
            .env("QUEUE", QUEUE)
            .env("KIND", KIND)
            .env("WHO", who)
            .env("CONCURRENCY", concurrency.to_string())
            .env("RESERVE", reserve.to_string());
        command
    }
}

/// A database with what the workers use. The jobs may end when `may_end` is true.
pub(super) async fn database(may_end: &str) -> Database {
    let database = Database::new().await.unwrap();
    execute(&database, "CREATE TABLE visit (job uuid NOT NULL, who text NOT NULL)").await;
    execute(&database, "CREATE TABLE gate (is_open boolean)").await;
    execute(&database, &format!("CREATE FUNCTION may_end() RETURNS boolean LANGUAGE sql AS $$ {may_end} $$")).await;
    database
}

/// Jobs may end once a row is in the table `gate`.
pub(super) const GATE: &str = "SELECT EXISTS (SELECT FROM gate)";

pub(super) async fn open_gate(database: &Database) {
    execute(database, "INSERT INTO gate VALUES (true)").await;
}

pub(super) async fn execute(database: &Database, text: &str) {
    sqlx::raw_sql(sqlx::AssertSqlSafe(text.to_owned())).execute(database.pool()).await.expect(text);
}

pub(super) async fn number(database: &Database, text: &str) -> i64 {
    sqlx::query_scalar(sqlx::AssertSqlSafe(text.to_owned())).fetch_one(database.pool()).await.expect(text)
}

/// Waits until a query returns this count.
pub(super) async fn until(database: &Database, query: &str, wanted: i64) {
    eventually!(let counted = number(database, query).await; counted == wanted, "{counted}, not {wanted}: {query}");
}
