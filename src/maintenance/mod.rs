//! What keeps the table in order while runners work. One small service each, all with the same
//! contract: a service is asked to run once, says whether there is more to do at once, and is
//! asked again after its interval. An error is logged and costs one interval.
//!
//! Services share a connection of the runner's own, never on the application's pool, so that a
//! full pool cannot stall them. Each statement takes small batches and skips what others have
//! locked, so that any number of runners may run them at the same time.

mod promoter;
mod pruner;
mod rescuer;

use std::future::Future;
use std::time::Duration;

use sqlx::{PgConnection, PgPool};
use tokio_util::sync::CancellationToken;

pub(crate) use self::promoter::Promoter;
pub(crate) use self::pruner::Pruner;
pub use self::pruner::Retention;
pub(crate) use self::rescuer::Rescuer;

use crate::error::Result;
use crate::store::Statements;

/// How many rows a service takes in one statement.
const BATCH: i64 = 1_000;

/// A maintenance service.
pub(crate) trait Service: Send {
    /// For the log.
    const NAME: &'static str;

    /// The wait between two runs.
    fn interval(&self) -> Duration;

    /// Runs once. `true`: there is more to do at once.
    fn run_once(
        &mut self,
        connection: &mut PgConnection,
        statements: &Statements,
    ) -> impl Future<Output = Result<bool>> + Send;
}

/// Runs a service until stopped.
pub(crate) async fn run<S: Service>(mut service: S, control: PgPool, statements: Statements, stop: CancellationToken) {
    while !stop.is_cancelled() {
        // Each statement is atomic, so it may be dropped in its middle.
        let ran = tokio::select! {
            () = stop.cancelled() => return,
            ran = run_on(&mut service, &control, &statements) => ran,
        };
        let has_more = match ran {
            Ok(has_more) => has_more,
            Err(error) => {
                tracing::warn!(service = S::NAME, %error, "maintenance failed, trying again later");
                false
            }
        };
        if has_more {
            continue;
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(service.interval()) => {}
        }
    }
}

async fn run_on<S: Service>(service: &mut S, control: &PgPool, statements: &Statements) -> Result<bool> {
    let mut connection = control.acquire().await?;
    service.run_once(&mut connection, statements).await
}
