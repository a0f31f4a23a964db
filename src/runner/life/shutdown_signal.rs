//! The signals that ask a process to stop.

use std::sync::atomic::{AtomicBool, Ordering};

/// Resolves when the process is asked to stop: by Ctrl-C, or by SIGTERM where there is one.
///
/// One signal begins the stop. A runner then takes its stop timeout and its grace at most
/// ([`Runner::stop_timeout`](crate::Runner::stop_timeout)). A second signal ends the stop timeout: jobs that still run are
/// given back.
///
/// Should the operating system refuse to watch a signal, that signal keeps its usual effect.
pub async fn shutdown_signal() {
    HAS_WATCHED.store(true, Ordering::Relaxed);
    let interrupt = async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = interrupt => {}
        () = terminate() => {}
    }
}

/// Whether the process has watched for signals. Watching for them takes their usual effect away, so a runner does not begin it.
static HAS_WATCHED: AtomicBool = AtomicBool::new(false);

/// Resolves at the next signal, in a process that has watched for signals before.
pub(in crate::runner) async fn further_signal() {
    match HAS_WATCHED.load(Ordering::Relaxed) {
        true => shutdown_signal().await,
        false => std::future::pending().await,
    }
}

#[cfg(unix)]
async fn terminate() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => {
            terminate.recv().await;
        }
        Err(_) => std::future::pending().await,
    }
}

#[cfg(not(unix))]
async fn terminate() {
    std::future::pending().await
}
