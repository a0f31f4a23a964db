//! The workloads: their names, their sizes and their targets.

use clap::ValueEnum;

/// A workload, with its line in `--help`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Workload {
    /// insert_many of 1,000 jobs at a time
    InsertBulk,
    /// the same with a unique key each, all different
    InsertBulkUnique,
    /// the same with every second job a duplicate, each of another holder
    InsertBulkHalf,
    /// one insert in each transaction of the caller's
    InsertTx,
    /// the same with a unique key each, all different
    InsertTxUnique,
    /// the same with every second job a duplicate
    InsertTxHalf,
    /// insert_tx while a runner that listens works the jobs
    InsertNotified,
    /// one insert at a time from each of many tasks (--tasks)
    InsertSingle,
    /// the same with a unique key each, all different
    InsertUnique,
    /// the same with every second job a duplicate
    InsertHalf,
    /// the same with all jobs duplicates of 100 others
    InsertDuplicate,
    /// the same with each insert updating one of 10,000 jobs that wait, beside insert_unique
    InsertUpdate,
    /// insert_tx with each insert locking one of 10,000 jobs that wait (run_again), beside ignore
    InsertRunAgain,
    /// jobs that do nothing, worked by one runner
    Work,
    /// the same, deleted at completion
    WorkDelete,
    /// the same with jobs that claim a unique key until they end
    WorkUnique,
    /// the same in many queues (--queues)
    WorkQueues,
    /// the same by runners with few slots, one and several at once (--slots, --runners)
    WorkSlots,
    /// jobs inserted half a second ahead of their time, 1,000 a second (--rate): how late they start
    Scheduled,
    /// from the answer of an insert to the start of its job, in an idle runner
    Latency,
    /// from the end of a job to the start of the job after it, in an idle runner
    Release,
    /// the same while the runner works 10,000 other jobs a second
    ReleaseBusy,
    /// work with many more jobs waiting (--backlog)
    WorkBacklog,
    /// work in many groups that each run one job at a time (--groups)
    WorkGrouped,
    /// the same in order
    WorkInOrder,
    /// work of 100 groups that take fair turns, one with many more jobs (--backlog)
    WorkFair,
    /// work under a rate that is never reached
    WorkRate,
    /// work with many more jobs waiting in groups that are blocked (--backlog, --groups)
    WorkBlocked,
    /// work while another transaction holds an old snapshot
    WorkHeldSnapshot,
    /// many tasks insert one at a time while one runner works (--duration)
    EndToEnd,
}

/// The aim of a workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Target {
    /// Our rate over the counterpart's, at least.
    Ratio(f64),
    /// Milliseconds, at most.
    P99(f64),
}

/// The option of which a workload is measured for several values: one line each.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Series {
    None,
    Tasks,
    Runners,
}

