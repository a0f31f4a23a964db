//! `uniqueue demo`: unique jobs on real input.
//!
//! It finds the files, inserts their jobs with the application's rows, and inserts them again. Work starts after that, so
//! every second insert meets a job that claims its key. The demo holds a lock on the queue's schema, because the workers of
//! another demo would finish jobs between the two inserts.

mod args;
mod files;
mod insert;
mod interrupt;
mod next;
mod path_text;
mod progress;
mod report;
mod statements;
mod tables;
mod work;

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::{Connection, PgConnection, Row};
use uniqueue::{Runner, RunnerHandle};

pub(crate) use self::args::DemoArguments;
use self::insert::insert_twice;
use self::interrupt::Interrupt;
use self::next::Next;
use self::progress::Progress;
use self::report::{DatabaseFacts, Report};
use self::tables::Tables;
use self::work::HashFiles;
use crate::database::{self, Database};
use crate::failure::Failure;
use crate::output;
use crate::verdict::Verdict;

/// How many jobs run at once. It is larger than the number of connections, so that each fetch returns many jobs.
const CONCURRENCY: usize = 64;

/// Runs the demo and prints the report. A signal ends it at any step.
pub(crate) async fn run(arguments: DemoArguments) -> Result<Verdict, Failure> {
    let interrupt = Interrupt::new(database::url(&arguments.database).is_none());
    Arc::clone(&interrupt).watch(steps(arguments, interrupt)).await
}

async fn steps(arguments: DemoArguments, interrupt: Arc<Interrupt>) -> Result<Verdict, Failure> {
    let schema = &arguments.database.schema;
    if schema.as_str() == tables::SCHEMA {
        return Err(Failure::refused(
            format!("the demo keeps its own tables in this schema: {schema}"),
            "choose another --schema for the queue",
        ));
    }
    let progress = Arc::new(Progress::new(arguments.database.json));
    let (path, exclude) = (arguments.path.clone(), if arguments.all { Vec::new() } else { arguments.exclude.clone() });
    progress.set_message("finding files");
    let begun_at = Instant::now();
    let search = tokio::task::spawn_blocking(move || files::find(&path, &exclude));
    let found = search.await.map_err(|error| Failure::refused("the search for files failed", error.to_string()))??;
    let search_time = begun_at.elapsed();

    progress.set_message("starting PostgreSQL");
    let mut database = Database::open_or_start(&arguments.database, connections()).await?;
    database.client.migrate().await?;
    let tables = Tables::create(&mut database.connection, schema.clone()).await?;
    let mut lock = Lock::take(&mut database).await?;

    progress.set_message(format!("inserting {}, twice", output::counted(found.files.len() as u64, "job")));
    let inserts = insert_twice(&database.client, &mut database.connection, &tables, &found).await?;
    progress.start_work(found.files.len() as u64);
    interrupt.ending_itself(work(&mut database, &tables, &progress, &interrupt)).await?;
    lock.release().await?;
    progress.finish();

    // A connection sends its last statistics when it ends.
    let connection = database.reconnect().await?;
    let tally = tables.tally(connection).await?;
    let failures = tables.failures(connection).await?;
    let statements = statements::run_all(connection, schema, tables.run_id).await?;
    let facts = DatabaseFacts {
        version: database.version.clone(),
        embedded: database.postgres.is_some(),
        url: database.postgres.as_ref().filter(|_| arguments.keep).map(|postgres| postgres.url().to_owned()),
        schema: schema.to_string(),
        run: tables.run_id,
    };
    let report = Report::new(facts, found, search_time, &inserts, &tally, failures, statements);
    if arguments.database.json {
        output::print_json(&report)?;
    } else {
        output::print(&report.text(arguments.tables))?;
        let is_embedded = database.postgres.is_some();
        output::print(&Next::new(&arguments).text(is_embedded, arguments.keep, arguments.tables))?;
    }
    if arguments.keep {
        interrupt.ending_itself(keep(&database, &interrupt)).await;
    }
    database.close().await?;
    Ok(if report.accounted { Verdict::Fine } else { Verdict::NotFine })
}

