//! `uniqueue demo`: unique jobs on real input.
//!
//! It finds the files, inserts their jobs with the application's rows, and inserts them again. Work starts after that, so
//! every second insert meets a job that claims its key. The demo holds a lock on the queue's schema, because the workers of
//! another demo would finish jobs between the two inserts.

mod files;
mod insert;
mod report;
mod work;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Instant;

use sqlx::types::Json;
use sqlx::{AssertSqlSafe, Executor, Postgres, Transaction};
use uniqueue::{Runner, RunnerHandle, SchemaName, StateSet, shutdown_signal};
use uuid::Uuid;

use self::insert::insert_twice;
use self::report::{DatabaseFacts, Report, Seconds, Tally};
use self::work::HashFiles;
use crate::database;
use crate::job::list;
use crate::output::{own_command, shell_word};
use crate::prelude::*;
use crate::queue;

/// How many jobs run at once. It is larger than the number of connections, so that each fetch returns many jobs.
const CONCURRENCY: usize = 64;

/// Connections of the pool. They keep many processors busy, and each takes milliseconds to open.
const CONNECTIONS: u32 = 16;

/// Runs the demo and prints the report. A signal ends it at any step. A second one also ends the work at once.
pub(crate) async fn run(arguments: DemoArguments) -> Result<Verdict, Failure> {
    let left = || match database::url(&arguments.database) {
        None => "the throw-away database and all results are removed".to_owned(),
        Some(_) => "jobs that were inserted stay in the queue, and the next demo works them".to_owned(),
    };
    let Prepared { database, lock, runner, mut report, files } = or_interrupted(left, prepare(&arguments)).await?;
    if !work(&database.client, runner, files).await? {
        return Err(Failure::Interrupted { left: left() });
    }
    lock.commit().await?;
    let verdict = or_interrupted(left, async {
        report.check(files, tally(&database.client, report.database.run).await?);
        let tables = if arguments.tables { tables(&database.client).await? } else { String::new() };
        let text = |report: &Report| format!("{}{tables}{}", report.text(), next(&arguments));
        let verdict = if report.accounted { Verdict::Fine } else { Verdict::NotFine };
        Form::of_one(arguments.database.json).object(&report, text)?.verdict(verdict).print()
    })
    .await?;
    if arguments.keep {
        keep(&database).await;
    }
    database.close().await?;
    Ok(verdict)
}

/// The demo while its jobs are worked.
struct Prepared {
    database: Database,
    /// A lock that keeps a second demo out of the schema.
    lock: Transaction<'static, Postgres>,
    runner: RunnerHandle,
    /// The report before the work.
    report: Report,
    /// The number of files.
    files: u64,
}

/// Finds the files, opens the database, inserts the jobs and starts to work them.
async fn prepare(arguments: &DemoArguments) -> Result<Prepared, Failure> {
    let schema = &arguments.database.schema;
    if schema.as_str() == "uniqueue_demo" {
        return Err(Failure::refused(
            format!("the demo keeps its own tables in this schema: {schema}"),
            "choose another --schema for the queue",
        ));
    }
    let _bar = Bar::new("finding and inserting files", None);
    let (path, exclude) = (arguments.path.clone(), if arguments.all { Vec::new() } else { arguments.exclude.clone() });
    let mut report = Report::default();
    let begun_at = Instant::now();
    let search = tokio::task::spawn_blocking(move || files::find(&path, &exclude));
    let found = search.await.map_err(|error| Failure::refused("the search for files failed", error.to_string()))??;
    report.seconds.search = Seconds::since(begun_at);
    (report.path, report.left_out) = (found.root, found.left_out);
    report.bytes = found.jobs.iter().map(|file| file.size).sum();
    let database = Database::open_or_start(&arguments.database, CONNECTIONS).await?;
    database.client.migrate().await?;
    let pool = database.client.pool();
    pool.execute(sqlx::raw_sql(include_str!("sql/create_tables.sql"))).await?;
    let version: String = sqlx::query_scalar("SHOW server_version").fetch_one(pool).await?;
    let lock = lock(&database.client).await?;
    report.database = DatabaseFacts {
        // Debian appends its own version: 15.18 (Debian 15.18-0+deb12u1).
        version: version.split(' ').next().unwrap_or_default().to_owned(),
        embedded: database.postgres.is_some(),
        url: database.postgres.as_ref().filter(|_| arguments.keep).map(|postgres| postgres.url().to_owned()),
        schema: schema.to_string(),
        run: Uuid::now_v7(),
    };
    insert_twice(&database.client, &found.jobs, &mut report).await?;
    let runner = Runner::new(database.client.clone())
        .name("uniqueue demo")
        .queue("demo", CONCURRENCY)
        .worker(HashFiles(database.client.pool().clone()))
        .poll_interval(Duration::from_millis(100))
        .promote_interval(Duration::from_millis(100))
        .stop_timeout(Duration::from_secs(5))
        .start()
        .await?;
    Ok(Prepared { database, lock, runner, report, files: found.jobs.len() as u64 })
}

