//! Running the command.

use std::fs::Permissions;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::{Child, ChildStdout, ExitStatus, Output};

use tempfile::TempDir;
pub(crate) use test_support::by_url::{database, execute, migrated, texts};
use test_support::prelude::*;
use test_support::process::{Killed, signal};
use test_support::tools::lacks;

/// A directory that every user can enter.
pub(crate) fn directory() -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).expect("its mode");
    directory
}

/// Whether these tests run as root, whom no permission stops.
pub(crate) fn is_root(directory: &TempDir) -> bool {
    fs::metadata(directory.path()).expect("its owner").uid() == 0
}

pub(crate) fn uniqueue() -> Command {
    command(Path::new(env!("CARGO_BIN_EXE_uniqueue")))
}

pub(crate) fn command(binary: &Path) -> Command {
    let mut command = Command::new(binary);
    command
        .env_remove("DATABASE_URL")
        .env_remove("UNIQUEUE_SCHEMA")
        .env_remove("UNIQUEUE_PLACES")
        .env_remove("RUST_LOG")
        .stdin(Stdio::null());
    command
}

/// Whether there is a psql: PostgreSQL's server can be here without it.
pub(crate) fn has_psql() -> bool {
    let is_there = Command::new("psql").arg("--version").output().is_ok();
    if !is_there {
        lacks("psql", "PostgreSQL's client");
    }
    is_there
}

/// Runs a script with psql.
pub(crate) fn run_script(url: &str, script: &str) {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), script).unwrap();
    printed(Command::new("psql").args(["-Xq", "-v", "ON_ERROR_STOP=1", "-f"]).arg(file.path()).arg(url), 0);
}

/// Whether there is util-linux, to make a terminal.
pub(crate) fn has_terminal() -> bool {
    let version = Command::new("script").arg("--version").output();
    let is_there = version.is_ok_and(|version| String::from_utf8_lossy(&version.stdout).contains("util-linux"));
    if !is_there {
        lacks("script", "util-linux, to make a terminal");
    }
    is_there
}

pub(crate) fn run(arguments: &[&str]) -> Output {
    uniqueue().args(arguments).output().expect("the command")
}

/// Runs it and reads the one object that it prints.
pub(crate) fn run_json(command: &mut Command) -> (i32, Value) {
    let output = command.output().expect("the command");
    let stderr = String::from_utf8_lossy(&output.stderr);
    let value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    assert_eq!(stderr, "", "nothing beside the object");
    (output.status.code().expect("no signal"), value)
}

/// The words of a command line: a text that is split at spaces, a list of words, or a pair of these.
pub(crate) trait Words {
    fn add_to(&self, command: &mut Command);
}

impl Words for str {
    fn add_to(&self, command: &mut Command) {
        command.args(self.split_whitespace());
    }
}

impl Words for String {
    fn add_to(&self, command: &mut Command) {
        self.as_str().add_to(command);
    }
}

impl Words for [&str] {
    fn add_to(&self, command: &mut Command) {
        command.args(self);
    }
}

impl<const N: usize> Words for [&str; N] {
    fn add_to(&self, command: &mut Command) {
        command.args(self);
    }
}

impl<W: Words + ?Sized> Words for &W {
    fn add_to(&self, command: &mut Command) {
        (*self).add_to(command);
    }
}

impl<First: Words, Rest: Words> Words for (First, Rest) {
    fn add_to(&self, command: &mut Command) {
        self.0.add_to(command);
        self.1.add_to(command);
    }
}

/// A migrated database, and the command on it as ben gives it.
pub(crate) struct Migrated {
    pub(crate) url: String,
    schema: &'static str,
}

impl Migrated {
    pub(crate) async fn new() -> Self {
        Self::schema("uniqueue").await
    }

    /// With a schema that is given as an option.
    pub(crate) async fn schema(schema: &'static str) -> Self {
        Self { url: migrated(schema).await, schema }
    }

    /// A database in which nothing is migrated.
    pub(crate) async fn unmigrated(schema: &'static str) -> Self {
        Self { url: database().await, schema }
    }

    /// The database of a URL, with the default schema.
    pub(crate) fn at(url: &str) -> Self {
        Self { url: url.to_owned(), schema: "uniqueue" }
    }

    /// A new role without grants, and the command as this role. Roles belong to the whole server.
    pub(crate) async fn role(&self, name: &str) -> (String, Self) {
        let database = self.url.rsplit_once("/test_").and_then(|(_, rest)| rest.split_once('?')).unwrap().0;
        let role = format!("{name}_{database}");
        self.execute(&format!("CREATE ROLE {role} LOGIN")).await;
        let url = self.url.replace("postgres@", &format!("{role}@"));
        (role, Self { url, schema: self.schema })
    }

