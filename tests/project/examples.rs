//! Every example, built and run on a database of its own, and what it prints.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{ChildStdout, Command, Stdio};
use std::sync::{LazyLock, mpsc};
use std::time::Duration;

use serde_json::{Value, json};
use support::process::Killed;
use uniqueue::{JobState, assert_inserted, testing};

/// The longest that an example takes to say its next line. What is built here is built before.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where the examples are, as built from what is there now. `cargo test` has built them already, unless it was asked
/// for this test alone. The whole workspace is named, as by `cargo test --workspace`: the features that its members ask
/// for together decide how each dependency is built, and for one package alone nearly all would be built again.
static EXAMPLES: LazyLock<PathBuf> = LazyLock::new(|| {
    // target/debug/deps/it-… → target/debug
    let test = std::env::current_exe().unwrap();
    let directory = test.ancestors().nth(2).unwrap();
    let profile = match directory.file_name().unwrap().to_str().unwrap() {
        "debug" => "dev",
        other => other,
    };
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--workspace", "--examples", "--bins", "--profile", profile]);
    // Cargo sets these for a test. ring, and all that depends on it, is built again when they change.
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")) {
            build.env_remove(name);
        }
    }
    let built = build.current_dir(env!("CARGO_MANIFEST_DIR")).status().unwrap();
    assert!(built.success(), "the examples do not build");
    directory.join("examples")
});

/// The command, as built from what is there now.
pub fn command() -> PathBuf {
    EXAMPLES.with_file_name("uniqueue")
}

/// A running example.
pub struct Example {
    process: Killed,
    lines: mpsc::Receiver<String>,
}

impl Example {
    pub fn start(name: &str, database: &testing::Database) -> Self {
        let mut process = Command::new(EXAMPLES.join(name))
            .env("DATABASE_URL", database.url())
            .env("PORT", "0")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = mpsc::channel();
        let output: ChildStdout = process.stdout.take().unwrap();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { process: Killed(process), lines }
    }

    pub fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("a line of output")
    }

    /// The next line that begins so.
    pub fn line_with(&self, beginning: &str) -> String {
        loop {
            let line = self.line();
            if line.starts_with(beginning) {
                return line;
            }
        }
    }

    pub fn terminate(&self) {
        let killed = Command::new("kill").args(["-s", "TERM", &self.process.id().to_string()]).status().unwrap();
        assert!(killed.success());
    }

    /// The rest of its output, after it has ended well.
    pub fn end(mut self) -> Vec<String> {
        let rest = self.lines.iter().collect();
        assert!(self.process.wait().unwrap().success(), "{rest:?}");
        rest
    }
}

