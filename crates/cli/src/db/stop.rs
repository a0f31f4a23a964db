//! `uniqueue db stop`.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;

use super::data_dir::{Running, data_dir};
use crate::exit::{Failure, Verdict};
use crate::interrupt::or_interrupted;
use crate::output;

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
    if arguments.json {
        output::print_json(&json!({ "stopped": has_stopped, "data_dir": shown }))?;
    } else if has_stopped {
        output::print_message(&format!("stopped the server of {shown}\n"))?;
    } else {
        output::print_message(&format!("no server runs in {shown}\n"))?;
    }
    Ok(if has_stopped { Verdict::Fine } else { Verdict::NotFine })
}

/// Requests PostgreSQL's fast shutdown. It runs `kill`, because the standard library cannot send signals and `libc` would
/// need `unsafe`.
fn signal(process: &str) -> Result<(), Failure> {
    let hint = "run this as the user who started the server, or as root";
    let problem = || format!("cannot signal the server: process {process}");
    let kill = Command::new("kill").args(["-s", "INT", process]).stdin(Stdio::null()).output();
    let output = kill.map_err(|error| Failure::environment(problem(), hint, error))?;
    if output.status.success() {
        return Ok(());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    Err(Failure::refused(format!("{}: {}", problem(), complaint.trim()), hint))
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
