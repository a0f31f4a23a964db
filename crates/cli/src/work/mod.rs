//! `uniqueue work`: a runner that feeds a program in any language.
//!
//! ```text
//! runner ─▶ attempt: one job ─▶ program (one process a job) or line_pool (long-lived processes) ─▶ process
//!              └─▶ answer: what the program said, as the job's outcome
//! ```
//!
//! Each process is the leader of a process group of its own. So Ctrl-C at the terminal reaches only this command, which
//! then stops in order, and a stop reaches the program's own children. The guard ends the groups after a death of this
//! command.

mod answer;
mod attempt;
mod line_pool;
mod process;
mod program;

use std::ffi::OsString;
use std::io::ErrorKind;
use std::num::NonZeroUsize;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use uniqueue::{Kind, QueueName, Runner, WorkerOptions, shutdown_signal};
use uniqueue_admin::KindRow;

use self::attempt::Attempts;
use self::line_pool::LinePool;
use self::process::Program;
use crate::prelude::*;

/// Work jobs with a program in any language.
///
/// The program gets a job as one line of JSON on standard input, with the members of `uniqueue job show --json`. By default
/// it is started for each job. Exit status 0 completes the job. The last line of its standard output, where it is JSON, is
/// the output, or says otherwise: {"error": "…", "retry_after": "5m"}, {"snooze": "1h"}, {"cancel": "why"}. Any other exit
/// status is a failed attempt. Its error is the last line, where that is {"error": …}, else the end of standard error. With --kind, the command fetches only jobs
/// of these kinds.
///
/// ***
///
/// What the program may answer, in the last line of its standard output, besides an output:
///   {"output": JSON}                         completed, for an output that looks like one of the following
///   {"error": TEXT, "retry_after": "5m"}     failed; without retry_after the job waits by the backoff of its registered kind
///   {"error": TEXT, "code": "declined"}     the same with a code, by which jobs are found and counted; also "type": TEXT,
///                                           "details": JSON, and "retryable": false, which discards the job
///   {"snooze": "1h"}                         run it again then; the attempt does not count
///   {"hold_queue": "30s"}                    the same, and nothing of the queue starts until then; or hold_group
///   {"cancel": TEXT}, {"discard": TEXT}      give it up, with the reason; discard also with code, type and details
/// A number instead of "5m" is in seconds. Where a program gives no code, its exit status is the code: exit_3 or signal_9. The
/// code of a job over its time is timed_out.
///
/// With --lines a line answers a job if it has the job's id: {"id": ID} completes the job without an output, and {"id": ID,
/// "output": JSON} with one. The other members above go beside the id as well, and any further member fails the job. Any other
/// line of JSON is passed on as standard error is. A line that is not JSON, or the end of the process, fails the job. After
/// that, and if it writes anything between two jobs, the process is ended and the next job gets a new one.
///
/// UNIQUEUE_JOB_ID, UNIQUEUE_JOB_KIND, UNIQUEUE_JOB_QUEUE and UNIQUEUE_JOB_ATTEMPT are set for a program that is started for
/// one job. Standard error is passed on. A job that is cancelled or over its time is stopped by SIGTERM, and after --grace by
/// SIGKILL. Ctrl-C or SIGTERM ends this command when its jobs have ended, a second one stops them. If this command is killed, a
/// shell that it keeps beside it stops its programs in the same way. That fails where the shell is killed too, where there is
/// no /bin/sh, and for a process that has left its process group or was started in that very moment. With --json each attempt
/// is a line {"job", "kind", "queue", "attempt", "outcome", "seconds", "error", "code"}.
///
/// Examples:
///   uniqueue work --queue mail --kind invoice.send -- python worker.py
///   uniqueue work --queue mail --kind invoice.send --concurrency 8 --timeout 5m --lines -- node worker.js
///   uniqueue work --queue files --kind file.hash -- sh -c 'jq -r .args.path | xargs sha256sum | jq -R .'
///
/// Exit codes:
///   0    stopped by Ctrl-C or SIGTERM
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct WorkArguments {
    /// A queue to work; may be given several times
    #[arg(long = "queue", value_name = "NAME", required = true)]
    queues: Vec<QueueName>,

    /// A kind to work; may be given several times [default: every kind]
    #[arg(long = "kind", value_name = "KIND")]
    kinds: Vec<Kind>,

    /// How many jobs of each queue to run at once
    #[arg(long, value_name = "N", default_value = "1")]
    concurrency: NonZeroUsize,

    /// How long a job may run [default: as its registered kind says, else no limit]
    #[arg(long, value_name = "DURATION")]
    timeout: Option<DurationArgument>,

    /// Keep the processes: feed each one job after another, a line in and an answer out for each
    #[arg(long)]
    lines: bool,

    /// Listen for no notifications, and poll: for PgBouncer in transaction mode
    #[arg(long)]
    poll_only: bool,

    /// Add the parents of each job to its line, with their outputs, as `uniqueue job show --json` has them. It costs one more
    /// statement for each job
    #[arg(long)]
    parents: bool,

    /// The time between SIGTERM and SIGKILL, where a job is to stop
    #[arg(long, value_name = "DURATION", default_value = "5s")]
    grace: DurationArgument,

    /// How long a stop of this command waits for running jobs before it stops them as well
    #[arg(long, value_name = "DURATION", default_value = "25s")]
    stop_timeout: DurationArgument,

    /// The name of the runner [default: uniqueue work and the process id]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// The version of the application, which marks a deploy in the history
    #[arg(long, value_name = "VERSION")]
    app_version: Option<String>,

    #[command(flatten)]
    database: DatabaseArguments,

    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

pub(crate) async fn run(arguments: WorkArguments) -> Result<Verdict, Failure> {
    check_program(Path::new(&arguments.program[0]))?;
    let database = Database::open_migrated(&arguments.database).await?;
    let grace = arguments.grace.0;
    let attempts = Arc::new(Attempts {
        program: Program::new(arguments.program.clone(), grace),
        pool: arguments.lines.then(LinePool::default),
        has_parents: arguments.parents,
        is_json: arguments.database.json,
    });
    let working = Arc::clone(&attempts);
    let work = move |job| {
        let working = Arc::clone(&working);
        async move { working.work(job).await }
    };
    let registered = Admin::new(&database.client).kinds().await?;
    let wanted = |kind: &KindRow| arguments.kinds.is_empty() || arguments.kinds.contains(&kind.name);
    let others = arguments.kinds.iter().filter(|kind| registered.iter().all(|row| row.name != **kind));
    let mut runner = Runner::new(database.client.clone())
        .name(arguments.name.clone().unwrap_or_else(|| format!("uniqueue work {}", std::process::id())))
        // The runner drops what still runs after its grace, so that comes after the kill.
        .stop_grace(grace + Duration::from_secs(1))
        .stop_timeout(arguments.stop_timeout.0)
        .given_flag(arguments.poll_only, Runner::poll_only)
        .given(arguments.app_version.as_ref(), Runner::version)
        .given(arguments.timeout, |runner, timeout| runner.timeout(timeout.0));
    for kind in registered.iter().filter(|kind| wanted(kind)) {
        let timeout = arguments.timeout.map(|timeout| timeout.0).or(kind.timeout);
        let options = WorkerOptions::new().retry_policy(kind.retry_policy()).given(timeout, WorkerOptions::timeout);
        runner = runner.worker_for_with([kind.name.as_str()], work.clone(), options);
    }
    runner = match arguments.kinds.as_slice() {
        [] => runner.worker_for_any(work),
        _ => runner.worker_for(others.map(ToString::to_string), work),
    };
    for queue in &arguments.queues {
        runner = runner.queue(queue.as_str(), arguments.concurrency.get());
    }
    let handle = runner.start().await?;
    if !arguments.database.json {
        output::print_message(&arguments.greeting())?;
    }
    shutdown_signal().await;
    let stopped = handle.stop().await;
    attempts.end().await;
    stopped?;
    Ok(Verdict::Fine)
}

impl WorkArguments {
    fn greeting(&self) -> String {
        let list = |names: Vec<String>| names.join(", ");
        let kinds = match self.kinds.as_slice() {
            [] => "every kind".to_owned(),
            kinds => list(kinds.iter().map(|kind| output::printable(kind.as_str()).into_owned()).collect()),
        };
        format!(
            "working {kinds} of queue {}, {} at once; Ctrl-C stops\n",
            list(self.queues.iter().map(|queue| output::printable(queue.as_str()).into_owned()).collect()),
            output::count(self.concurrency.get() as u64 * self.queues.len() as u64),
        )
    }
}

/// Refuses a program that cannot be started, before a job is fetched for it.
fn check_program(program: &Path) -> Result<(), Failure> {
    let is_executable = |path: PathBuf| match path.metadata() {
        Ok(file) => file.is_file() && file.permissions().mode() & 0o111 != 0,
        Err(error) => error.kind() == ErrorKind::PermissionDenied,
    };
    let found = match program.components().count() > 1 {
        true => is_executable(program.to_owned()),
        false => std::env::var_os("PATH")
            .is_some_and(|path| std::env::split_paths(&path).any(|directory| is_executable(directory.join(program)))),
    };
    match found {
        true => Ok(()),
        false => Err(Failure::refused(
            format!("no such program: {}", program.display()),
            "give the path of an executable file, or a name that is in PATH, after --",
        )),
    }
}
