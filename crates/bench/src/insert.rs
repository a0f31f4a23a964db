//! The jobs that a run inserts, and the check that it inserted them.

use crate::failure::Failure;
use crate::failures::wrong;
use crate::job::Kind;
use crate::test_database::TestDatabase;

/// How many holders one call inserts before the run.
pub(crate) const HOLDERS_BATCH: u64 = 1_000;

/// The jobs to insert, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Insert {
    pub(crate) call: Call,
    pub(crate) kind: Kind,
    pub(crate) n: u64,
    /// Tasks that insert at once. SQL has one for each connection.
    pub(crate) tasks: usize,
    pub(crate) connections: u32,
    /// A runner that works the jobs meanwhile.
    pub(crate) runner: Option<WakeUp>,
}

/// How an idle runner learns of new jobs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum WakeUp {
    Notification,
    Polling,
}

/// How jobs come in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Call {
    /// This many in one call.
    Bulk(u64),
    /// One in each transaction of the caller's, on the caller's connection.
    Transaction,
    /// One in each call, outside of a transaction.
    Single,
}

impl Call {
    /// How many jobs one call inserts.
    pub(crate) const fn batch_size(self) -> u64 {
        match self {
            Self::Bulk(size) => size,
            Self::Transaction | Self::Single => 1,
        }
    }
}

/// Checks that the inserts stored as many rows as they should.
pub(crate) async fn check(database: &mut TestDatabase, insert: Insert) -> Result<(), Failure> {
    let found = database.count("SELECT count(*) FROM /* schema */job").await?;
    let expected = insert.kind.keys.rows(insert.n);
    if found == expected { Ok(()) } else { Err(wrong(format!("{expected} jobs inserted, {found} stored"))) }
}
