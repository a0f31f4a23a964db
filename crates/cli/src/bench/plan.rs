//! From a workload to the turns that measure it.

use std::time::Duration;

use super::args::BenchArguments;
use super::fill::Fill;
use super::flow::Flow;
use super::insert::{Beside, Inserts, Way};
use super::job::Kind;
use super::turn::{Pair, Turn};
use super::work::{Keep, Works};
use super::workload::Workload;

/// How many keys are hot in insert_duplicate.
const HOT_KEYS: u64 = 100;

/// Jobs in one call of insert_many.
const BULK: u64 = 1_000;

/// A workload at its size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) workload: Workload,
    pub(super) n: u64,
    pub(super) connections: u32,
    /// Those that insert, where there are any.
    pub(super) tasks: Option<usize>,
    pub(super) pair: Pair,
}

/// Every workload that was asked for, in the order of the list.
pub(super) fn plans(arguments: &BenchArguments, workloads: &[Workload]) -> Vec<Plan> {
    let mut plans = Vec::new();
    for workload in workloads {
        if workload.has_tasks() {
            plans.extend(arguments.tasks.iter().map(|tasks| plan(arguments, *workload, usize::from(tasks.get()))));
        } else {
            plans.push(plan(arguments, *workload, connections(arguments, *workload) as usize));
        }
    }
    plans
}

fn connections(arguments: &BenchArguments, workload: Workload) -> u32 {
    arguments.connections.unwrap_or(workload.connections())
}

fn plan(arguments: &BenchArguments, workload: Workload, tasks: usize) -> Plan {
    let n = arguments.n.map_or(workload.n(), u64::from);
    let connections = connections(arguments, workload);
    let insert = |way, keys| {
        let inserts = Inserts { way, kind: Kind { keys, ..Kind::PLAIN }, n, tasks, connections, beside: None };
        Pair { ours: Turn::Insert(inserts), theirs: Some(Turn::BareInsert(inserts)) }
    };
    let plain = Works {
        fill: Some(Fill::waiting(n)),
        n,
        queues: 1,
        connections,
        concurrency: arguments.concurrency,
        keep: Keep::Rows,
        is_snapshot_held: false,
    };
    let against_bare = |works| Pair { ours: Turn::Work(works), theirs: Some(Turn::BareWork(works)) };
    let against_work = |ours| Pair { ours, theirs: Some(Turn::Work(plain)) };
    let pair = match workload {
        Workload::InsertBulk => insert(Way::Bulk(BULK), None),
        Workload::InsertBulkUnique => insert(Way::Bulk(BULK), Some(n)),
        Workload::InsertTx => insert(Way::Tx, None),
        Workload::InsertTxUnique => insert(Way::Tx, Some(n)),
        Workload::InsertNotified => {
            let beside = |beside| {
                let beside = Some(beside);
                Turn::Insert(Inserts { way: Way::Tx, kind: Kind::PLAIN, n, tasks, connections, beside })
            };
            Pair { ours: beside(Beside::Listening), theirs: Some(beside(Beside::Polling)) }
        }
        Workload::InsertSingle => insert(Way::Single, None),
        Workload::InsertUnique => insert(Way::Single, Some(n)),
        Workload::InsertDuplicate => insert(Way::Duplicate, Some(HOT_KEYS.min(n))),
        Workload::Work => against_bare(plain),
        Workload::WorkDelete => against_bare(Works { keep: Keep::Nothing, ..plain }),
        Workload::WorkUnique => against_bare(Works { fill: Some(Fill { keyed: true, ..Fill::waiting(n) }), ..plain }),
        Workload::Latency => Pair { ours: Turn::Latency { n, connections }, theirs: Some(Turn::BareLatency(n)) },
        Workload::WorkBacklog => {
            let fill = Fill::waiting(n + u64::from(arguments.backlog));
            against_work(Turn::Work(Works { fill: Some(fill), ..plain }))
        }
        Workload::WorkHeldSnapshot => against_work(Turn::Work(Works { is_snapshot_held: true, ..plain })),
        Workload::EndToEnd => against_work(Turn::EndToEnd(Flow {
            tasks,
            duration: Duration::from_secs(arguments.duration.into()),
            most: arguments.n.map_or(u64::MAX, u64::from),
            works: Works { fill: None, ..plain },
        })),
    };
    Plan { workload, n, connections, tasks: workload.inserts().then_some(tasks), pair }
}
