//! `uniqueue demo`: the main job on real input.
//!
//! Walk, insert with the application's rows, insert again in vain, and only then work: so every second insert meets a
//! job that claims its key. The demo holds a lock of the queue's schema meanwhile, since another demo's workers would
//! finish jobs between the two inserts.

mod args;
mod insert;
mod path_text;
mod progress;
mod report;
mod statements;
mod tables;
mod walk;
mod work;

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::{Connection, PgConnection, Row};
use uniqueue::{Runner, RunnerHandle, shutdown_signal};

pub(crate) use self::args::DemoArguments;
use self::insert::insert_twice;
use self::progress::Progress;
use self::report::{DatabaseFacts, Report};
use self::tables::Tables;
use self::work::HashFiles;
use crate::Verdict;
use crate::database::Database;
use crate::failure::Failure;
use crate::output;

/// How many files are in work at once. Many more than connections, so that each fetch brings a good number.
const CONCURRENCY: usize = 64;

/// Runs the demo, and reports.
pub(crate) async fn run(arguments: DemoArguments) -> Result<Verdict, Failure> {
    let schema = &arguments.queue.schema;
    if schema.as_str() == tables::SCHEMA {
        return Err(Failure::refused(
            format!("the demo keeps its own tables in this schema: {schema}"),
            "choose another --schema for the queue",
        ));
    }
    let progress = Arc::new(Progress::new(arguments.queue.json));
    let (path, exclude) = (arguments.path.clone(), if arguments.all { Vec::new() } else { arguments.exclude.clone() });
    progress.say("walking");
    let begun_at = Instant::now();
    let walking = tokio::task::spawn_blocking(move || walk::walk(&path, &exclude));
    let walk = walking.await.map_err(|error| Failure::refused("the walk failed", error.to_string()))??;
    let walk_time = begun_at.elapsed();

    progress.say("starting PostgreSQL");
    let mut database = Database::open_or_start(&arguments.queue, connections()).await?;
    database.client.migrate().await?;
    let tables = Tables::create(&mut database.connection, schema.clone()).await?;
    let mut lock = Lock::take(&mut database).await?;

    progress.say(format!("inserting {} jobs, twice", walk.files.len()));
    let inserts = insert_twice(&database.client, &mut database.connection, &tables, &walk).await?;
    progress.begin(walk.files.len() as u64);
    work(&mut database, &tables, &progress).await?;
    lock.release().await?;
    progress.finish();

    // The statistics of a connection are complete when it has ended.
    let connection = database.reconnect().await?;
    let tally = tables.tally(connection).await?;
    let failures = tables.failures(connection).await?;
    let statements = statements::ask(connection, schema, tables.run_id).await?;
    let facts = DatabaseFacts {
        version: database.version.clone(),
        embedded: database.postgres.is_some(),
        url: database.postgres.as_ref().filter(|_| arguments.keep).map(|postgres| postgres.url().to_owned()),
        schema: schema.to_string(),
        run: tables.run_id,
    };
    let report = Report::new(facts, walk, walk_time, &inserts, &tally, failures, statements);
    if arguments.queue.json {
        output::print_json(&report)?;
    } else {
        output::print(&report.text())?;
    }
    if arguments.keep {
        keep(&database).await;
    }
    database.close().await?;
    Ok(if report.accounted { Verdict::Fine } else { Verdict::NotFine })
}

/// As many connections as keep the processors busy: each is a process of PostgreSQL's, and costs milliseconds to open.
fn connections() -> u32 {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    u32::try_from(processors).unwrap_or(u32::MAX).saturating_mul(4).clamp(8, 32)
}

/// Works until every job of the run is final.
async fn work(database: &mut Database, tables: &Tables, progress: &Arc<Progress>) -> Result<(), Failure> {
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
        () = shutdown_signal() => Err(interrupted(handle, progress, database.postgres.is_some()).await),
    }
}

/// Resolves when every job of the run is final. The workers say when to look; but a job can also end without them, so a
/// look now and then, which costs more the more files there are, must do.
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

async fn interrupted(handle: RunnerHandle, progress: &Progress, is_throw_away: bool) -> Failure {
    progress.finish();
    let left = match handle.stop().await {
        Ok(()) if is_throw_away => "the throw-away database is gone, with what was done".to_owned(),
        Ok(()) => "the rest stays in the queue, and the next demo takes it over".to_owned(),
        Err(error) => error.to_string(),
    };
    Failure::Interrupted { left }
}

/// Leaves a server of ours up until somebody has seen enough.
async fn keep(database: &Database) {
    let Some(postgres) = &database.postgres else {
        output::tell("--keep: the database is yours, so it stays as it is");
        return;
    };
    let url = postgres.url();
    // On standard error, so that standard output is one JSON object where that was asked for.
    output::tell(&format!(
        "\nPostgreSQL stays up until Ctrl-C, and is then gone with all its data:\n\n  psql '{url}'\n\n\
         A second run:\n\n  uniqueue demo --database-url '{url}'"
    ));
    shutdown_signal().await;
}

/// Keeps a second demo out of the schema, until it is released or its connection ends.
struct Lock {
    connection: PgConnection,
}

impl Lock {
    async fn take(database: &mut Database) -> Result<Self, Failure> {
        let options = database.client.pool().connect_options();
        let mut connection = PgConnection::connect_with(&options).await?;
        // In a transaction, not in the session: a pooler might hand the session on.
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
                "wait for its end, or choose another --schema",
            ))
        }
    }

    async fn release(&mut self) -> Result<(), Failure> {
        sqlx::query("COMMIT").execute(&mut self.connection).await?;
        Ok(())
    }
}