impl Workload {
    /// The name on the command line and in the output.
    pub(crate) const fn name(self) -> &'static str {
        self.facts().0
    }

    /// The counterpart: SQL on the library's table where nothing else is said.
    pub(crate) const fn counterpart(self) -> &'static str {
        self.facts().1
    }

    /// Jobs a run. end_to_end inserts for a time instead; the work that it is compared with has this many jobs.
    pub(crate) const fn n(self) -> u64 {
        self.facts().2
    }

    /// Connections of a pool, and as many for SQL. A runner has its own beside its pool.
    pub(crate) const fn connections(self) -> u32 {
        self.facts().3
    }

    const fn facts(self) -> (&'static str, &'static str, u64, u32) {
        match self {
            Self::InsertBulk => ("insert_bulk", "unnest insert of 1,000", 200_000, 4),
            Self::InsertBulkUnique => ("insert_bulk_unique", "the same, ON CONFLICT DO NOTHING", 100_000, 4),
            Self::InsertBulkHalf => ("insert_bulk_half", "the same, ON CONFLICT DO NOTHING", 100_000, 4),
            Self::InsertTx => ("insert_tx", "one-row INSERT in a transaction", 20_000, 16),
            Self::InsertTxUnique => ("insert_tx_unique", "the same, ON CONFLICT DO NOTHING", 20_000, 16),
            Self::InsertTxHalf => ("insert_tx_half", "the same, ON CONFLICT DO NOTHING", 20_000, 16),
            Self::InsertNotified => ("insert_notified", "our own, with a runner that only polls", 20_000, 16),
            Self::InsertSingle => ("insert_single", "one-row INSERT", 40_000, 16),
            Self::InsertUnique => ("insert_unique", "the same, ON CONFLICT DO NOTHING", 40_000, 16),
            Self::InsertHalf => ("insert_half", "the same, ON CONFLICT DO NOTHING", 40_000, 16),
            Self::InsertDuplicate => ("insert_duplicate", "SELECT by key", 60_000, 16),
            Self::InsertUpdate => ("insert_update", "our own, each with a new key", 40_000, 16),
            Self::InsertRunAgain => ("insert_run_again", "our own, with ignore", 20_000, 16),
            Self::Work => ("work", "fetch 1,000, update 1,000", 500_000, 2),
            Self::WorkDelete => ("work_delete", "fetch 1,000, delete 1,000", 500_000, 2),
            Self::WorkUnique => ("work_unique", "fetch 1,000, update 1,000", 500_000, 2),
            Self::WorkQueues => ("work_queues", "fetch 1,000 of all queues, update 1,000", 200_000, 2),
            Self::WorkSlots => ("work_slots", "a loop a runner: fetch its slots, update them", 30_000, 2),
            Self::Scheduled => ("scheduled", "poll each 20 ms: promote, fetch, update", 10_000, 2),
            Self::Latency => ("latency", "LISTEN, fetch", 250, 2),
            Self::Release => ("release", "none", 200, 4),
            Self::ReleaseBusy => ("release_busy", "our own, idle", 200, 4),
            Self::WorkBacklog => ("work_backlog", "our own work", 500_000, 2),
            Self::WorkGrouped => ("work_grouped", "our own work", 500_000, 2),
            Self::WorkInOrder => ("work_in_order", "our own work", 500_000, 2),
            Self::WorkFair => ("work_fair", "our own work", 500_000, 2),
            Self::WorkRate => ("work_rate", "our own work", 500_000, 2),
            Self::WorkBlocked => ("work_blocked", "our own work", 500_000, 2),
            Self::WorkHeldSnapshot => ("work_held_snapshot", "our own work", 500_000, 2),
            Self::EndToEnd => ("end_to_end", "our own work", 500_000, 2),
        }
    }

    /// Whether the counterpart is the library itself, under other circumstances.
    pub(crate) const fn is_against_itself(self) -> bool {
        matches!(
            self,
            Self::InsertNotified
                | Self::InsertUpdate
                | Self::InsertRunAgain
                | Self::ReleaseBusy
                | Self::WorkBacklog
                | Self::WorkGrouped
                | Self::WorkInOrder
                | Self::WorkFair
                | Self::WorkRate
                | Self::WorkBlocked
                | Self::WorkHeldSnapshot
                | Self::EndToEnd
        )
    }

    pub(crate) const fn series(self) -> Series {
        match self {
            Self::InsertSingle
            | Self::InsertUnique
            | Self::InsertHalf
            | Self::InsertDuplicate
            | Self::InsertUpdate
            | Self::EndToEnd => Series::Tasks,
            Self::WorkSlots => Series::Runners,
            _ => Series::None,
        }
    }

    /// The aim of the workload. `None`: its figures are only reported.
    pub(crate) fn target(self, tasks: Option<usize>) -> Option<Target> {
        let by_tasks = |few, many| match tasks {
            Some(16) => Some(Target::Ratio(few)),
            Some(256) => Some(Target::Ratio(many)),
            _ => None,
        };
        match self {
            Self::InsertBulk | Self::InsertTx | Self::WorkBacklog | Self::WorkBlocked => Some(Target::Ratio(0.9)),
            Self::InsertBulkUnique => Some(Target::Ratio(0.85)),
            Self::InsertBulkHalf | Self::InsertTxHalf | Self::InsertHalf => Some(Target::Ratio(0.8)),
            Self::InsertSingle => by_tasks(1.5, 4.0),
            Self::InsertUnique => by_tasks(1.4, 4.0),
            Self::InsertDuplicate => by_tasks(0.7, 2.0),
            Self::Work | Self::WorkDelete | Self::WorkUnique => Some(Target::Ratio(0.75)),
            Self::WorkHeldSnapshot => Some(Target::Ratio(0.8)),
            Self::WorkGrouped | Self::WorkInOrder | Self::WorkFair | Self::WorkRate => Some(Target::Ratio(0.5)),
            Self::Latency => Some(Target::P99(2.0)),
            Self::Release | Self::ReleaseBusy => Some(Target::P99(100.0)),
            Self::InsertTxUnique | Self::InsertNotified | Self::WorkQueues | Self::WorkSlots => None,
            Self::InsertUpdate | Self::InsertRunAgain | Self::Scheduled | Self::EndToEnd => None,
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

    #[test]
    fn targets_depend_on_the_tasks_where_inserts_share_statements() {
        let ratios = [16, 256].map(|tasks| Workload::InsertUnique.target(Some(tasks)));
        assert_eq!(ratios, [Some(Target::Ratio(1.4)), Some(Target::Ratio(4.0))]);
        assert_eq!(Workload::InsertUnique.target(Some(7)), None);
        assert_eq!(Workload::InsertHalf.target(Some(7)), Some(Target::Ratio(0.8)));
    }
}