/// Enough connections to keep the processors busy. Each is a PostgreSQL process and takes milliseconds to open.
fn connections() -> u32 {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    u32::try_from(processors).unwrap_or(u32::MAX).saturating_mul(4).clamp(8, 32)
}

/// Works until every job of the run is final.
async fn work(
    database: &mut Database,
    tables: &Tables,
    progress: &Arc<Progress>,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let client = &database.client;
    let worker = HashFiles { pool: client.pool().clone(), progress: Arc::clone(progress) };
    let handle = Runner::new(client.clone())
        .name("uniqueue demo")
        .queue("demo", CONCURRENCY)
        .worker(worker)
        .poll_interval(Duration::from_millis(100))
        .promote_interval(Duration::from_millis(100))
        .stop_timeout(Duration::from_secs(5))
        .start()
        .await?;
    tokio::select! {
        finished = finished(&mut database.connection, tables, progress) => {
            finished?;
            Ok(handle.stop().await?)
        }
        () = interrupt.stopped() => Err(interrupted(handle, progress, interrupt).await),
    }
}

/// Returns when every job of the run is final. The workers signal the last attempt. A job can also end without a worker, so
/// this also counts from time to time, the more rarely the longer a count takes.
async fn finished(connection: &mut PgConnection, tables: &Tables, progress: &Progress) -> Result<(), Failure> {
    const SHORTEST_WAIT: Duration = Duration::from_millis(10);
    const LONGEST_WAIT: Duration = Duration::from_secs(2);
    let mut all_done = pin!(progress.all_done());
    let mut is_all_done = false;
    loop {
        let begun_at = Instant::now();
        if tables.unfinished(connection).await? == 0 {
            return Ok(());
        }
        let wait = begun_at.elapsed() * 20;
        if is_all_done {
            tokio::time::sleep(wait.clamp(SHORTEST_WAIT, LONGEST_WAIT)).await;
        } else {
            is_all_done = tokio::time::timeout(wait.max(LONGEST_WAIT), &mut all_done).await.is_ok();
        }
    }
}

async fn interrupted(handle: RunnerHandle, progress: &Progress, interrupt: &Interrupt) -> Failure {
    progress.finish();
    let left = match handle.stop().await {
        Ok(()) => interrupt.left(),
        Err(error) => error.to_string(),
    };
    Failure::Interrupted { left }
}

/// Keeps the throw-away server running until an interrupt.
async fn keep(database: &Database, interrupt: &Interrupt) {
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
    interrupt.stopped().await;
}

/// A lock that keeps a second demo out of the schema. It ends with its release or its connection.
struct Lock {
    connection: PgConnection,
}

impl Lock {
    async fn take(database: &mut Database) -> Result<Self, Failure> {
        let options = database.client.pool().connect_options();
        let mut connection = PgConnection::connect_with(&options).await?;
        // The lock belongs to a transaction, because a pooler may give the session to another client.
        sqlx::query("BEGIN").execute(&mut connection).await?;
        let schema = database.client.schema();
        let is_taken: bool =
            sqlx::query("SELECT pg_try_advisory_xact_lock(hashtextextended('uniqueue demo ' || $1, 0))")
                .bind(schema.as_str())
                .fetch_one(&mut connection)
                .await?
                .try_get(0)?;
        if is_taken {
            Ok(Self { connection })
        } else {
            Err(Failure::refused(
                format!("another demo is running in this database and schema: {schema}"),
                "wait until it ends, or choose another --schema",
            ))
        }
    }

    async fn release(&mut self) -> Result<(), Failure> {
        sqlx::query("COMMIT").execute(&mut self.connection).await?;
        Ok(())
    }
}
