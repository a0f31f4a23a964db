//! Keys for queued jobs: claims, collisions, and no lost job under concurrent inserts, runners and operators.

mod at_work;
mod keys;

use uniqueue_admin::BackfillReport;

use support::prelude::*;

fn numbered(n: usize) -> NewJob {
    NewJob::new("a", &json!({"n": n, "noise": "x"}))
}

fn by_n() -> UniquePolicy {
    UniquePolicy::new().by_arg_fields(["n"])
}

/// Jobs without keys, of which every number is there so often.
async fn plain(database: &Database, numbers: usize, times: usize) -> Vec<JobId> {
    let jobs = (0..times).flat_map(|_| (0..numbers).map(numbered));
    database.client.insert_many(jobs).await.unwrap().iter().map(uniqueue::Inserted::id).collect()
}

/// What a report counts, for comparing.
fn counts(report: &BackfillReport) -> [u64; 9] {
    let BackfillReport {
        jobs, unchanged, claimed, unclaimed, other_key, collided, cancelled, unfit, contested, ..
    } = report;
    [*jobs, *unchanged, *claimed, *unclaimed, *other_key, *collided, *cancelled, *unfit, *contested]
}

/// At most one job claims a key anyway; here every key of a job that could claim is claimed, or was until its
/// holder was worked.
async fn no_claim_is_missing(database: &Database) {
    let missing = "SELECT count(*) FROM {schema}.job AS j
        WHERE j.unique_yielded AND NOT EXISTS (
            SELECT FROM {schema}.job AS h
            WHERE h.unique_key = j.unique_key AND (h.claims OR h.finalized_at IS NOT NULL)
        )";
    assert_eq!(database.number(missing).await, 0);
}
