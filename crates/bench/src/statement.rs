//! The statements of the counterparts, one file each.

/// The table that SQL works on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Table {
    /// The library's, with its indexes, constraints and generated columns.
    Job,
    /// The one that an application would write by hand.
    Plain,
}

pub(crate) const CREATE_PLAIN_TABLE: &str = include_str!("sql/plain/create.sql");

/// A statement that a counterpart sends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Statement {
    Fill,
    InsertOne,
    InsertOneUnique,
    InsertBulk,
    InsertBulkUnique,
    InsertScheduled,
    Fetch,
    FetchQueues,
    Complete,
    Delete,
}

/// The file of this name for either table.
macro_rules! of {
    ($table:expr, $file:literal) => {
        match $table {
            Table::Job => include_str!(concat!("sql/job/", $file)),
            Table::Plain => include_str!(concat!("sql/plain/", $file)),
        }
    };
}

impl Statement {
    pub(crate) const fn text(self, table: Table) -> &'static str {
        match self {
            Self::Fill => of!(table, "fill.sql"),
            Self::InsertOne => of!(table, "insert_one.sql"),
            Self::InsertOneUnique => of!(table, "insert_one_unique.sql"),
            Self::InsertBulk => of!(table, "insert_bulk.sql"),
            Self::InsertBulkUnique => of!(table, "insert_bulk_unique.sql"),
            Self::InsertScheduled => of!(table, "insert_scheduled.sql"),
            Self::Fetch => of!(table, "fetch.sql"),
            Self::FetchQueues => of!(table, "fetch_queues.sql"),
            Self::Complete => of!(table, "complete.sql"),
            Self::Delete => of!(table, "delete.sql"),
        }
    }
}

impl Table {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Job => "job",
            Self::Plain => "plain_job",
        }
    }
}
