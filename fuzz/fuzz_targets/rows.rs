//! Rows as fetched: a row with any JSON in it is read, or is an error of its own, and never a panic.
#![no_main]

mod database;

use libfuzzer_sys::fuzz_target;
use uniqueue::{JobFilter, JobId};

use self::database::DATABASE;

// Four lines: args, meta, errors, progress.
fuzz_target!(|input: &str| {
    let [args, meta, errors, progress] = input.split('\n').collect::<Vec<_>>()[..] else { return };
    let database = &*DATABASE;
    database.runtime.block_on(async {
        let id = JobId::generate();
        let inserting = sqlx::query(
            "INSERT INTO uniqueue.job (id, kind, args, meta, errors, progress)
             VALUES ($1, 'k', $2::text::jsonb, $3::text::jsonb, $4::text::jsonb, $5::text::jsonb)",
        );
        let inserting = inserting.bind(id.as_uuid()).bind(args).bind(meta).bind(errors).bind(progress);
        // What jsonb, or the table, refuses.
        let Ok(_) = inserting.execute(database.client.pool()).await else { return };
        let one = database.client.job(id).await;
        let listed = database.client.jobs(JobFilter::all()).await;
        assert_eq!(one.is_ok(), listed.is_ok(), "{one:?} {listed:?}");
        if let Ok(job) = one {
            assert_eq!(job.map(|job| job.id), Some(id));
        }
        let deleting = sqlx::query("DELETE FROM uniqueue.job WHERE id = $1").bind(id.as_uuid());
        deleting.execute(database.client.pool()).await.expect("a delete");
    });
});
