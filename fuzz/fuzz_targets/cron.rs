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
        let periodic = database.client.periodic();
        match periodic.define(job).await {
            Ok(()) => assert_eq!(periodic.list().await.expect("a list")[0].schedule, expression),
            Err(error) => assert!(matches!(error, Error::InvalidSchedule { .. }), "{expression:?}: {error}"),
        }
    });
});
