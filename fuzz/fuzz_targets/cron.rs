//! Cron text and time zones: each is refused with a typed error, or is stored as it is.
#![no_main]

mod database;

use libfuzzer_sys::fuzz_target;
use uniqueue::{Error, NewJob, PeriodicJob};

use self::database::DATABASE;

fuzz_target!(|expression: &str| {
    let database = &*DATABASE;
    database.runtime.block_on(async {
        let job = PeriodicJob::cron("p", expression, NewJob::new("k", &())).time_zone("Europe/Berlin");
        match database.client.define_periodic(job).await {
            Ok(()) => {
                let stored = sqlx::query_scalar::<_, String>("SELECT schedule FROM uniqueue.periodic");
                assert_eq!(stored.fetch_one(database.client.pool()).await.expect("a row"), expression);
            }
            Err(error) => assert!(matches!(error, Error::InvalidSchedule { .. }), "{expression:?}: {error}"),
        }
    });
});
