//! The assertions.

/// Asserts that jobs are in the queue, and returns their rows, oldest first.
///
/// The first argument is a [`testing::Database`](crate::testing::Database) or a [`Client`](crate::Client). The second is
/// the kind: a job type, text, or `_` for any. Further arguments are expected properties, each named as a method of
/// [`Expectation`](crate::testing::Expectation): `queue`, `args`, `meta`, `state`, `priority`, `scheduled_at`,
/// `scheduled_in`, `unique_key`, `group`, `id`, `count`, and `tx` to read inside a transaction that has not committed. `args` and
/// `meta` must be contained in the job's. They can be written as JSON.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use std::time::Duration;
/// use uniqueue::{Job, JobState, assert_inserted, assert_not_inserted, testing};
///
/// #[derive(Deserialize, Job, Serialize)]
/// #[job(kind = "email.send", queue = "emails")]
/// struct SendEmail {
///     to: String,
///     locale: String,
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let database = testing::Database::new().await?;
/// let hour = Duration::from_secs(3600);
/// let email = SendEmail { to: "ada@example.com".into(), locale: "en".into() };
///
/// let mut tx = database.pool().begin().await?;
/// database.client().insert(email).scheduled_in(hour).tx(&mut tx).await?;
/// assert_inserted!(database, SendEmail, tx = &mut tx);
/// assert_not_inserted!(database, SendEmail); // not visible to others yet
/// tx.commit().await?;
///
/// let jobs = assert_inserted!(database, SendEmail, args = {"to": "ada@example.com"}, scheduled_in = hour);
/// assert_eq!(jobs[0].state, JobState::Scheduled);
/// assert_inserted!(database, "email.send", queue = "emails", count = 1);
/// assert_inserted!(database, _, state = JobState::Scheduled, count = 1);
/// # Ok(()) }
/// ```
///
/// It awaits, so it can be used in async code only.
///
/// # Panics
///
/// When no job matches, or another number than `count`. The message shows the jobs in the queue:
///
/// ```text
/// expected at least one job with kind email.send, args containing {"to":"bob@example.com"}; found 0
/// there is one job:
///   email.send in emails, scheduled, args {"to": "ada@example.com", "locale": "en"}, … (differs in args)
/// ```
#[macro_export]
macro_rules! assert_inserted {
    ($source:expr, $($wanted:tt)+) => {
        $crate::__checked!(
            $crate::__expectation!(@first ($crate::testing::Expectation::new(&$source)) $($wanted)+).check().await
        )
    };
}

/// Asserts that no job in the queue matches. Takes the arguments of [`assert_inserted!`](crate::assert_inserted), except
/// `count`.
///
/// ```
/// # use uniqueue::{assert_not_inserted, testing};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let database = testing::Database::new().await?;
/// assert_not_inserted!(database, "email.send", queue = "emails");
/// assert_not_inserted!(database, _); // no job at all
/// # Ok(()) }
/// ```
///
/// # Panics
///
/// When a job matches. The message names it.
#[macro_export]
macro_rules! assert_not_inserted {
    ($source:expr, $($wanted:tt)+) => {{
        $crate::__checked!(
            $crate::__expectation!(@first ($crate::testing::Expectation::new(&$source)) $($wanted)+).count(0).check().await
        );
    }};
}

/// Asserts that an insert was a duplicate, with `of = …` of that job, and returns the holder's id.
///
/// Takes the result of the insert: [`Inserted`](crate::Inserted), or, under `reject`, the `Result` or the error. `of`
/// takes a [`JobId`](crate::JobId), a [`JobRow`](crate::JobRow), or the result of another insert.
///
/// ```
/// # use serde_json::json;
/// # use uniqueue::{NewJob, OnConflict, UniquePolicy, assert_duplicate, assert_not_duplicate, testing};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let database = testing::Database::new().await?;
/// # let client = database.client();
/// let sync = |policy| NewJob::new("sync", &json!({"shop": 7})).unique(policy);
/// let first = client.insert(sync(UniquePolicy::new().by_args())).await?;
/// assert_not_duplicate!(first);
///
/// let again = client.insert(sync(UniquePolicy::new().by_args())).await?;
/// assert_duplicate!(again, of = first);
///
/// let refused = client.insert(sync(UniquePolicy::new().by_args().on_conflict(OnConflict::Reject))).await;
/// assert_duplicate!(refused, of = first);
/// # Ok(()) }
/// ```
///
/// # Panics
///
/// When it was no duplicate, or one of another job. The message says what happened instead.
#[macro_export]
macro_rules! assert_duplicate {
    ($answer:expr $(, of = $first:expr)? $(,)?) => {
        $crate::__holder!(check_duplicate, $answer $(, $first)?)
    };
}

