//! Finding out, before anything else is done, whether a pooler stands between the runner and the
//! database that gives each transaction another session (PgBouncer's transaction mode).
//!
//! Without one, two connections are two sessions for as long as they live. Any other answer is a
//! pooler's. A busy pooler could by chance answer as if it were none; then nothing is refused.

use super::desk::Desk;
use crate::error::{Error, Result};
use crate::store::{self, Statements};

/// Refuses a pooler through which the runner could not work as it is set up.
pub(super) async fn check(desk: &Desk, statements: &Statements, is_listening: bool) -> Result<()> {
    let (mut one, mut other) = (desk.connection().await?, desk.connection().await?);
    let looks = async {
        let (mut ones, mut others) = (Vec::new(), Vec::new());
        // Twice on one before the other, or a pooler that hands out two sessions in turn would seem none.
        for _ in 0..3 {
            ones.push(store::session(&mut one, statements).await?);
            ones.push(store::session(&mut one, statements).await?);
            others.push(store::session(&mut other, statements).await?);
        }
        Ok((ones, others))
    };
    let looks = desk.answer(looks).await;
    let (ones, others) = one.settle(looks)?;
    other.settle(Ok(()))?;
    let (own, others_own) = (ones[0].id, others[0].id);
    let are_apart = ones.iter().all(|look| look.id == own) && others.iter().all(|look| look.id == others_own);
    if are_apart && own != others_own {
        return Ok(());
    }
    let pooler = "it reaches its database through a pooler that gives each transaction another session";
    if !ones.iter().chain(&others).all(|look| look.keeps_apart) {
        return Err(Error::InvalidRunner {
            problem: format!(
                "{pooler}, and does not keep prepared statements apart\n\
                 hint: PgBouncer does from 1.21 on, with max_prepared_statements above 0"
            ),
        });
    }
    if is_listening {
        return Err(Error::InvalidRunner {
            problem: format!("{pooler}, and would hear no notification\nhint: add .poll_only()"),
        });
    }
    Ok(())
}
