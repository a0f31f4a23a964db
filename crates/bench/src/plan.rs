//! From a workload to the runs that measure it.

use std::time::Duration;

use serde::Serialize;
use uniqueue::OnConflict;

use crate::args::{BenchArguments, Sizes};
use crate::comparison::Comparison;
use crate::end_to_end::EndToEnd;
use crate::fill::{Fill, Groups};
use crate::insert::{Call, Insert, WakeUp};
use crate::job::{Keys, Kind};
use crate::library::release::Releases;
use crate::run::Run;
use crate::scheduled::Schedule;
use crate::work::{Keep, Loops, Runners, Work};
use crate::workload::{Series, Workload};

/// How many jobs hold the keys of insert_duplicate.
const HOLDERS: u64 = 100;

/// How many waiting jobs insert_update and insert_run_again meet.
const CHANGED: u64 = 10_000;

/// The groups of work_fair.
const TENANTS: u32 = 100;

/// The other jobs that release_busy works in each second.
const BESIDE: u32 = 10_000;

/// Jobs in one call of insert_many, and in one fetch of SQL.
const BATCH: u32 = 1_000;

/// A workload at its size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) workload: Workload,
    pub(crate) n: u64,
    pub(crate) connections: u32,
    pub(crate) variant: Variant,
    pub(crate) comparison: Comparison,
}

/// The settings in which the lines of a workload differ.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub(crate) struct Variant {
    /// Tasks that insert at once.
    pub(crate) tasks: Option<usize>,
    pub(crate) runners: Option<u32>,
    /// Jobs that each runner works at once.
    pub(crate) slots: Option<u32>,
}

/// Every workload that was asked for, in the order of the list.
pub(crate) fn plans(arguments: &BenchArguments, workloads: &[Workload]) -> Vec<Plan> {
    let plans = workloads.iter().flat_map(|workload| {
        let variants = variants(&arguments.sizes, workload.series());
        variants.into_iter().map(|variant| Plan::new(&arguments.sizes, *workload, variant))
    });
    plans.collect()
}

fn variants(sizes: &Sizes, series: Series) -> Vec<Variant> {
    let mut variants = Vec::new();
    match series {
        Series::None => variants.push(Variant::default()),
        Series::Tasks => {
            for tasks in &sizes.tasks {
                variants.push(Variant { tasks: Some(usize::from(tasks.get())), ..Variant::default() });
            }
        }
        Series::Runners => {
            for slots in &sizes.slots {
                for runners in &sizes.runners {
                    let (runners, slots) = (Some(u32::from(*runners)), Some(u32::from(slots.get())));
                    variants.push(Variant { tasks: None, runners, slots });
                }
            }
        }
    }
    variants
}

impl Plan {
    fn new(sizes: &Sizes, workload: Workload, variant: Variant) -> Self {
        let n = sizes.n.map_or(workload.n(), u64::from);
        let connections = sizes.connections.unwrap_or(workload.connections());
        let comparison = match workload {
            Workload::InsertBulk => inserts(Call::Bulk(BATCH.into()), Keys::None, n, connections, variant),
            Workload::InsertBulkUnique => {
                inserts(Call::Bulk(BATCH.into()), Keys::Different(n), n, connections, variant)
            }
            Workload::InsertBulkHalf => inserts(Call::Bulk(BATCH.into()), half(n), n, connections, variant),
            Workload::InsertTx => inserts(Call::Transaction, Keys::None, n, connections, variant),
            Workload::InsertTxUnique => inserts(Call::Transaction, Keys::Different(n), n, connections, variant),
            Workload::InsertTxHalf => inserts(Call::Transaction, half(n), n, connections, variant),
            Workload::InsertNotified => notified(n, connections),
            Workload::InsertSingle => inserts(Call::Single, Keys::None, n, connections, variant),
            Workload::InsertUnique => inserts(Call::Single, Keys::Different(n), n, connections, variant),
            Workload::InsertHalf => inserts(Call::Single, half(n), n, connections, variant),
            Workload::InsertDuplicate => inserts(Call::Single, Keys::Held(HOLDERS.min(n)), n, connections, variant),
            Workload::InsertUpdate => {
                let kind = Kind { keys: Keys::Different(n), ..Kind::PLAIN };
                changes(Call::Single, OnConflict::Update, kind, n, connections, variant)
            }
            Workload::InsertRunAgain => {
                let kind = Kind { keys: Keys::Held(CHANGED.min(n)), ..Kind::PLAIN };
                changes(Call::Transaction, OnConflict::RunAgain, kind, n, connections, variant)
            }
            _ => works(sizes, workload, n, connections, variant),
        };
        Self { workload, n, connections, variant, comparison }
    }
}

/// Every second insert meets a holder.
const fn half(n: u64) -> Keys {
    Keys::HalfHeld(n.div_ceil(2))
}

/// Inserts from as many tasks as the variant says, else from one a connection.
fn inserts(call: Call, keys: Keys, n: u64, connections: u32, variant: Variant) -> Comparison {
    let (kind, tasks) = (Kind { keys, ..Kind::PLAIN }, variant.tasks.unwrap_or(connections as usize));
    Comparison::of_inserts(Insert { call, kind, n, tasks, connections, runner: None })
}

