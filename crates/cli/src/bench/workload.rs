//! The workloads: what they are called, how large they are, and what they should reach.

use clap::ValueEnum;

/// What is measured.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(super) enum Workload {
    /// insert_many of 1,000 jobs at a time
    InsertBulk,
    /// the same with a unique key each, all different
    InsertBulkUnique,
    /// one insert in each transaction of the caller's
    InsertTx,
    /// the same with a unique key each, all different
    InsertTxUnique,
    /// insert_tx while a runner that listens works the jobs
    InsertNotified,
    /// one insert at a time from each of many tasks
    InsertSingle,
    /// the same with a unique key each, all different
    InsertUnique,
    /// inserts that are all duplicates of 100 jobs
    InsertDuplicate,
    /// jobs that do nothing, worked by one runner
    Work,
    /// the same, deleted at completion
    WorkDelete,
    /// the same with jobs that claim a unique key until they end
    WorkUnique,
    /// from the answer of an insert to the start of its job, in an idle runner
    Latency,
    /// work with many more jobs waiting
    WorkBacklog,
    /// work while somebody keeps an old snapshot open
    WorkHeldSnapshot,
    /// many tasks insert one at a time while one runner works
    EndToEnd,
}

/// What a workload should reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Target {
    /// So many times the counterpart's rate.
    Ratio(f64),
    /// Milliseconds from commit to start.
    Latency { p50: f64, p99: f64 },
}

impl Workload {
    /// What it is called on the command line and in the output.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::InsertBulk => "insert_bulk",
            Self::InsertBulkUnique => "insert_bulk_unique",
            Self::InsertTx => "insert_tx",
            Self::InsertTxUnique => "insert_tx_unique",
            Self::InsertNotified => "insert_notified",
            Self::InsertSingle => "insert_single",
            Self::InsertUnique => "insert_unique",
            Self::InsertDuplicate => "insert_duplicate",
            Self::Work => "work",
            Self::WorkDelete => "work_delete",
            Self::WorkUnique => "work_unique",
            Self::Latency => "latency",
            Self::WorkBacklog => "work_backlog",
            Self::WorkHeldSnapshot => "work_held_snapshot",
            Self::EndToEnd => "end_to_end",
        }
    }

    /// Who it takes turns with.
    pub(super) const fn counterpart(self) -> &'static str {
        match self {
            Self::InsertBulk => "unnest insert of 1,000",
            Self::InsertBulkUnique => "the same, ON CONFLICT DO NOTHING",
            Self::InsertTx => "one-row INSERT in a transaction",
            Self::InsertTxUnique => "the same, ON CONFLICT DO NOTHING",
            Self::InsertNotified => "our own, with a runner that only polls",
            Self::InsertSingle => "one-row INSERT",
            Self::InsertUnique => "the same, ON CONFLICT DO NOTHING",
            Self::InsertDuplicate => "SELECT by key",
            Self::Work | Self::WorkUnique => "fetch 1,000, update 1,000",
            Self::WorkDelete => "fetch 1,000, delete 1,000",
            Self::Latency => "LISTEN, fetch",
            Self::WorkBacklog | Self::WorkHeldSnapshot | Self::EndToEnd => "our own work",
        }
    }

    /// Jobs a round. end_to_end inserts for a time instead; this many jobs has the work that it takes turns with.
    pub(super) const fn n(self) -> u64 {
        match self {
            Self::InsertBulk => 200_000,
            Self::InsertBulkUnique => 100_000,
            Self::InsertTx | Self::InsertTxUnique | Self::InsertNotified => 20_000,
            Self::InsertSingle | Self::InsertUnique => 40_000,
            Self::InsertDuplicate => 60_000,
            Self::Work | Self::WorkDelete | Self::WorkUnique => 500_000,
            Self::WorkBacklog | Self::WorkHeldSnapshot | Self::EndToEnd => 500_000,
            Self::Latency => 250,
        }
    }

    /// Connections: those of the pool, and as many for plain SQL. A runner has its own beside its pool.
    pub(super) const fn connections(self) -> u32 {
        match self {
            Self::InsertBulk | Self::InsertBulkUnique => 4,
            Self::InsertTx | Self::InsertTxUnique | Self::InsertNotified => 16,
            Self::InsertSingle | Self::InsertUnique | Self::InsertDuplicate => 16,
            Self::Work | Self::WorkDelete | Self::WorkUnique => 2,
            Self::WorkBacklog | Self::WorkHeldSnapshot | Self::Latency | Self::EndToEnd => 2,
        }
    }

    /// Whether tasks insert in it.
    pub(super) const fn inserts(self) -> bool {
        match self {
            Self::InsertBulk | Self::InsertBulkUnique => true,
            Self::InsertTx | Self::InsertTxUnique | Self::InsertNotified => true,
            Self::InsertSingle | Self::InsertUnique | Self::InsertDuplicate | Self::EndToEnd => true,
            Self::Work | Self::WorkDelete | Self::WorkUnique | Self::WorkBacklog | Self::WorkHeldSnapshot => false,
            Self::Latency => false,
        }
    }

    /// Whether it is measured for several numbers of tasks.
    pub(super) const fn has_tasks(self) -> bool {
        matches!(self, Self::InsertSingle | Self::InsertUnique | Self::InsertDuplicate | Self::EndToEnd)
    }

    /// What it should reach, where something is laid down for it.
    pub(super) const fn target(self, tasks: Option<usize>) -> Option<Target> {
        match self {
            Self::InsertBulk | Self::InsertBulkUnique | Self::InsertTx | Self::WorkBacklog => Some(Target::Ratio(0.9)),
            Self::InsertSingle | Self::InsertUnique => match tasks {
                Some(16) => Some(Target::Ratio(1.5)),
                Some(256) => Some(Target::Ratio(4.0)),
                _ => None,
            },
            Self::InsertTxUnique => None,
            Self::InsertNotified => Some(Target::Ratio(0.95)),
            Self::InsertDuplicate => Some(Target::Ratio(1.0)),
            Self::Work | Self::WorkDelete | Self::WorkUnique | Self::WorkHeldSnapshot => Some(Target::Ratio(0.8)),
            Self::Latency => Some(Target::Latency { p50: 0.8, p99: 2.0 }),
            Self::EndToEnd => match tasks {
                Some(16) => Some(Target::Ratio(0.5)),
                _ => None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_command_line() {
        for workload in Workload::value_variants() {
            assert_eq!(
                workload.to_possible_value().map(|value| value.get_name().to_owned()).as_deref(),
                Some(workload.name())
            );
        }
    }
}
