//! Detecting a pooler between a client and the database.

use sqlx::{PgConnection, Row};

use crate::error::Result;
use crate::store::{Statements, Store, query};

/// The server session in which a statement runs.
#[derive(Clone, Copy, Debug)]
struct Session {
    id: i32,
    /// Whether a pooler keeps the prepared statements of its clients apart.
    keeps_apart: bool,
}

/// The session that the statement runs in.
impl Store<'_> {
    async fn session(self) -> Result<Session> {
        let row = query(&self.statements.session).fetch_one(self.connection).await?;
        Ok(Session { id: row.try_get("id")?, keeps_apart: row.try_get("keeps_apart")? })
    }
}

/// The pooler between a client and the database.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Pooling {
    /// None that changes sessions.
    Direct,
    /// A pooler that gives each transaction another session, and keeps prepared statements apart.
    KeepsApart,
    /// A pooler that gives each transaction another session, and mixes prepared statements up.
    MixesUp,
}

/// Finds the kind of pooler with two connections that are open at once. Without a pooler each connection keeps a
/// session of its own; any other result means a pooler. A busy pooler can by chance give the result of a direct
/// connection.
pub(crate) async fn pooling(
    one: &mut PgConnection,
    other: &mut PgConnection,
    statements: &Statements,
) -> Result<Pooling> {
    let (mut ones, mut others) = (Vec::new(), Vec::new());
    // Two statements on one before the other: a pooler that assigns two sessions in turn would look like a direct
    // connection.
    for _ in 0..3 {
        ones.push(statements.over(one).session().await?);
        ones.push(statements.over(one).session().await?);
        others.push(statements.over(other).session().await?);
    }
    let (own, others_own) = (ones[0].id, others[0].id);
    let are_apart =
        ones.iter().all(|session| session.id == own) && others.iter().all(|session| session.id == others_own);
    if are_apart && own != others_own {
        return Ok(Pooling::Direct);
    }
    let keeps_apart = ones.iter().chain(&others).all(|session| session.keeps_apart);
    Ok(if keeps_apart { Pooling::KeepsApart } else { Pooling::MixesUp })
}