/// Asserts that an insert was covered by a waiting job, with `by = …` by that one, and returns its id. So it is under
/// `run_again`, and for jobs one at a time.
///
/// Takes the results that [`assert_duplicate!`](crate::assert_duplicate) takes.
///
/// ```
/// # use serde_json::json;
/// # use uniqueue::{NewJob, UniquePolicy, assert_covered, testing};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let database = testing::Database::new().await?;
/// # let client = database.client();
/// let rebuild = || NewJob::new("rebuild", &json!({"index": 7})).one_at_a_time(UniquePolicy::new().by_args());
/// let first = client.insert(rebuild()).await?;
/// let again = client.insert(rebuild()).await?;
/// assert_covered!(again, by = first);
/// # Ok(()) }
/// ```
///
/// # Panics
///
/// When it was not covered, or by another job. The message says what happened instead.
#[macro_export]
macro_rules! assert_covered {
    ($answer:expr $(, by = $first:expr)? $(,)?) => {
        $crate::__holder!(check_covered, $answer $(, $first)?)
    };
}

/// Asserts that an insert changed a waiting job in place, with `of = …` that one, and returns its id. So it is under
/// `update`.
///
/// Takes the results that [`assert_duplicate!`](crate::assert_duplicate) takes.
///
/// ```
/// # use serde_json::json;
/// # use uniqueue::{NewJob, OnConflict, UniquePolicy, assert_updated, testing};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let database = testing::Database::new().await?;
/// # let client = database.client();
/// let policy = UniquePolicy::new().by_arg_fields(["order"]).on_conflict(OnConflict::Update);
/// let notify = |state| NewJob::new("notify", &json!({"order": 7, "state": state})).unique(policy.clone());
/// let first = client.insert(notify("packed")).await?;
/// let again = client.insert(notify("shipped")).await?;
/// assert_updated!(again, of = first);
/// # Ok(()) }
/// ```
///
/// # Panics
///
/// When it changed no job, or another one. The message says what happened instead.
#[macro_export]
macro_rules! assert_updated {
    ($answer:expr $(, of = $first:expr)? $(,)?) => {
        $crate::__holder!(check_updated, $answer $(, $first)?)
    };
}

/// Asserts that an insert made a new job. Takes the first argument of [`assert_duplicate!`](crate::assert_duplicate).
///
/// ```
/// # use serde_json::json;
/// # use uniqueue::{NewJob, assert_not_duplicate, testing};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let database = testing::Database::new().await?;
/// let inserted = database.client().insert(NewJob::new("ping", &json!({}))).await?;
/// assert_not_duplicate!(inserted);
/// # Ok(()) }
/// ```
///
/// # Panics
///
/// When it was a duplicate, or failed.
#[macro_export]
macro_rules! assert_not_duplicate {
    ($answer:expr $(,)?) => {
        match $crate::testing::check_not_duplicate(&$answer) {
            ::std::result::Result::Ok(()) => {}
            ::std::result::Result::Err(instead) => ::std::panic!("expected a new job, got {instead}"),
        }
    };
}

