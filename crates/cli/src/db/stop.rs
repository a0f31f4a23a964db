//! `uniqueue db stop`.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;

use super::data_dir::{Running, data_dir};
use crate::Verdict;
use crate::failure::Failure;
use crate::interrupt::or_interrupted;
use crate::output;

/// How often one looks whether the server is gone.
const WATCH_INTERVAL: Duration = Duration::from_millis(20);

/// How long the checkpoint of a large data directory may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// Stop the server that `uniqueue db start` runs in another terminal.
///
/// Open connections are closed, the data stay, and the command in the other terminal ends with exit code 0.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StopArguments {
    /// Where the server has its data [default: as `uniqueue db start`]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    /// Print one JSON object instead of text: {"stopped": true, "data_dir": …}
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  uniqueue db stop
  uniqueue db stop --data-dir ./pgdata

Exit codes:
  0    stopped
  1    no server runs there
  2    a wrong command line, or a server that does not stop
  130  interrupted by Ctrl-C or SIGTERM before the end";

/// Stops a server and waits for its end.
pub(super) async fn stop(arguments: StopArguments) -> Result<Verdict, Failure> {
    let data_dir = data_dir(arguments.data_dir)?;
    let left = || "the server may be stopping".to_owned();
    let has_stopped = or_interrupted(left, async {
        let Some(running) = Running::read(&data_dir)? else { return Ok(false) };
        running.check().await?;
        signal(&running.process)?;
        gone(&data_dir, &running.process).await?;
        Ok(true)
    });
    let has_stopped = has_stopped.await?;
    let shown = data_dir.display().to_string();
    if arguments.json {
        output::print_json(&json!({ "stopped": has_stopped, "data_dir": shown }))?;
    } else if has_stopped {
        output::print(&format!("stopped the server of {shown}\n"))?;
    } else {
        output::print(&format!("no server runs in {shown}\n"))?;
    }
    Ok(if has_stopped { Verdict::Fine } else { Verdict::NotFine })
}

/// Asks for PostgreSQL's fast stop, with the command, since the standard library cannot and `libc` would need `unsafe`.
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

/// Resolves when the server has removed its status file, the last thing that it does.
async fn gone(data_dir: &std::path::Path, process: &str) -> Result<(), Failure> {
    let begun_at = Instant::now();
    while begun_at.elapsed() < PATIENCE {
        // Another process may be the next server already.
        match Running::read(data_dir) {
            Ok(Some(running)) if running.process == process => {}
            _ => return Ok(()),
        }
        tokio::time::sleep(WATCH_INTERVAL).await;
    }
    let problem = format!("the server has not stopped within {PATIENCE:?}: {}", data_dir.display());
    Err(Failure::refused(problem, "see server.log there; it may still be writing its checkpoint"))
}
