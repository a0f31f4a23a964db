//! `uniqueue job wait`, and the result of `uniqueue job insert --wait`.

use uniqueue::Waited;

use crate::prelude::*;

/// Wait until a job is final, and print its result.
///
/// ***
///
/// It prints the output of a completed job, and the state and last error of another. With --json it prints {"waited", "job"};
/// waited is final, gone or timed_out.
///
/// Examples:
///   uniqueue job wait 019abc12-3456-7def-8a12-3456789abcde --timeout 30s
///   uniqueue job insert report.build --args @report.json --wait 1m
///
/// Exit codes:
///   0    the job completed
///   1    the job was cancelled, discarded or deleted, or the time was over
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(super) struct WaitArguments {
    /// The job
    #[arg(value_name = "ID")]
    id: JobId,

    /// How long to wait at most, such as 30s [default: without a limit]
    #[arg(long, value_name = "DURATION")]
    timeout: Option<DurationArgument>,
}

/// Waits for a job and prints its result.
pub(super) async fn run(arguments: WaitArguments, database: &DatabaseArguments) -> Result<Verdict, Failure> {
    let WaitArguments { id, timeout } = arguments;
    let question = async |client: &Client, form: Form| {
        let waited = client.wait(id).given(timeout, |wait, DurationArgument(timeout)| wait.timeout(timeout)).await?;
        let result = json!({ "waited": name(&waited), "job": waited.job() });
        Ok(form.object(&result, |_| text(id, &waited))?.verdict(verdict(&waited)))
    };
    Database::open_to_insert(database).await?.ask(database, question).await
}

/// The result for people.
pub(super) fn text(id: JobId, waited: &Waited) -> String {
    match waited {
        Waited::Final(job) => format!("{}\n", printable(&end(job))),
        Waited::Gone => format!("job {id} does not exist: it was deleted, or never inserted\n"),
        _ => format!("job {id} is not final yet: the time was over\n"),
    }
}

fn end(job: &JobRow) -> String {
    let JobRow { id, state, .. } = job;
    match (state, &job.output, job.replaced_by, job.errors.last()) {
        (JobState::Completed, Some(output), ..) => format!("job {id} completed: {output}"),
        (JobState::Completed, None, ..) => format!("job {id} completed"),
        (_, _, Some(successor), _) => format!("job {id} was {state}: job {successor} replaced it"),
        (_, _, None, Some(error)) => format!("job {id} was {state}: {}", error.error),
        (_, _, None, None) => format!("job {id} was {state}"),
    }
}

/// The result's name in JSON.
pub(super) const fn name(waited: &Waited) -> &'static str {
    match waited {
        Waited::Final(_) => "final",
        Waited::Gone => "gone",
        _ => "timed_out",
    }
}

/// Only a completed job is fine.
pub(super) fn verdict(waited: &Waited) -> Verdict {
    match waited.job() {
        Some(job) if job.state == JobState::Completed => Verdict::Fine,
        _ => Verdict::NotFine,
    }
}
