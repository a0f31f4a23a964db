//! Each client's own tests, the check of its types, and the first program of its page.

use std::io::{BufRead, BufReader};

use tokio::task::spawn_blocking;
use uniqueue::testing::Database;

use support::clients::{self, Program, text_of};
use support::prelude::*;

/// Runs a command to its end, and returns what it wrote.
async fn run(mut command: Command) -> String {
    let output = spawn_blocking(move || command.output().expect("it runs")).await.unwrap();
    assert!(output.status.success(), "{}", text_of(&output));
    text_of(&output)
}

/// The first program of a client's page.
fn first_program(client: &str) -> String {
    let page = std::fs::read_to_string(clients::source(client).join("README.md")).unwrap();
    let block = page.split("```").nth(1).expect("a program");
    block.split_once('\n').expect("its language").1.to_owned()
}

/// Runs a program that works jobs until it has written that, and stops it by SIGTERM.
async fn works(mut command: Command, wanted: &'static str) {
    let ended = spawn_blocking(move || {
        let mut program = Program::start(command.stdout(Stdio::piped()));
        let mut lines = BufReader::new(program.0.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert_eq!(lines.next().as_deref(), Some("inserted"));
        assert_eq!(lines.next().as_deref(), Some(wanted));
        program.signal("TERM");
        program.0.wait().unwrap()
    });
    assert!(ended.await.unwrap().success());
}

#[tokio::test]
async fn python_client_passes_its_tests() {
    let Some(mut python) = clients::python() else { return };
    let database = Database::new().await.unwrap();
    python.current_dir(clients::source("python")).env("DATABASE_URL", database.url()).args(["-m", "unittest"]);
    let written = run(python).await;
    assert!(written.contains("\nOK") && !written.contains("Ran 0 tests"), "{written}");
}

#[tokio::test]
async fn python_client_is_typed() {
    let Some(mut python) = clients::python() else { return };
    python.current_dir(clients::source("python")).args(["-m", "mypy", "--cache-dir"]);
    python.arg(clients::installed("python").join(".mypy_cache"));
    run(python).await;
}

#[tokio::test]
async fn typescript_client_passes_its_tests() {
    let Some(mut node) = clients::node() else { return };
    let database = Database::new().await.unwrap();
    node.env("DATABASE_URL", database.url()).args(["--test", "dist/test/"]);
    let written = run(node).await;
    assert!(written.contains("# fail 0") && !written.contains("# pass 0\n"), "{written}");
}

#[tokio::test]
async fn first_program_of_the_python_page_runs() {
    let Some(mut python) = clients::python() else { return };
    let database = Database::new().await.unwrap();
    python.env("DATABASE_URL", database.url()).args(["-u", "-c", &first_program("python")]);
    works(python, "sends the invoice of order 7").await;
}

#[tokio::test]
async fn first_program_of_the_typescript_page_runs() {
    let Some(mut node) = clients::node() else { return };
    let database = Database::new().await.unwrap();
    node.env("DATABASE_URL", database.url()).args(["--input-type=module", "-e", &first_program("typescript")]);
    works(node, "sends the invoice of order 7").await;
}

#[tokio::test]
async fn whole_workers_work() {
    let python = include_str!("../../../examples/other_languages/worker.py");
    let node = include_str!("../../../examples/other_languages/worker.mjs");
    for language in languages() {
        let database = Database::new().await.unwrap();
        let insert = |to: &str| NewJob::new("mail.send", &json!({"to": to})).queue("mail");
        let client = database.client();
        let jobs = client.insert_many([insert("ada"), insert("")]).await.unwrap();
        let _worker = Program::start(language.program(python, node).env("DATABASE_URL", database.url()));
        let sent = client.wait(jobs[0].id()).timeout(2 * WAIT).await.unwrap();
        assert_eq!(sent.output::<Value>().unwrap(), Some(json!({"sent": "ada"})));
        assert_eq!(sent.job().unwrap().attempt, 2);
        let to_nobody = client.wait(jobs[1].id()).timeout(2 * WAIT).await.unwrap();
        assert_eq!(to_nobody.job().unwrap().state, JobState::Discarded);
        assert_eq!(number(&database, "SELECT count(*) FROM uniqueue.kind WHERE name = 'mail.send'").await, 1);
    }
}

#[test]
fn versions_of_the_clients_are_that_of_the_library() {
    for (client, file, name) in
        [("python", "pyproject.toml", "version = "), ("typescript", "package.json", "\"version\": ")]
    {
        let text = std::fs::read_to_string(clients::source(client).join(file)).unwrap();
        assert!(text.contains(&format!("{name}{:?}", env!("CARGO_PKG_VERSION"))), "{client}");
    }
}

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
