//! Runners in processes of their own, as in production. Each process is this command with a hidden subcommand.

use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};
use uniqueue::{Client, SchemaName, shutdown_signal};

use super::work::start;
use crate::counter::Counter;
use crate::failure::Failure;
use crate::failures::{interrupted, wrong};
use crate::meter::{Measure, Meter};
use crate::output;
use crate::test_database::TestDatabase;
use crate::work::{Keep, Loops, Runners, Work, check, waiting};

/// The line that the process prints when its runner has started.
const READY: &str = "ready\n";

/// How often the bench asks whether all jobs are done.
const POLL: Duration = Duration::from_millis(5);

/// The arguments of a runner's process.
#[derive(Debug, Args)]
pub(crate) struct RunnerArguments {
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    database_url: String,
    #[arg(long)]
    schema: SchemaName,
    #[arg(long)]
    connections: u32,
    #[arg(long)]
    slots: u32,
}

/// Works until standard input ends, which it does when the bench ends, also where it is killed.
pub(crate) async fn run_process(arguments: RunnerArguments) -> Result<ExitCode, Failure> {
    let RunnerArguments { database_url, schema, connections, slots } = arguments;
    let client = Client::builder().schema(schema).max_connections(connections).connect(&database_url).await?;
    let work = Work {
        fill: None,
        blocked: None,
        n: 0,
        queues: 1,
        keep: Keep::Rows,
        is_snapshot_held: false,
        runners: Runners { count: 1, slots, connections },
        loops: Loops { connections: 0, batch: 0 },
    };
    let runner = start(client, &work, &Arc::new(Counter::new(u64::MAX))).await?;
    output::print(READY)?;
    let mut nothing = Vec::new();
    let mut stdin = tokio::io::stdin();
    tokio::select! {
        _ = stdin.read_to_end(&mut nothing) => {}
        () = shutdown_signal() => {}
    }
    runner.stop().await?;
    Ok(ExitCode::SUCCESS)
}

/// Works from the commit of the jobs until the last result is recorded.
pub(crate) async fn run(database: &mut TestDatabase, work: Work) -> Result<Measure, Failure> {
    let mut children = Vec::with_capacity(work.runners.count as usize);
    for _ in 0..work.runners.count {
        children.push(spawn(database, &work)?);
    }
    for child in &mut children {
        let mut said = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut said).await.map_err(|error| wrong(error.to_string()))?;
        }
        if said != READY {
            return Err(wrong("a runner's process did not start".to_owned()));
        }
    }
    database.execute("BEGIN").await?;
    work.prepare(database).await?;
    let before = waiting(database).await?;
    database.execute("SELECT /* schema */_wake_runners(ARRAY['bench'])").await?;
    // The question whether all jobs are done must not read the whole table each time.
    database.execute("SET enable_seqscan = off").await?;
    let meter = Meter::start(database).await?;
    database.execute("COMMIT").await?;
    let finished = finished(database).await;
    let mut measure = meter.stop(database, before.count).await?;
    finished?;
    // It does not count the processes of the runners.
    measure.client_cpu = None;
    database.execute("RESET enable_seqscan").await?;
    for mut child in children {
        drop(child.stdin.take());
        child.wait().await.map_err(|error| wrong(error.to_string()))?;
    }
    check(database, before, before, work.keep).await?;
    Ok(measure)
}

fn spawn(database: &TestDatabase, work: &Work) -> Result<Child, Failure> {
    let cannot = |error| Failure::environment("cannot start a runner", "check the limits of this user", error);
    let binary = std::env::current_exe().map_err(cannot)?;
    let mut command = Command::new(binary);
    command.arg("runner").args(["--schema", database.schema.as_str()]);
    command.args(["--connections", &work.runners.connections.to_string(), "--slots", &work.runners.slots.to_string()]);
    // Every user of the machine could read an argument.
    command.env("DATABASE_URL", &database.url).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    command.spawn().map_err(cannot)
}

async fn finished(database: &mut TestDatabase) -> Result<(), Failure> {
    let unfinished = "SELECT (EXISTS (SELECT FROM /* schema */job WHERE state = 'available')
        OR EXISTS (SELECT FROM /* schema */job WHERE state = 'running'))::integer::bigint";
    while database.count(unfinished).await? > 0 {
        tokio::select! {
            () = database.interrupt.cancelled() => return Err(interrupted()),
            () = tokio::time::sleep(POLL) => {}
        }
    }
    Ok(())
}
