//! The incident that the tests draw.

use std::time::{Duration, Instant};

use super::super::snapshot::{Failing, Group, Key, Queue, Running, Snapshot, Waiting};
use super::super::state::{State, Update};
use crate::queue::Status;

pub(super) const JOB: &str = "019abc12-3456-7def-8a12-3456789abcde";

fn queue(name: &str, depth: u64, oldest: u64) -> Queue {
    Queue {
        name: name.to_owned(),
        status: Status::Waiting,
        limit: None,
        runners: 2,
        depth,
        available: depth.to_string(),
        running: "0".to_owned(),
        scheduled: "12".to_owned(),
        retryable: "3".to_owned(),
        discarded: "0".to_owned(),
        oldest: (depth > 0).then(|| Duration::from_secs(oldest)),
        held_groups: String::new(),
    }
}

/// The incident of docs/operate/doctor.md on the screen.
pub(super) fn incident(depth: u64) -> Snapshot {
    Snapshot {
        clock: "09:14:07 UTC".to_owned(),
        took: Duration::from_millis(12),
        runners: 2,
        inserted: 41.5,
        completed: 38.0,
        failed: 0.4,
        queues: vec![
            Queue { limit: Some(2), ..queue("billing", depth, 740) },
            Queue { running: "18".to_owned(), ..queue("emails", 3, 1) },
            Queue { status: Status::Paused, ..queue("imports", 250, 4_000) },
        ],
        running: vec![
            Running {
                id: JOB.to_owned(),
                kind: "report.build".to_owned(),
                queue: "emails".to_owned(),
                runner: "worker-1".to_owned(),
                is_alive: true,
                running_for: "4m 2s".to_owned(),
                attempt: "1/25".to_owned(),
                progress: "40% of 200".to_owned(),
            },
            Running {
                id: JOB.replace('e', "f"),
                kind: "email.send".to_owned(),
                queue: "emails".to_owned(),
                runner: "worker-3".to_owned(),
                is_alive: false,
                running_for: "31s".to_owned(),
                attempt: "2/5".to_owned(),
                progress: String::new(),
            },
        ],
        failing: vec![Failing {
            kind: "email.send".to_owned(),
            queues: "emails".to_owned(),
            retryable: 3,
            discarded: 1,
            last: "8s ago".to_owned(),
            error: "smtp: connection refused\u{1b}[31m".to_owned(),
            job: JOB.parse().ok(),
        }],
        keys: vec![Key {
            key: "invoice:2026-11".to_owned(),
            kind: "invoice.send".to_owned(),
            state: "available".to_owned(),
            age: "12m 20s".to_owned(),
            frees: "when it is completed, cancelled or discarded".to_owned(),
            holder: JOB.to_owned(),
        }],
        waiting: vec![Waiting {
            pid: 4711,
            application: "shop".to_owned(),
            waiting_for: "9m 58s".to_owned(),
            waits_for: "a key".to_owned(),
            blocker: "4242 deploy, idle in transaction".to_owned(),
            open_for: "12m 22s".to_owned(),
            query: "SELECT * FROM uniqueue.insert_job('report.close')".to_owned(),
        }],
        groups: vec![Group {
            group: "customer:1".to_owned(),
            queue: "emails".to_owned(),
            held_by: "group_limit".to_owned(),
            until: "in 4m 3s".to_owned(),
            running: "3/3".to_owned(),
            waiting: 17,
            oldest: "2m 5s".to_owned(),
            head: JOB.parse().ok(),
        }],
    }
}

/// A state after a few snapshots.
pub(super) fn state_with_history(now: Instant) -> State {
    let mut state = State::new("schema uniqueue".to_owned(), Duration::from_secs(1));
    for depth in [0, 4, 9, 15, 22, 30, 41] {
        let inserted = 30.0 + (depth % 7) as f64 * 3.0;
        state.apply(
            Update::Snapshot(Box::new(Snapshot { inserted, completed: 60.0 - depth as f64, ..incident(depth) })),
            now,
        );
    }
    state
}
