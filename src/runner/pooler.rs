//! Finding out, before anything else is done, whether a pooler stands between the runner and the
//! database that gives each transaction another session (PgBouncer's transaction mode).

use super::desk::Desk;
use crate::error::{Error, Result};
use crate::store::{self, Pooling, Statements};

/// Refuses a pooler through which the runner could not work as it is set up. `true`: nothing stands between.
pub(super) async fn check(desk: &Desk, statements: &Statements, is_listening: bool) -> Result<bool> {
    let (mut one, mut other) = tokio::try_join!(desk.connection(), desk.connection())?;
    let looks = desk.answer(store::pooling(&mut one, &mut other, statements)).await;
    let found = one.settle(looks)?;
    other.settle(Ok(()))?;
    let pooler = "it reaches its database through a pooler that gives each transaction another session";
    match found {
        Pooling::Direct => Ok(true),
        Pooling::MixesUp => Err(Error::InvalidRunner {
            problem: format!(
                "{pooler}, and does not keep prepared statements apart\n\
                 hint: PgBouncer does from 1.21 on, with max_prepared_statements above 0"
            ),
        }),
        Pooling::KeepsApart if is_listening => Err(Error::InvalidRunner {
            problem: format!("{pooler}, and would hear no notification\nhint: add .poll_only()"),
        }),
        Pooling::KeepsApart => Ok(false),
    }
}
