//! Ctrl-C and SIGTERM.

use uniqueue::shutdown_signal;

use crate::failure::Failure;

/// Runs a command to its end, or until somebody wants it to end: it is then dropped where it stands, and what it leaves
/// is told.
pub(crate) async fn or_interrupted<T>(
    left: impl FnOnce() -> String,
    command: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::select! {
        ended = command => ended,
        () = shutdown_signal() => Err(Failure::Interrupted { left: left() }),
    }
}
