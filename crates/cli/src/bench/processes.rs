//! Runners in processes of their own, as in production: this command again, told to run one.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};
use uniqueue::{Client, SchemaName, shutdown_signal};

use super::counter::Counter;
use super::ground::Ground;
use super::insert::wrong;
use super::interrupted;
use super::meter::{Measure, Meter};
use super::work::{Keep, Works, check, start, waiting};
use crate::failure::Failure;
use crate::output;
use crate::verdict::Verdict;

/// What a runner's process says when it has started.
const READY: &str = "ready\n";

/// How often it is asked whether all is done.
const POLL: Duration = Duration::from_millis(5);

/// What the process of a runner is told.
#[derive(Debug, Args)]
pub(crate) struct BenchRunnerArguments {
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    database_url: String,
    #[arg(long)]
    schema: SchemaName,
    #[arg(long)]
    connections: u32,
    #[arg(long)]
    concurrency: u32,
}

/// Works until standard input ends, which it does when the bench is done with it, however that ended.
pub(crate) async fn run(arguments: BenchRunnerArguments) -> Result<Verdict, Failure> {
    let BenchRunnerArguments { database_url, schema, connections, concurrency } = arguments;
    let client = Client::builder().schema(schema).max_connections(connections).connect(&database_url).await?;
    let works =
        Works { fill: None, n: 0, queues: 1, connections, concurrency, keep: Keep::Rows, is_snapshot_held: false };
    let runner = start(client, &works, &Arc::new(Counter::new(u64::MAX))).await?;
    output::print(READY)?;
    let mut nothing = Vec::new();
    let mut stdin = tokio::io::stdin();
    tokio::select! {
        _ = stdin.read_to_end(&mut nothing) => {}
        () = shutdown_signal() => {}
    }
    runner.stop().await?;
    Ok(Verdict::Fine)
}

/// Works with so many runners: from the commit of the jobs until the last is recorded.
pub(super) async fn ours(ground: &mut Ground, works: Works, runners: u32) -> Result<Measure, Failure> {
    let mut children = Vec::with_capacity(runners as usize);
    for _ in 0..runners {
        children.push(spawn(ground, &works)?);
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
    ground.execute("BEGIN").await?;
    works.prepare(ground).await?;
    let before = waiting(ground).await?;
    ground.execute("SELECT /* schema */wake_runners(ARRAY['bench'])").await?;
    // The question whether all is done must not read the whole table each time.
    ground.execute("SET enable_seqscan = off").await?;
    let meter = Meter::start(ground).await?;
    ground.execute("COMMIT").await?;
    let finished = finished(ground).await;
    let mut measure = meter.stop(ground, before.count).await?;
    finished?;
    // The time of other processes is not in it.
    measure.client_cpu = None;
    ground.execute("RESET enable_seqscan").await?;
    for mut child in children {
        drop(child.stdin.take());
        child.wait().await.map_err(|error| wrong(error.to_string()))?;
    }
    check(ground, before, before, works.keep).await?;
    Ok(measure)
}

fn spawn(ground: &Ground, works: &Works) -> Result<Child, Failure> {
    let cannot = |error| Failure::environment("cannot start a runner", "check the limits of this user", error);
    let binary = std::env::current_exe().map_err(cannot)?;
    let mut command = Command::new(binary);
    command.arg("bench-runner").args(["--schema", ground.schema.as_str()]);
    command.args(["--connections", &works.connections.to_string(), "--concurrency", &works.concurrency.to_string()]);
    // Not an argument, which every user of the machine could read.
    command.env("DATABASE_URL", &ground.url).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    command.spawn().map_err(cannot)
}

async fn finished(ground: &mut Ground) -> Result<(), Failure> {
    let unfinished = "SELECT (EXISTS (SELECT FROM /* schema */job WHERE ready)
        OR EXISTS (SELECT FROM /* schema */job WHERE state = 'running'))::integer::bigint";
    while ground.count(unfinished).await? > 0 {
        tokio::select! {
            () = ground.interrupt.cancelled() => return Err(interrupted()),
            () = tokio::time::sleep(POLL) => {}
        }
    }
    Ok(())
}
