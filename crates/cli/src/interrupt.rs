//! Ctrl-C and SIGTERM.

use std::time::Duration;

use uniqueue::shutdown_signal;

use crate::failure::Failure;

/// How long a command may take to be dropped. One that is writing to a pager that nobody scrolls on hears nothing.
const PATIENCE: Duration = Duration::from_secs(1);

/// Runs a command to its end, or until somebody wants it to end: it is then dropped where it stands, and what it leaves
/// is told.
pub(crate) async fn or_interrupted<T>(
    left: impl FnOnce() -> String,
    command: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let last_resort = tokio::spawn(async {
        shutdown_signal().await;
        tokio::time::sleep(PATIENCE).await;
        std::process::exit(130);
    });
    let ended = tokio::select! {
        ended = command => ended,
        () = shutdown_signal() => Err(Failure::Interrupted { left: left() }),
    };
    last_resort.abort();
    ended
}
