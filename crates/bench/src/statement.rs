//! The statements of the counterparts, one file each.

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

impl Statement {
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Fill => include_str!("sql/fill.sql"),
            Self::InsertOne => include_str!("sql/insert_one.sql"),
            Self::InsertOneUnique => include_str!("sql/insert_one_unique.sql"),
            Self::InsertBulk => include_str!("sql/insert_bulk.sql"),
            Self::InsertBulkUnique => include_str!("sql/insert_bulk_unique.sql"),
            Self::InsertScheduled => include_str!("sql/insert_scheduled.sql"),
            Self::Fetch => include_str!("sql/fetch.sql"),
            Self::FetchQueues => include_str!("sql/fetch_queues.sql"),
            Self::Complete => include_str!("sql/complete.sql"),
            Self::Delete => include_str!("sql/delete.sql"),
        }
    }
}
