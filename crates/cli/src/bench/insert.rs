//! The jobs that a run inserts, and the check that it inserted them.

use super::failures::wrong;
use super::job::Kind;
use super::statement::Table;
use super::test_database::TestDatabase;
use crate::failure::Failure;

/// How many holders one call inserts before the run.
pub(super) const HOLDERS_BATCH: u64 = 1_000;

/// The jobs to insert, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Insert {
    pub(super) call: Call,
    pub(super) kind: Kind,
    pub(super) n: u64,
    /// Tasks that insert at once. SQL has one for each connection.
    pub(super) tasks: usize,
    pub(super) connections: u32,
    /// A runner that works the jobs meanwhile.
    pub(super) runner: Option<WakeUp>,
}

/// How an idle runner learns of new jobs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum WakeUp {
    Notification,
    Polling,
}

/// How jobs come in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Call {
    /// This many in one call.
    Bulk(u64),
    /// One in each transaction of the caller's, on the caller's connection.
    Transaction,
    /// One in each call, outside of a transaction.
    Single,
}

impl Call {
    /// How many jobs one call inserts.
    pub(super) const fn batch_size(self) -> u64 {
        match self {
            Self::Bulk(size) => size,
            Self::Transaction | Self::Single => 1,
        }
    }
}

/// Checks that the inserts stored as many rows as they should.
pub(super) async fn check(database: &mut TestDatabase, table: Table, insert: Insert) -> Result<(), Failure> {
    let found = database.count(&format!("SELECT count(*) FROM /* schema */{}", table.name())).await?;
    let expected = insert.kind.keys.rows(insert.n);
    if found == expected { Ok(()) } else { Err(wrong(format!("{expected} jobs inserted, {found} stored"))) }
}