/// Sends a request, and answers with status and body.
pub fn post(address: &str, path: &str, body: &Value) -> (u16, Value) {
    let body = body.to_string();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let body = answer.split_once("\r\n\r\n").unwrap().1;
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

/// The program that README shows.
#[test]
fn readme_shows_the_first_program_word_for_word() {
    let program = include_str!("../../examples/welcome.rs");
    let readme = include_str!("../../README.md");
    assert!(readme.contains(&format!("\n```rust,no_run\n{program}```\n")), "copy examples/welcome.rs to README.md");
}

#[tokio::test(flavor = "multi_thread")]
async fn welcome_names_the_holder_of_a_duplicate_and_works_the_others() {
    let database = testing::Database::new().await.unwrap();
    let example = Example::start("welcome", &database);
    let first = example.line();
    let ada = first.strip_prefix("inserted: ").unwrap();
    assert!(example.line().starts_with("inserted: job "));
    let duplicate = example.line();
    assert!(duplicate.starts_with(&format!("duplicate: {ada} (available, for ")), "{duplicate}");
    let mut sent = [example.line(), example.line()];
    sent.sort();
    assert_eq!(sent, ["to ada@example.com in en: welcome", "to bob@example.com in en: welcome"]);
    example.terminate();
    assert_eq!(example.end(), [""; 0]);
    assert_inserted!(database, "email.welcome", state = JobState::Completed, count = 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn axum_service_inserts_in_the_request_s_transaction_and_works_its_jobs() {
    let database = testing::Database::new().await.unwrap();
    let example = Example::start("axum_service", &database);
    let address = example.line_with("listening on http://").replace("listening on http://", "");
    let (status, first) = post(&address, "/accounts", &json!({"email": "ada@example.com"}));
    assert_eq!((status, &first["duplicate"]), (201, &json!(false)));
    assert_eq!(example.line(), "to ada@example.com in en: welcome");
    // The claim covers completed jobs, so it does not matter how far the first one is.
    let (status, again) = post(&address, "/accounts", &json!({"email": "ada@example.com"}));
    assert_eq!((status, &again["duplicate"], &again["job"]), (200, &json!(true), &first["job"]));
    assert_inserted!(database, "email.welcome", args = {"to": "ada@example.com"}, count = 1);

    // The account cannot be stored, so there is no job either.
    sqlx::query("ALTER TABLE account ADD CHECK (email <> 'eve@example.com')").execute(database.pool()).await.unwrap();
    assert_eq!(post(&address, "/accounts", &json!({"email": "eve@example.com"})).0, 500);
    assert_inserted!(database, _, count = 1);
    example.terminate();
    assert_eq!(example.end(), ["stopped"]);
    assert_inserted!(database, _, state = JobState::Completed, count = 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn dashboard_works_its_jobs_and_shows_them_by_rights() {
    let database = testing::Database::new().await.unwrap();
    let example = Example::start("dashboard", &database);
    let address = example.line_with("the dashboard is at http://").replace("the dashboard is at http://", "");
    let address = address.strip_suffix("/queue").unwrap();
    let send = |request: String| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        (answer.split(' ').nth(1).unwrap().parse::<u16>().unwrap(), answer.split_once("\r\n\r\n").unwrap().1.to_owned())
    };
    let form = |path: &str, user: &str, form: &str| {
        let length = form.len();
        let user = if user.is_empty() { String::new() } else { format!("X-User: {user}\r\n") };
        send(format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\n{user}Content-Length: {length}\r\nConnection: close\r\n\
             Content-Type: application/x-www-form-urlencoded\r\n\r\n{form}"
        ))
    };
    let get = |path: &str| send(format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"));
    let (status, id) = form("/welcome", "", "to=ada%40example.com");
    assert_eq!(status, 200);
    let (status, page) = get(&format!("/queue/jobs/{}", id.lines().find(|line| line.contains('-')).unwrap().trim()));
    assert!(status == 200 && page.contains("email.welcome") && !page.contains("Retry now"), "{page}");
    assert_eq!(get("/queue").0, 200);
    assert_eq!(form("/queue/queues/change", "", "queue=emails&verb=pause").0, 403);
    assert_eq!(form("/queue/queues/change", "ben", "queue=emails&verb=pause").0, 303);
    assert_eq!(form("/queue/insert", "ben", "kind=email.welcome&verb=insert").0, 403);
    example.terminate();
    assert_eq!(example.end(), ["stopped"]);
    assert_inserted!(database, "email.welcome", args = {"to": "ada@example.com"}, count = 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_shares_state_and_stops_in_order() {
    let database = testing::Database::new().await.unwrap();
    let example = Example::start("worker", &database);
    let inserted: Vec<_> = (0..4).map(|_| example.line().rsplit_once(' ').unwrap().1.to_owned()).collect();
    assert_eq!(inserted, ["inserted", "inserted", "inserted", "already"]);
    example.line_with("working");
    // Stopped in the middle of its work, which it ends.
    example.line_with("sending to ada@example.com, attempt 1");
    example.terminate();
    let rest = example.end();
    assert!(rest.contains(&"sent to ada@example.com".to_owned()), "{rest:?}");
    assert_eq!(rest.last().unwrap(), "stopped: nothing is lost");
    let ada = assert_inserted!(database, "email.send", args = {"to": "ada@example.com"}, state = JobState::Completed);
    assert_eq!(ada[0].attempt, 1);
    let runners: i64 =
        sqlx::query_scalar("SELECT count(*) FROM uniqueue.runner").fetch_one(database.pool()).await.unwrap();
    assert_eq!(runners, 0);

    // What it left is worked by the next.
    let example = Example::start("worker", &database);
    let mut open = vec!["sent to ada@example.com", "sent to flaky@example.com"];
    while !open.is_empty() {
        let line = example.line();
        open.retain(|wanted| *wanted != line);
    }
    example.terminate();
    example.end();
    let nobody = assert_inserted!(database, _, args = {"to": "nobody"}, state = JobState::Discarded);
    assert_eq!(nobody[0].errors[0].error, "not an address: \"nobody\"");
    let flaky = assert_inserted!(database, _, args = {"to": "flaky@example.com"}, state = JobState::Completed);
    assert!(flaky[0].errors.iter().all(|error| error.error == "the mail server is out for lunch"), "{flaky:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn exactly_once_pays_once_what_the_other_pays_twice() {
    let database = testing::Database::new().await.unwrap();
    let mut output = Example::start("exactly_once", &database).end();
    assert!(output[0].starts_with("the first process died: signal: 6"), "{output:?}");
    output[1..3].sort_unstable();
    assert_eq!(
        output[1..],
        [
            "the second process completed invoice.pay, attempt 1",
            "the second process completed invoice.pay_once, attempt 1",
            "invoice A was paid 2 times",
            "invoice B was paid 1 times",
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn sql_producer_inserts_what_the_worker_works() {
    let database = testing::Database::new().await.unwrap();
    let output = Example::start("sql_producer", &database).end();
    assert_eq!(
        output,
        [
            "3 jobs came from SQL",
            "shipping parcel 8 to Rose Lane 2",
            "weighing parcel 7",
            "shipping parcel 7 to Rose Lane 1",
        ]
    );
    assert_inserted!(database, _, state = JobState::Completed, count = 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn periodic_digest_runs_each_slot_once_over_two_runners() {
    let database = testing::Database::new().await.unwrap();
    let output = Example::start("periodic_digest", &database).end();
    let digests: Vec<_> = output.iter().filter(|line| line.starts_with("digest for team@example.com at ")).collect();
    assert!(digests.len() >= 3, "{output:?}");
    assert!(digests[0].ends_with("Z\": 2 new, [\"ada@example.com\", \"bob@example.com\"]"), "{output:?}");
    assert!(digests[1..].iter().all(|line| line.ends_with(": 0 new, []")), "{output:?}");
    let counts = output.iter().find(|line| line.contains(" jobs for ")).unwrap();
    let (jobs, slots) = counts.split_once(" jobs for ").unwrap();
    assert_eq!(format!("{jobs} slots"), slots);
    let defined = ["digest, PT1S: on", "morning-digest, 0 9 * * MON-FRI: on"];
    assert_eq!(output[output.len() - 2..], defined);
}
