//! Ctrl-C and SIGTERM.

use std::pin::Pin;
use std::time::Duration;

use uniqueue::shutdown_signal;

use crate::exit::{Failure, Verdict};

/// How long a command may take to stop after an interrupt. A command that is blocked writing to a full pipe cannot stop
/// by itself.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// A command that runs. In a box, so that the commands are not compiled into one function.
pub(crate) type CommandFuture<'a, T = Verdict> = Pin<Box<dyn Future<Output = Result<T, Failure>> + 'a>>;

/// Runs a command to its end or until an interrupt. An interrupt drops the command, and `left` says what it leaves.
pub(crate) async fn or_interrupted<T>(
    left: impl FnOnce() -> String,
    command: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    // The command may not stop in time.
    let last_resort = tokio::spawn(async {
        shutdown_signal().await;
        tokio::time::sleep(STOP_TIMEOUT).await;
        std::process::exit(130);
    });
    let command: CommandFuture<'_, T> = Box::pin(command);
    let ended = tokio::select! {
        ended = command => ended,
        () = shutdown_signal() => Err(Failure::Interrupted { left: left() }),
    };
    last_resort.abort();
    ended
}

/// Runs a command that has no end of its own. An interrupt is its end, and no error.
pub(crate) async fn until_interrupted(
    command: impl Future<Output = Result<Verdict, Failure>>,
) -> Result<Verdict, Failure> {
    match or_interrupted(nothing_changed, command).await {
        Err(Failure::Interrupted { .. }) => Ok(Verdict::Fine),
        ended => ended,
    }
}

/// How long a command of a few statements may take. A connection that fell silent would hold it up for ever.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// The same for a command of a few statements, which also ends when the database does not answer.
pub(crate) async fn or_unanswered<T>(
    left: fn() -> String,
    command: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    answered(left, or_interrupted(left, command)).await
}

/// Waits for a few statements, as long as a database that answers may take.
pub(crate) async fn answered<T>(
    left: fn() -> String,
    statements: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    match tokio::time::timeout(ANSWER_TIMEOUT, statements).await {
        Ok(ended) => ended,
        Err(_) => Err(Failure::refused(
            format!("the database did not answer within {ANSWER_TIMEOUT:?}: {}", left()),
            "see whether the connection fell silent, or the server is overloaded",
        )),
    }
}

/// The state that a command leaves that only reads, or that changes everything in one transaction.
pub(crate) fn nothing_changed() -> String {
    "nothing was changed".to_owned()
}

/// The state that a command leaves that may have sent its statement.
pub(crate) fn may_have_changed() -> String {
    "the change may have been made".to_owned()
}