/// Takes the lock on the schema. It belongs to a transaction, because a pooler may give the session to another client.
async fn lock(client: &Client) -> Result<Transaction<'static, Postgres>, Failure> {
    let (mut tx, schema) = (client.pool().begin().await?, client.schema());
    let take = sqlx::query_scalar("SELECT pg_try_advisory_xact_lock(hashtextextended('uniqueue demo ' || $1, 0))");
    if take.bind(schema.as_str()).fetch_one(&mut *tx).await? {
        return Ok(tx);
    }
    Err(Failure::refused(
        format!("another demo is running in this database and schema: {schema}"),
        "wait until it ends, or choose another --schema",
    ))
}

/// Works until every job of the demo's queue is final. Returns whether it did, without a signal.
async fn work(client: &Client, runner: RunnerHandle, files: u64) -> Result<bool, Failure> {
    let is_finished = tokio::select! {
        finished = finished(client, files) => finished.map(|()| true)?,
        () = shutdown_signal() => false,
    };
    // A signal ends the stop at once.
    runner.stop().await?;
    Ok(is_finished)
}

/// Returns when every job of the queue is final. It counts the more rarely the longer a count takes.
async fn finished(client: &Client, files: u64) -> Result<(), Failure> {
    let open: Vec<_> = JobState::ALL.into_iter().filter(|state| !state.is_final()).collect();
    let open = JobFilter::new().queue("demo").states(StateSet::of(&open));
    let bar = Bar::new("working", Some(files));
    loop {
        let begun_at = Instant::now();
        let left = client.count_jobs(open.clone(), u32::MAX).await?.counted();
        if left == 0 {
            return Ok(());
        }
        bar.reach(1.0 - left as f64 / files.max(left) as f64);
        tokio::time::sleep((begun_at.elapsed() * 20).clamp(Duration::from_millis(10), Duration::from_secs(2))).await;
    }
}

/// Adds up the files and jobs of the run.
async fn tally(client: &Client, run: Uuid) -> Result<Tally, Failure> {
    // Safe to insert: the name is quoted, and its alphabet has no quotes.
    let schema = format!("{}.", client.schema().quoted());
    let statement = include_str!("sql/tally.sql").replace("/* schema */", &schema);
    let Json(tally) = sqlx::query_scalar(AssertSqlSafe(statement)).bind(run).fetch_one(client.pool()).await?;
    Ok(tally)
}

/// The queue and some of its jobs, as `queue list` and `job list` show them.
async fn tables(client: &Client) -> Result<String, Failure> {
    let now = client.database_time().await?;
    let queues = Admin::new(client).queues().await?;
    let jobs = client.jobs(JobFilter::new().queue("demo").limit(5)).await?;
    Ok(format!("\n{}\n{}", queue::table(&queues, now).text(), list::table(&jobs, None, now).text()))
}

/// Keeps the throw-away server running until an interrupt.
async fn keep(database: &Database) {
    let Some(postgres) = &database.postgres else {
        output::print_to_stderr("--keep has no effect on a database that you gave");
        return;
    };
    let (url, command) = (postgres.url(), output::own_command());
    // On standard error, so that standard output is a single JSON object with --json.
    output::print_to_stderr(&format!(
        "\nPostgreSQL runs until Ctrl-C, and is then removed with all its data. In another terminal:\n\n  \
         export DATABASE_URL='{url}'\n  \
         {command} job list --limit 5\n  \
         {command} db psql\n  \
         {command} top      watch the queue while another terminal runs a demo"
    ));
    shutdown_signal().await;
}

