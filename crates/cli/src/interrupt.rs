//! Ctrl-C and SIGTERM.

use std::time::Duration;

use uniqueue::shutdown_signal;

use crate::failure::Failure;

/// How long a command may take to stop after an interrupt. A command that is blocked writing to a full pipe cannot stop
/// by itself.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs a command to its end or until an interrupt. An interrupt drops the command, and `left` says what it leaves.
pub(crate) async fn or_interrupted<T>(
    left: impl FnOnce() -> String,
    command: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let last_resort = tokio::spawn(async {
        shutdown_signal().await;
        tokio::time::sleep(STOP_TIMEOUT).await;
        std::process::exit(130);
    });
    let ended = tokio::select! {
        ended = command => ended,
        () = shutdown_signal() => Err(Failure::Interrupted { left: left() }),
    };
    last_resort.abort();
    ended
}

/// What is left by a command that only reads, or that changes everything in one transaction.
pub(crate) fn nothing_changed() -> String {
    "nothing was changed".to_owned()
}

/// What is left by a command that may have sent its statement.
pub(crate) fn may_have_changed() -> String {
    "the change may have been made".to_owned()
}