/// Asserts that a rate or a hold lets no job of a queue start now, with `group = …` no job of that group, and returns how
/// long it does.
///
/// The first argument is a [`testing::Database`](crate::testing::Database) or a [`Client`](crate::Client), the second the
/// queue's name. A group is held back by its queue as well. A paused queue is not held back, nor one at its limit.
///
/// ```
/// # use std::time::Duration;
/// # use serde::{Deserialize, Serialize};
/// # use uniqueue::{Job, Outcome, QueueChanges, Rate, Runner, RunningJob, assert_held_back, testing};
/// # #[derive(Deserialize, Job, Serialize)]
/// # #[job(kind = "geocode", queue = "geocoding")]
/// # struct Geocode {}
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let database = testing::Database::new().await?;
/// # let client = database.client();
/// let minute = Duration::from_secs(60);
/// client.queue("geocoding").set(QueueChanges::new().rate(Some(Rate::per(1, minute)))).await?;
/// client.insert(Geocode {}).await?;
/// client.insert(Geocode {}).await?;
/// let runner = || Runner::new(client.clone()).queue("geocoding", 5).worker(|_: RunningJob<Geocode>| async {});
/// assert_eq!(testing::drain(runner()).await?.completed(), 1);
/// assert!(assert_held_back!(database, "geocoding") <= minute);
///
/// database.advance(minute).await?;
/// assert_eq!(testing::drain(runner()).await?.completed(), 1);
///
/// client.queue("emails").hold_group("customer:1", minute).await?;
/// assert_held_back!(database, "emails", group = "customer:1");
/// # Ok(()) }
/// ```
///
/// It awaits, so it can be used in async code only.
///
/// # Panics
///
/// When a job may start now, as far as rates and holds go. The message names the queue's rates.
#[macro_export]
macro_rules! assert_held_back {
    ($source:expr, $queue:expr $(, group = $group:expr)? $(,)?) => {
        $crate::__checked!(
            $crate::testing::check_held_back(
                ::std::convert::AsRef::<$crate::Client>::as_ref(&$source),
                ::std::convert::AsRef::<str>::as_ref(&$queue),
                ::std::option::Option::None::<&str>
                    $(.or(::std::option::Option::Some(::std::convert::AsRef::<str>::as_ref(&$group))))?,
            )
            .await
        )
    };
}

/// The value of a check, or a panic with its report.
#[doc(hidden)]
#[macro_export]
macro_rules! __checked {
    ($result:expr) => {
        match $result {
            ::std::result::Result::Ok(found) => found,
            ::std::result::Result::Err(report) => ::std::panic!("{report}"),
        }
    };
}

/// The holder that an insert met, by one of the checks of duplicates.
#[doc(hidden)]
#[macro_export]
macro_rules! __holder {
    ($check:ident, $answer:expr $(, $first:expr)?) => {
        $crate::__checked!($crate::testing::$check(
            &$answer,
            ::std::option::Option::None::<&dyn $crate::testing::AsJobId>$(.or(::std::option::Option::Some(&$first)))?,
        ))
    };
}

/// Reads the arguments of an assertion, one after another.
#[doc(hidden)]
#[macro_export]
macro_rules! __expectation {
    (@first ($expectation:expr) _ $(, $($rest:tt)*)?) => {
        $crate::__expectation!(@rest ($expectation) $($($rest)*)?)
    };
    (@first ($expectation:expr) $kind:literal $(, $($rest:tt)*)?) => {
        $crate::__expectation!(@rest ($expectation.kind($kind)) $($($rest)*)?)
    };
    (@first ($expectation:expr) $name:ident = $($rest:tt)*) => {
        $crate::__expectation!(@rest ($expectation) $name = $($rest)*)
    };
    (@first ($expectation:expr) $job:ty $(, $($rest:tt)*)?) => {
        $crate::__expectation!(@rest ($expectation.kind(<$job as $crate::Job>::KIND)) $($($rest)*)?)
    };
    (@rest ($expectation:expr)) => {
        $expectation
    };
    (@rest ($expectation:expr) $name:ident = { $($json:tt)* } $(, $($rest:tt)*)?) => {
        $crate::__expectation!(@rest ($expectation.$name($crate::testing::json!({ $($json)* }))) $($($rest)*)?)
    };
    (@rest ($expectation:expr) $name:ident = $value:expr $(, $($rest:tt)*)?) => {
        $crate::__expectation!(@rest ($expectation.$name($value)) $($($rest)*)?)
    };
}
