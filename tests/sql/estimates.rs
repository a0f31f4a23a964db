//! Counts of queues beyond the limit of counting.

use uniqueue::{JobCount, JobState};

use support::Database;

#[support::test]
async fn jobs_beyond_the_limit_of_counting_are_estimated_from_a_sample_of_the_table(database: Database) {
    let completed = "INSERT INTO {schema}.job (id, kind, queue, state, finalized_at)
        SELECT {schema}.new_job_id(), 'a', CASE WHEN n % 10 < 6 THEN 'deep' ELSE 'low' END, 'completed', now()
        FROM generate_series(1, 100000) AS n";
    database.execute(completed).await;
    let available = "INSERT INTO {schema}.job (id, kind, queue)
        SELECT {schema}.new_job_id(), 'a', 'deep' FROM generate_series(1, 12000)";
    database.execute(available).await;
    let queues = database.client.queues().await.unwrap();
    let [deep, low] = queues.as_slice() else { panic!("{queues:?}") };
    for (count, jobs) in [(deep.available, 12_000), (deep.completed, 60_000), (low.completed, 40_000)] {
        let JobCount::About(estimate) = count else { panic!("{count:?} of {jobs}") };
        assert!((jobs / 2..jobs * 2).contains(&estimate), "{estimate} of {jobs}");
    }
    // A count that was complete is no estimate.
    assert_eq!(low.available, JobCount::Exactly(0));
    let stats = database.client.stats().await.unwrap();
    assert_eq!(stats.jobs[&JobState::Completed], JobCount::About(deep.completed.counted() + low.completed.counted()));
}
