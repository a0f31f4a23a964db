//! River: the page on its unique jobs, and the hard edges of its client that are not on it.

mod edges;
mod properties;
mod states;

use support::prelude::*;

/// The page's args, with options that every insert of the type inherits.
#[derive(Deserialize, Serialize)]
struct ReconcileAccount {
    account_id: u64,
}

impl Job for ReconcileAccount {
    const KIND: &'static str = "reconcile_account";

    fn options() -> InsertOptions {
        InsertOptions::new().unique(UniquePolicy::river().by_args().window(DAY))
    }
}

/// A `reconcile_account` with these args and options, due in a century, so that no test meets a
/// window's end.
fn reconcile(args: Value, policy: UniquePolicy) -> NewJob {
    NewJob::new("reconcile_account", &args).unique(policy).scheduled_at(datetime!(2126-02-12 15:21 UTC))
}

/// A database, and time for a test of jobs that are due now: a window of this length that is about to end is waited
/// for.
async fn database_early_in(length: Duration) -> Database {
    let database = Database::new().await;
    let now = database.client.database_time().await.expect("the time");
    let left = length - Duration::from_secs(now.unix_timestamp().unsigned_abs() % length.as_secs());
    if left < WAIT {
        tokio::time::sleep(left).await;
    }
    database
}

/// Whether the second of two jobs would be a duplicate of the first.
async fn is_duplicate(database: &Database, first: NewJob, second: NewJob) -> bool {
    database.execute("DELETE FROM {schema}.job").await;
    let first = database.client.insert(first).await.expect("the first");
    let second = database.client.insert(second).await.expect("the second");
    assert!(!first.duplicate);
    assert_eq!(second.duplicate, second.id() == first.id());
    second.duplicate
}
