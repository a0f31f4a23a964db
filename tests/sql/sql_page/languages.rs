//! The programs of the page, each run against a database of its own.
//!
//! A program whose language or driver is not to be had is left out, and the test says so.

use std::process::Output;

use support::clients::installed;
use support::prelude::*;
use uniqueue::testing::Database;

use super::blocks;

/// A database with the application's own table.
async fn shop() -> Database {
    let database = Database::new().await.unwrap();
    sqlx::query("CREATE TABLE customer_order (number bigint PRIMARY KEY)").execute(database.pool()).await.unwrap();
    database
}

fn succeeds(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

fn programs(heading: &str) -> Vec<String> {
    let programs: Vec<_> =
        blocks().into_iter().filter(|block| block.heading == heading).map(|block| block.text).collect();
    assert!(!programs.is_empty(), "{heading}");
    programs
}

fn lines(output: Output) -> Vec<String> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(|line| line.replace('|', " ")).collect()
}

/// The order and its one job exist, in whichever language they were written.
async fn is_written(database: &Database) {
    let written: (i64, i64) = sqlx::query_as(
        "SELECT count(*), (SELECT count(*) FROM customer_order WHERE number = 7) FROM uniqueue.job
         WHERE kind = 'invoice.send' AND args = '{\"order\": 7}' AND queue = 'mail' AND claims",
    )
    .fetch_one(database.pool())
    .await
    .unwrap();
    assert_eq!(written, (1, 1));
}

const PRINTED: [&str; 2] = ["inserted available", "duplicate available"];

#[tokio::test]
async fn psql_inserts_and_meets_the_duplicate() {
    if !succeeds(Command::new("psql").arg("--version")) {
        println!("left out: psql is not in PATH");
        return;
    }
    let database = shop().await;
    let mut psql = Command::new("psql");
    psql.args(["-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", "-d", database.url(), "-c", &programs("psql")[0]]);
    let output = tokio::task::spawn_blocking(move || psql.output().unwrap()).await.unwrap();
    assert_eq!(lines(output), PRINTED);
    is_written(&database).await;
}

/// Where Debian's package has pgx 4, which Go finds without a network.
const PACKAGED: &str = "/usr/share/gocode";

#[tokio::test]
async fn go_inserts_and_meets_the_duplicate() {
    if !Path::new(PACKAGED).join("src/github.com/jackc/pgx/v4").is_dir() || !succeeds(Command::new("go").arg("version"))
    {
        println!("left out: no pgx for Go; on Debian: apt-get install golang-go golang-github-jackc-pgx-v4-dev");
        return;
    }
    let database = shop().await;
    // The package has version 4, of which the program needs nothing that version 5 has otherwise.
    let program = include_str!("../../../examples/other_languages/producer.go");
    let program = program.replace("github.com/jackc/pgx/v5", "github.com/jackc/pgx/v4");
    let directory = installed("go");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("main.go"), program).unwrap();
    let mut go = Command::new("go");
    go.env("GO111MODULE", "off").env("GOPATH", PACKAGED).env("GOFLAGS", "").env("GOCACHE", directory.join("cache"));
    go.env("DATABASE_URL", database.url()).arg("run").arg(directory.join("main.go"));
    let output = tokio::task::spawn_blocking(move || go.output().unwrap()).await.unwrap();
    assert_eq!(lines(output), PRINTED);
    is_written(&database).await;
}

#[tokio::test]
async fn shell_works_jobs_until_it_is_told_to_stop() {
    if !succeeds(Command::new("psql").arg("--version")) {
        println!("left out: psql is not in PATH");
        return;
    }
    let database = Database::new().await.unwrap();
    let hash = |path: &str| NewJob::new("file.hash", &json!({"path": path})).queue("files").max_attempts(1);
    let jobs = database.client().insert_many([hash("/dev/null"), hash("/no/such/file")]).await.unwrap();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/other_languages/worker.sh");
    let mut worker = Command::new("sh").arg(file).env("DATABASE_URL", database.url()).spawn().unwrap();
    let mut states = Vec::new();
    for job in jobs {
        states.push(database.client().wait(job.id()).timeout(WAIT).await.unwrap().job().unwrap().state);
    }
    assert!(succeeds(Command::new("kill").arg(worker.id().to_string())));
    let ended = tokio::task::spawn_blocking(move || worker.wait().unwrap()).await.unwrap();
    assert_eq!(states, [JobState::Completed, JobState::Discarded]);
    assert!(ended.success());
    let left = "SELECT count(*) FROM uniqueue.runner";
    assert_eq!(sqlx::query_scalar::<_, i64>(left).fetch_one(database.pool()).await.unwrap(), 0);
}

#[tokio::test]
async fn what_the_page_shows_first_inserts_one_and_one_for_each_row() {
    let database = shop().await;
    sqlx::query("INSERT INTO customer_order SELECT generate_series(1, 5)").execute(database.pool()).await.unwrap();
    for program in programs("Inserting") {
        for _ in 0..2 {
            let rows = sqlx::raw_sql(sqlx::AssertSqlSafe(program.clone())).fetch_all(database.pool()).await.unwrap();
            assert_eq!(rows.len(), 1);
            assert!(!sqlx::Row::get::<bool, _>(&rows[0], "duplicate"));
        }
    }
    for program in programs("Many jobs") {
        let is_query = program.contains("jsonb_agg");
        for again in [false, true] {
            let rows = sqlx::raw_sql(sqlx::AssertSqlSafe(program.clone())).fetch_all(database.pool()).await.unwrap();
            if is_query {
                let duplicates = rows.iter().filter(|row| sqlx::Row::get::<bool, _>(*row, "duplicate")).count();
                assert_eq!((rows.len(), duplicates), (5, if again { 5 } else { 0 }));
            } else {
                let outcomes: Vec<&str> = rows.iter().map(|row| sqlx::Row::get(row, "outcome")).collect();
                assert_eq!(outcomes, [if again { "duplicate" } else { "inserted" }, "inserted", "duplicate"]);
            }
        }
    }
}