/// Hash every file under PATH with jobs, on a PostgreSQL that needs no setup.
///
/// It inserts one job for each regular file, unique by path and size, in one transaction with rows of an application's own
/// table. It inserts all of them again, and every one must be a duplicate. Then it works the jobs: each reads its file, and
/// stores SHA-256 and line count in the transaction that completes it. At the end it checks that every file is accounted for.
///
/// It does not follow symbolic links. It counts and reports the files that it leaves out. A job whose file cannot be read
/// is tried three times and then discarded; such files are reported and accounted for. Paths are stored as absolute paths.
/// A percent sign, control characters and bytes that are not UTF-8 are written %NN.
///
/// ***
///
/// Without --database-url and DATABASE_URL it starts a PostgreSQL server of its own and removes it at the end. In your
/// database it migrates the queue's schema and keeps its own tables in the schema uniqueue_demo. Drop both when you are done.
/// It works jobs that an interrupted demo left there as well.
///
/// Examples:
///   uniqueue demo                        the current directory
///   uniqueue demo --json ~/src | jq .jobs_per_second
///   uniqueue demo --tables               with tables of the queue and its jobs
///   uniqueue demo --keep                 and explore it with `uniqueue top` and psql
///   uniqueue demo --database-url postgres://localhost/app --schema jobs
///
/// Exit codes:
///   0    every file is accounted for: completed, or discarded with a reason
///   1    a file is not accounted for, or a duplicate was stored
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct DemoArguments {
    /// A directory, or one file
    #[arg(default_value = ".")]
    pub(crate) path: PathBuf,

    /// Leave out directories with this name; repeat it for several names; it replaces the default
    #[arg(long, value_name = "NAME", default_values = [".git", "target"])]
    pub(crate) exclude: Vec<OsString>,

    /// Leave out no directory
    #[arg(long, conflicts_with = "exclude")]
    pub(crate) all: bool,

    /// Print tables after the summary: the queue, and some of its jobs
    #[arg(long, conflicts_with = "json")]
    pub(crate) tables: bool,

    /// Keep the throw-away database running after the report until Ctrl-C, and print its URL
    #[arg(long)]
    pub(crate) keep: bool,

    #[command(flatten)]
    pub(crate) database: DatabaseArguments,
}

/// The commands to try next. Each works as it is printed, but that a URL that may have a password is left out.
fn next(arguments: &DemoArguments) -> String {
    let path = arguments.path.to_str().filter(|path| *path != ".").map(shell_word);
    let path = path.map(|path| format!(" {path}")).unwrap_or_default();
    let is_given = database::url(&arguments.database).is_some();
    let options = options(arguments);
    let lines = [
        (!arguments.tables, format!("demo --tables{path}{options}"), "tables of the queue"),
        (!is_given && !arguments.keep, format!("demo --keep{path}{options}"), "keep the database to look around"),
        (is_given, format!("job list --queue demo{options}"), "the jobs"),
        (is_given, format!("top{options}"), "watch the next demo"),
        (true, "--help".to_owned(), "all commands"),
    ];
    let lines = lines.iter().filter(|(is_useful, ..)| *is_useful);
    let widest = lines.clone().map(|(_, words, _)| words.chars().count()).max().unwrap_or_default();
    let command = own_command();
    let lines = lines.map(|(_, words, purpose)| format!("  {command} {words:<widest$}  {purpose}\n"));
    format!("\nNext:\n{}", lines.collect::<String>())
}

/// The options that lead to the database, where the environment does not give them.
fn options(arguments: &DemoArguments) -> String {
    let is_set = |name: &str, value: &str| std::env::var(name).is_ok_and(|set| set == value);
    // The first colon is that of the scheme.
    let is_secret = |url: &str| url.rsplit_once('@').is_some_and(|(user, _)| user.matches(':').count() > 1);
    let mut options = String::new();
    if let Some(url) = database::url(&arguments.database).filter(|url| !is_set("DATABASE_URL", url)) {
        let url = if url.contains("password") || is_secret(url) { "URL".to_owned() } else { shell_word(url) };
        options = format!(" --database-url {url}");
    }
    let schema = &arguments.database.schema;
    if *schema != SchemaName::default() && !is_set("UNIQUEUE_SCHEMA", schema.as_str()) {
        options.push_str(&format!(" --schema {schema}"));
    }
    options
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        demo: DemoArguments,
    }

    #[test]
    fn printed_options_have_no_password() {
        let options = |words: &[&str]| options(&Line::parse_from([&["demo"], words].concat()).demo);
        let given = ["--database-url", "postgres://ada@db/app", "--schema", "jobs"];
        assert_eq!(options(&given), " --database-url postgres://ada@db/app --schema jobs");
        for secret in ["postgres://ada:secret@db/app", "postgres://db/app?user=ada&password=secret"] {
            assert_eq!(options(&["--database-url", secret]), " --database-url URL");
        }
    }
}
