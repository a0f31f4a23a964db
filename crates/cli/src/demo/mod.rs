//! `uniqueue demo`: unique jobs on real input.
//!
//! It finds the files, inserts their jobs with the application's rows, and inserts them again. Work starts after that, so
//! every second insert meets a job that claims its key. The demo holds a lock on the queue's schema, because the workers of
//! another demo would finish jobs between the two inserts.

mod args;
mod files;
mod insert;
mod report;
mod work;

use std::time::{Duration, Instant};

use sqlx::types::Json;
use sqlx::{AssertSqlSafe, Executor, Postgres, Transaction};
use uniqueue::{Client, JobFilter, JobState, Runner, RunnerHandle, StateSet, shutdown_signal};
use uniqueue_admin::Admin;
use uuid::Uuid;

use self::insert::insert_twice;
use self::report::{DatabaseFacts, Report, Seconds, Tally};
use self::work::HashFiles;
use crate::database::{self, Database};
use crate::exit::{Failure, Verdict};
use crate::interrupt::or_interrupted;
use crate::job::list;
use crate::output::{self, Bar, Form};
use crate::queue;

pub(crate) use self::args::DemoArguments;

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
        let text = |report: &Report| format!("{}{tables}{}", report.text(), report::next(&arguments));
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