/// Inserts that each change a waiting holder, and inserts of another kind.
fn changes(call: Call, on_conflict: OnConflict, other: Kind, n: u64, connections: u32, variant: Variant) -> Comparison {
    let of = |kind| {
        let tasks = variant.tasks.unwrap_or(connections as usize);
        Run::Insert(Insert { call, kind, n, tasks, connections, runner: None })
    };
    let changing = Kind { keys: Keys::Held(CHANGED.min(n)), on_conflict, ..Kind::PLAIN };
    Comparison { ours: of(changing), bare: Some(of(other)) }
}

/// Inserts beside a runner: one that listens, and one that polls.
fn notified(n: u64, connections: u32) -> Comparison {
    let beside = |runner| {
        let (kind, tasks) = (Kind::PLAIN, connections as usize);
        Run::Insert(Insert { call: Call::Transaction, kind, n, tasks, connections, runner: Some(runner) })
    };
    Comparison { ours: beside(WakeUp::Notification), bare: Some(beside(WakeUp::Polling)) }
}

/// The workloads in which jobs are worked.
fn works(sizes: &Sizes, workload: Workload, n: u64, connections: u32, variant: Variant) -> Comparison {
    let work = Work {
        fill: Some(Fill::waiting(n)),
        blocked: None,
        n,
        queues: 1,
        keep: Keep::Rows,
        is_snapshot_held: false,
        runners: Runners { count: 1, slots: sizes.concurrency, connections },
        loops: Loops { connections, batch: BATCH },
    };
    match workload {
        Workload::WorkDelete => Comparison::of_work(Work { keep: Keep::Nothing, ..work }),
        Workload::WorkUnique => {
            Comparison::of_work(Work { fill: Some(Fill { has_keys: true, ..Fill::waiting(n) }), ..work })
        }
        Workload::WorkQueues => {
            let queues = sizes.queues;
            Comparison::of_work(Work { fill: Some(Fill { queues, ..Fill::waiting(n) }), queues, ..work })
        }
        Workload::WorkSlots => {
            let (count, slots) = (variant.runners.unwrap_or(1), variant.slots.unwrap_or(BATCH));
            let runners = Runners { count, slots, connections };
            let loops = Loops { connections: count, batch: slots };
            Comparison::of_work(Work { runners, loops, ..work })
        }
        Workload::Scheduled => {
            let schedule = Schedule { n, rate: sizes.rate, connections, slots: sizes.concurrency };
            let bare = Some(Run::SqlScheduled(schedule, Work { fill: None, ..work }));
            Comparison { ours: Run::Scheduled(schedule), bare }
        }
        Workload::Latency => {
            let bare = Some(Run::SqlLatency(n, Work { fill: None, ..work }));
            Comparison { ours: Run::Latency { n, connections }, bare }
        }
        Workload::Release | Workload::ReleaseBusy => {
            let idle = Releases { n, connections, slots: sizes.concurrency, others: 0 };
            match workload {
                Workload::Release => Comparison { ours: Run::Release(idle), bare: None },
                _ => {
                    let ours = Run::Release(Releases { others: BESIDE, ..idle });
                    Comparison { ours, bare: Some(Run::Release(idle)) }
                }
            }
        }
        Workload::WorkBacklog => {
            let fill = Some(Fill::waiting(n + u64::from(sizes.backlog)));
            Comparison { ours: Run::Work(Work { fill, ..work }), bare: Some(Run::Work(work)) }
        }
        Workload::WorkGrouped => grouped(work, Groups::OneAtATime(sizes.groups), n),
        Workload::WorkInOrder => grouped(work, Groups::InOrder(sizes.groups), n),
        Workload::WorkFair => {
            let backlog = u64::from(sizes.backlog);
            grouped(work, Groups::Fair(TENANTS, backlog), n + backlog)
        }
        Workload::WorkRate => {
            let fill = Some(Fill { is_rated: true, ..Fill::waiting(n) });
            Comparison { ours: Run::Work(Work { fill, ..work }), bare: Some(Run::Work(work)) }
        }
        Workload::WorkBlocked => {
            let groups = Groups::InOrder(sizes.groups);
            let blocked = Some(Fill { first: n, groups, ..Fill::waiting(sizes.backlog.into()) });
            Comparison { ours: Run::Work(Work { blocked, ..work }), bare: Some(Run::Work(work)) }
        }
        Workload::WorkHeldSnapshot => {
            let ours = Run::Work(Work { is_snapshot_held: true, ..work });
            Comparison { ours, bare: Some(Run::Work(work)) }
        }
        Workload::EndToEnd => {
            let end_to_end = EndToEnd {
                tasks: variant.tasks.unwrap_or(1),
                duration: Duration::from_secs(sizes.duration.into()),
                most: sizes.n.map_or(u64::MAX, u64::from),
                work: Work { fill: None, ..work },
            };
            Comparison { ours: Run::EndToEnd(end_to_end), bare: Some(Run::Work(work)) }
        }
        _ => Comparison::of_work(work),
    }
}

/// Work of jobs in groups, beside the same without groups.
fn grouped(work: Work, groups: Groups, count: u64) -> Comparison {
    let fill = Some(Fill { groups, ..Fill::waiting(count) });
    Comparison { ours: Run::Work(Work { fill, ..work }), bare: Some(Run::Work(work)) }
}
