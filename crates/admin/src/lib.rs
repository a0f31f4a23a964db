#![doc = include_str!("../README.md")]

mod ask;
mod audit;
mod change_log;
mod failures;
mod history;
mod runners;
mod running;
mod statement;
mod stats;
mod waiting_insert;

use uniqueue::Client;

pub use self::ask::{Ask, List};
pub use self::audit::{AuditedKind, SuppressedDuplicate};
pub use self::change_log::LoggedChange;
pub use self::failures::{FailingCode, FailingError, FailingKind};
pub use self::history::{Deploy, History, HistoryPoint, KindHistory, QueueHistory};
pub use self::runners::{QueueRetention, RunnerInfo, RunnerQueue};
pub use self::running::{RunningJobInfo, StuckJob};
pub use self::stats::{Finished, Percentiles, Rates, Stats};
pub use self::waiting_insert::WaitingInsert;

/// The questions and changes of operators in the schema of a client. Cheap to make and to copy.
#[derive(Clone, Copy, Debug)]
pub struct Admin<'a> {
    client: &'a Client,
}

impl<'a> Admin<'a> {
    /// The operators' side of a client's schema.
    #[must_use]
    pub const fn new(client: &'a Client) -> Self {
        Self { client }
    }

    /// The client.
    #[must_use]
    pub const fn client(self) -> &'a Client {
        self.client
    }
}
