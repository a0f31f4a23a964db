//! For the tests of applications that use uniqueue: a database for each test, assertions on inserted
//! jobs, workers run inline, and time that passes at once.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use uniqueue::{Job, Runner, RunningJob, assert_duplicate, assert_inserted, testing};
//!
//! #[derive(Deserialize, Job, Serialize)]
//! #[job(kind = "email.welcome", queue = "emails")]
//! struct WelcomeEmail {
//!     #[job(unique)]
//!     user_id: u64,
//! }
//!
//! async fn send(job: RunningJob<WelcomeEmail>) -> Result<(), std::io::Error> {
//!     println!("welcome, user {}", job.args.user_id);
//!     Ok(())
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A migrated database of this test's own, which is removed when it is dropped.
//! let database = testing::Database::new().await?;
//! let client = database.client();
//!
//! // The code under test.
//! let first = client.insert(WelcomeEmail { user_id: 42 }).await?;
//! let again = client.insert(WelcomeEmail { user_id: 42 }).await?;
//!
//! assert_duplicate!(again, of = first);
//! assert_inserted!(database, WelcomeEmail, args = {"user_id": 42}, count = 1);
//!
//! // Works the available jobs in this task, and returns the results.
//! let drained = testing::drain(Runner::new(client.clone()).queue("emails", 1).worker(send)).await?;
//! assert_eq!(drained.completed(), 1);
//! # Ok(()) }
//! ```
//!
//! | to test | use |
//! |---|---|
//! | that code inserts the right jobs | [`Database`], [`assert_inserted!`](crate::assert_inserted), [`assert_not_inserted!`](crate::assert_not_inserted) |
//! | that jobs are unique | [`assert_duplicate!`](crate::assert_duplicate), [`assert_not_duplicate!`](crate::assert_not_duplicate) |
//! | that a waiting job covers an insert, or takes its args | [`assert_covered!`](crate::assert_covered), [`assert_updated!`](crate::assert_updated) |
//! | that a rate or a hold lets no job start | [`assert_held_back!`](crate::assert_held_back) |
//! | one worker, without a queue | [`work`], [`work_batch`] |
//! | workers and queue together | [`drain`] |
//! | schedules, retries, and claims that expire | [`advance`] |
//!
//! It needs no setup. Without `DATABASE_URL`, the tests of a process share a PostgreSQL that is found on the machine: the
//! first test starts it, and it is removed after the last (see [`embedded`](crate::embedded)). With `DATABASE_URL`, each
//! test makes a database on that server: see [`Database`]. Add the feature as a development dependency:
//!
//! ```toml
//! [dev-dependencies]
//! uniqueue = { version = "0.1", features = ["testing"] }
//! ```

mod checks;
mod database;
mod drain;
mod expectation;
mod macros;
mod server;
mod time;
mod work;
mod work_batch;

pub use self::checks::{AsJobId, InsertOutcome};
#[doc(hidden)]
pub use self::checks::{check_covered, check_duplicate, check_held_back, check_not_duplicate, check_updated};
pub use self::database::Database;
pub use self::drain::{Drain, Drained, drain};
pub use self::expectation::Expectation;
pub use self::time::{Advanced, advance};
pub use self::work::{Failure, Work, work};
pub use self::work_batch::{WorkBatch, work_batch};
pub use crate::runner::WorkedJob;

/// For the assertions, which do not need serde_json as a dependency of the caller.
#[doc(hidden)]
pub use serde_json::json;
