//! `uniqueue db stop`.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::data_dir::{Running, data_dir};
use crate::exit::{Failure, Verdict};
use crate::interrupt::or_interrupted;
use crate::output::Form;

/// How often the command checks whether the server has stopped.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// How long a stop may take. The checkpoint of a large data directory takes most of it.
const STOP_TIMEOUT: Duration = Duration::from_secs(120);

/// Stop the server that `uniqueue db start` runs in another terminal.
///
/// It closes open connections and keeps the data. The command in the other terminal ends with exit code 0.
///
/// Examples:
///   uniqueue db stop
///   uniqueue db stop --data-dir ./pgdata
///
/// Exit codes:
///   1    no server runs there
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct StopArguments {
    /// The server's data directory [default: that of `uniqueue db start`]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    /// Print one JSON object instead of text: {"stopped": true, "data_dir": …}
    #[arg(long)]
    json: bool,
}

/// Stops a server and waits until it has stopped.
pub(super) async fn stop(arguments: StopArguments) -> Result<Verdict, Failure> {
    let data_dir = data_dir(arguments.data_dir)?;
    let left = || "the server may be stopping".to_owned();
    let has_stopped = or_interrupted(left, async {
        let Some(running) = Running::read(&data_dir)? else { return Ok(false) };
        running.check().await?;
        signal(&running.process)?;
        wait_for_end(&data_dir, &running.process).await?;
        Ok(true)
    });
    let has_stopped = has_stopped.await?;
    let shown = data_dir.display().to_string();
    let (verdict, said) = match has_stopped {
        true => (Verdict::Fine, format!("stopped the server of {shown}\n")),
        false => (Verdict::NotFine, format!("no server runs in {shown}\n")),
    };
    let stopped = json!({ "stopped": has_stopped, "data_dir": shown });
    Form::of_one(arguments.json).message(&stopped, said)?.verdict(verdict).print()
}

/// Requests PostgreSQL's fast shutdown.
fn signal(process: &str) -> Result<(), Failure> {
    let process_id = process.parse().ok().and_then(Pid::from_raw).ok_or(Errno::SRCH);
    process_id.and_then(|id| kill_process(id, Signal::INT)).map_err(|error| {
        let hint = "run this as the user who started the server, or as root";
        Failure::environment(format!("cannot signal the server: process {process}"), hint, error.into())
    })
}

/// Returns when the server has removed its status file, which is its last step.
async fn wait_for_end(data_dir: &std::path::Path, process: &str) -> Result<(), Failure> {
    let begun_at = Instant::now();
    while begun_at.elapsed() < STOP_TIMEOUT {
        // Another process means that the next server has started already.
        match Running::read(data_dir) {
            Ok(Some(running)) if running.process == process => {}
            _ => return Ok(()),
        }
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
    let problem = format!("the server has not stopped within {STOP_TIMEOUT:?}: {}", data_dir.display());
    Err(Failure::refused(problem, "see server.log there; it may still be writing its checkpoint"))
}
