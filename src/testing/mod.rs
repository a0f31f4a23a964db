//! For the tests of applications that use uniqueue: a database for each test, assertions on what
//! was inserted, workers run inline, and time that passes at once.
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
//! // A database of this test's own, migrated, and gone when it is dropped.
//! let database = testing::Database::new().await?;
//! let client = database.client();
//!
//! // What the code under test would do.
//! let first = client.insert(WelcomeEmail { user_id: 42 }).await?;
//! let again = client.insert(WelcomeEmail { user_id: 42 }).await?;
//!
//! assert_duplicate!(again, of = first);
//! assert_inserted!(database, WelcomeEmail, args = {"user_id": 42}, count = 1);
//!
//! // Works what is there, here and now, and says what became of it.
//! let drained = testing::drain(Runner::new(client.clone()).queue("emails", 1).worker(send)).await?;
//! assert_eq!(drained.completed(), 1);
//! # Ok(()) }
//! ```
//!
//! | to test | use |
//! |---|---|
//! | that code inserts the right jobs | [`Database`], [`assert_inserted!`](crate::assert_inserted), [`assert_not_inserted!`](crate::assert_not_inserted) |
//! | that jobs are unique | [`assert_duplicate!`](crate::assert_duplicate), [`assert_not_duplicate!`](crate::assert_not_duplicate) |
//! | one worker, without a queue | [`work`] |
//! | workers and queue together | [`drain`] |
//! | schedules, retries, and claims that expire | [`advance`] |
//!
//! Nothing has to be set up: without `DATABASE_URL`, the tests of a process share a PostgreSQL that
//! is found on the machine, started by the first and gone after the last (see
//! [`embedded`](crate::embedded)). With it, each test makes a database on that server: see [`Database`]. Use the kit as a
//! development dependency:
//!
//! ```toml
//! [dev-dependencies]
//! uniqueue = { version = "0.1", features = ["testing"] }
//! ```

mod database;
mod drain;
mod duplicate;
mod expectation;
mod macros;
mod server;
mod time;
mod work;

pub use self::database::{Database, DatabaseBuilder};
pub use self::drain::{Drain, Drained, WorkedJob, drain};
pub use self::duplicate::{InsertAnswer, NamesJob};
#[doc(hidden)]
pub use self::duplicate::{check_duplicate, check_not_duplicate};
pub use self::expectation::Expectation;
pub use self::time::{Advanced, advance};
pub use self::work::{Failure, Work, work};
/// For the assertions, which may be used where serde_json is not a dependency.
#[doc(hidden)]
pub use serde_json::json;