    /// A client of the schema.
    pub(crate) async fn client(&self) -> Client {
        Client::builder().schema(self.schema.parse().unwrap()).connect(&self.url).await.unwrap()
    }

    /// A session that has executed these statements, and stays open.
    pub(crate) async fn session(&self, statements: &str) -> PgConnection {
        let mut session = PgConnection::connect(&self.url).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(statements.to_owned())).execute(&mut session).await.expect(statements);
        session
    }

    pub(crate) async fn execute(&self, sql: &str) {
        execute(&self.url, sql).await;
    }

    pub(crate) async fn texts(&self, sql: &str) -> Vec<String> {
        texts(&self.url, sql).await
    }

    pub(crate) fn command(&self, words: impl Words) -> Command {
        let mut command = uniqueue();
        words.add_to(&mut command);
        if self.schema != "uniqueue" {
            command.args(["--schema", self.schema]);
        }
        command.env("DATABASE_URL", &self.url).env("UNIQUEUE_ACTOR", "ben");
        command
    }

    /// What it prints. On standard error there is at most a note.
    pub(crate) fn text(&self, words: impl Words, code: i32) -> String {
        printed(&mut self.command(words), code)
    }

    /// The object that it prints with `--json`.
    pub(crate) fn json(&self, words: impl Words, code: i32) -> Value {
        serde_json::from_str(&printed(self.command(words).arg("--json"), code)).unwrap()
    }

    /// The objects that it prints with `--json`, each on a line.
    pub(crate) fn lines(&self, words: impl Words) -> Vec<Value> {
        let text = printed(self.command(words).arg("--json"), 0);
        text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
    }

    /// What it says on standard error, and nothing else.
    pub(crate) fn failed(&self, words: impl Words, code: i32) -> String {
        failed(&mut self.command(words), code)
    }

    /// The message of a command that could not do its work.
    pub(crate) fn refused(&self, words: impl Words) -> String {
        refused(&mut self.command(words))
    }

    /// Each line is refused with this in its message.
    pub(crate) fn refuses(&self, cases: &[(&str, &str)]) {
        for (line, said) in cases {
            let stderr = self.refused(line);
            assert!(stderr.contains(said), "{line}: {stderr}");
        }
    }

    /// Inserts a job. Returns its id.
    pub(crate) fn insert(&self, words: impl Words) -> String {
        self.json(("job insert", words), 0)["job"]["id"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn state(&self, id: &str) -> String {
        self.texts(&format!("SELECT state::text FROM {}.job WHERE id = '{id}'", self.schema)).await.remove(0)
    }

    pub(crate) async fn set(&self, id: &str, what: &str) {
        self.execute(&format!("UPDATE {}.job SET {what} WHERE id = '{id}'", self.schema)).await;
    }
}

pub(crate) fn printed(command: &mut Command, code: i32) -> String {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{command:?}: {output:?}");
    assert!(output.stderr.is_empty() || output.stderr.starts_with(b"note: "), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn failed(command: &mut Command, code: i32) -> String {
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(code), 0), "{command:?}: {stderr}");
    stderr
}

pub(crate) fn refused(command: &mut Command) -> String {
    let stderr = failed(command, 2);
    assert!(stderr.starts_with("error: "), "{command:?}: {stderr}");
    stderr
}

/// Sends a signal to a command that waits. Returns its message.
pub(crate) fn interrupted(child: Child, name: &str) -> String {
    signal(child.id(), name);
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    stderr
}

/// A command that stays in the foreground, with the object that it has printed.
pub(crate) struct Foreground {
    pub(crate) object: Value,
    child: Killed,
    _stdout: BufReader<ChildStdout>,
}

impl Foreground {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the command");
        let mut stdout = BufReader::new(child.stdout.take().expect("its output"));
        let mut printed = String::new();
        // The object's last line is the first that is a lone brace.
        while !printed.ends_with("\n}\n") {
            assert_ne!(stdout.read_line(&mut printed).expect("a line"), 0, "it ended early: {printed}");
        }
        Self { object: serde_json::from_str(&printed).expect("an object"), child: Killed(child), _stdout: stdout }
    }

    /// The most memory that it has had so far, in KiB. `None`: this system does not tell.
    pub(crate) fn peak(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok())
    }

    /// The id of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal and waits for the end.
    pub(crate) fn stop(mut self, name: &str) -> ExitStatus {
        signal(self.child.id(), name);
        self.child.wait().expect("its end")
    }

    /// Waits for its end, which somebody else sees to.
    pub(crate) fn wait(mut self) -> ExitStatus {
        self.child.wait().expect("its end")
    }
}
