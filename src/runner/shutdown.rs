//! Ctrl-C and SIGTERM.

/// Resolves when the process is asked to stop: by Ctrl-C, or by SIGTERM where there is one.
///
/// One signal begins the stop; further ones do not hurry it. A runner takes its stop timeout and its
/// grace at most ([`Runner::stop_timeout`](crate::Runner::stop_timeout)).
///
/// Should the operating system refuse to watch a signal, that signal keeps its usual effect.
pub async fn shutdown_signal() {
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
