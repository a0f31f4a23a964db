//! Jobs: the [`Job`] trait for typed args, [`NewJob`] to insert, [`JobRow`] as stored.

use std::borrow::Cow;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::unique::{Duplicate, StateSet, UniqueKey};
use crate::words::after::{AfterCondition, CallMark, Parent};
use crate::words::attempt_error::AttemptError;
use crate::words::ident::{JobId, Kind, QueueName};
use crate::words::opts::{InsertOptions, insert_setters};
use crate::words::state::JobState;

/// The args of a kind of job. Usually derived:
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use uniqueue::Job;
///
/// #[derive(Serialize, Deserialize, Job)]
/// #[job(kind = "email.send", queue = "emails", max_attempts = 5)]
/// struct SendEmail {
///     #[job(unique)]
///     user_id: u64,
///     template: String,
/// }
/// ```
///
/// By hand, a key can be any function of the args:
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use uniqueue::{Job, UniqueKey};
///
/// #[derive(Serialize, Deserialize)]
/// struct SendWelcomeEmail {
///     user_id: u64,
/// }
///
/// impl Job for SendWelcomeEmail {
///     const KIND: &'static str = "send_welcome_email";
///
///     fn unique_key(&self) -> Option<UniqueKey> {
///         Some(UniqueKey::tagged_hash_of(Self::KIND, &self.user_id))
///     }
/// }
/// ```
pub trait Job: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The job's type name, 1 to 128 bytes. It is stored with every job, so keep it stable.
    const KIND: &'static str;

    /// The options of this kind. A call's options come before these, these before the client's. An id
    /// among them is ignored, since it can belong to one job only.
    fn options() -> InsertOptions {
        InsertOptions::new()
    }

    /// A key made from the args. Comes before a policy in [`Job::options`]; a call's own key or
    /// policy comes before this. Default: none.
    fn unique_key(&self) -> Option<UniqueKey> {
        None
    }
}

/// A job to insert: kind, args and options. Made from any [`Job`], or by name.
///
/// ```
/// use serde_json::json;
/// use uniqueue::{NewJob, UniqueKey};
///
/// let job = NewJob::new("send_email", &json!({"user_id": 42}))
///     .queue("emails")
///     .unique_key(UniqueKey::raw("send_email:42"));
/// # let _ = job;
/// ```
///
/// The insert reports an invalid kind, or args that do not serialise. What it leaves out has the defaults of the client. To
/// take it from the registered kind, pass the job through [`Client::fill_in`](crate::Client::fill_in) first.
#[derive(Clone, Debug)]
#[must_use = "a job does nothing until it is inserted"]
pub struct NewJob {
    /// Borrowed if the job comes from a type that implements [`Job`]. Owned if it is made by name: then a periodic job, and an
    /// insert over places, take options that are left out from the registered kind.
    pub(crate) kind: Cow<'static, str>,
    /// JSON text, or the error of its serialisation.
    pub(crate) args: Result<Box<RawValue>, String>,
    pub(crate) options: InsertOptions,
    /// The jobs that it runs after.
    pub(crate) parents: Vec<(Parent, AfterCondition)>,
    pub(crate) mark: CallMark,
    /// Whether its id was made for it just now, so that no job has it.
    pub(crate) has_new_id: bool,
}

impl NewJob {
    /// A job of the named kind. `args` is anything that serialises to JSON.
    pub fn new(kind: impl Into<String>, args: &(impl Serialize + ?Sized)) -> Self {
        Self::of(Cow::Owned(kind.into()), args)
    }

    fn of(kind: Cow<'static, str>, args: &(impl Serialize + ?Sized)) -> Self {
        let args = serde_json::value::to_raw_value(args).map_err(|error| error.to_string());
        Self::with_args(kind, args)
    }

    /// A job of the named kind, with args that are JSON text already. The text is stored as it is.
    pub fn from_json(kind: impl Into<String>, args: Box<RawValue>) -> Self {
        Self::with_args(Cow::Owned(kind.into()), Ok(args))
    }

    fn with_args(kind: Cow<'static, str>, args: Result<Box<RawValue>, String>) -> Self {
        Self {
            kind,
            args,
            options: InsertOptions::new(),
            parents: Vec::new(),
            mark: CallMark::default(),
            has_new_id: false,
        }
    }

    /// Whether the job comes from a type. Then its registered kind is not read.
    pub(crate) const fn is_typed(&self) -> bool {
        matches!(self.kind, Cow::Borrowed(_))
    }

    /// Whether its id is the caller's, so that a job may have it already.
    pub(crate) const fn has_given_id(&self) -> bool {
        self.options.id.is_some() && !self.has_new_id
    }

    /// The job's type name, not checked yet.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Its args as JSON text. `None`: they do not serialise, which the insert will report.
    #[must_use]
    pub fn args_json(&self) -> Option<&RawValue> {
        self.args.as_deref().ok()
    }

    /// Its queue, if the job itself or its kind names one. The client's defaults come later.
    #[must_use]
    pub fn queue_name(&self) -> Option<&str> {
        self.options.queue.as_deref()
    }

    /// A member of its meta, if the job itself or its kind has one. The client's defaults come later.
    #[must_use]
    pub fn meta_value(&self, name: &str) -> Option<&Value> {
        self.options.meta.get(name)
    }

    fn options_mut(&mut self) -> &mut InsertOptions {
        &mut self.options
    }
}

insert_setters!(NewJob);

impl<J: Job> From<J> for NewJob {
    fn from(job: J) -> Self {
        let mut new = Self::of(Cow::Borrowed(J::KIND), &job);
        // With one id for all, the insert of every later job would return the first.
        new.options = InsertOptions { id: None, ..J::options() };
        match job.unique_key() {
            Some(key) => new.unique_key(key),
            None => new,
        }
    }
}

/// A job as it is stored.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct JobRow {
    /// The job's id.
    pub id: JobId,
    /// Its type name.
    pub kind: Kind,
    /// The queue it waits in.
    pub queue: QueueName,
    /// Its state.
    pub state: JobState,
    /// Higher runs first.
    pub priority: i16,
    /// The number of its latest attempt; 0 before the first.
    pub attempt: u16,
    /// How many attempts it may have.
    pub max_attempts: u16,
    /// When it was inserted, by the database's clock.
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    /// When it may run, at the earliest.
    #[serde(with = "time::serde::rfc3339")]
    pub scheduled_at: OffsetDateTime,
    /// When the latest attempt started.
    #[serde(with = "time::serde::rfc3339::option")]
    pub attempted_at: Option<OffsetDateTime>,
    /// When it was completed, cancelled or discarded.
    #[serde(with = "time::serde::rfc3339::option")]
    pub finalized_at: Option<OffsetDateTime>,
    /// The payload as JSON text. [`JobRow::args_as`] reads it.
    pub args: Box<RawValue>,
    /// JSON that travels along.
    pub meta: Map<String, Value>,
    /// The errors of its attempts, oldest first.
    pub errors: Vec<AttemptError>,
    /// Its output when it completed.
    pub output: Option<Value>,
    /// The progress that its worker reported last ([`AnyJob::progress`](crate::AnyJob::progress)).
    /// A retry finds here how far the attempt before came.
    pub progress: Option<Value>,
    /// The key that two jobs share when they are the same.
    pub unique_key: Option<String>,
    /// The states in which it claims its key. Empty: it has given up its claim for good.
    pub unique_states: Option<StateSet>,
    /// When its claim expires.
    #[serde(with = "time::serde::rfc3339::option")]
    pub unique_until: Option<OffsetDateTime>,
    /// Whether its state and policy claim the key. An expired claim still shows here until an insert meets it:
    /// compare `unique_until`.
    pub claims: bool,
    /// Whether it gives its claim up for good when a worker fetches it.
    pub until_start: bool,
    /// Whether it does not come back to its unique states while another job holds the key
    /// ([`OnReentry::Discard`](crate::OnReentry::Discard)). If not, it comes back without its claim.
    pub discard_on_reentry: bool,
    /// The job that took its place.
    pub replaced_by: Option<JobId>,
    /// The runner that runs the job, or ran it last.
    pub worker: Option<Uuid>,
    /// The number of its latest run: it grows with every fetch and never comes back, while `attempt` does after a
    /// snooze. A result counts only for the run that made it.
    pub run: u32,
    /// How many times in a row its runner died while it had the job. Above 0 the job is a suspect: runners fetch it with
    /// care. An attempt that fails or snoozes sets it back to 0.
    pub crashes: u16,
    /// The group that it belongs to within its queue.
    pub group_key: Option<String>,
    /// It starts only while fewer jobs of its group run. `None`: no limit of its own.
    pub group_limit: Option<u16>,
    /// Whether it runs in the order of its group.
    pub in_order: bool,
    /// How many duplicates changed it in place ([`OnConflict::Update`](crate::OnConflict::Update)).
    pub updates: u32,
    /// When the latest of them did.
    #[serde(with = "time::serde::rfc3339::option")]
    pub updated_at: Option<OffsetDateTime>,
    /// The id that the latest of them was inserted with. No job has it.
    pub updated_by: Option<JobId>,
    /// The job is discarded if it has not started by this time. `None`: the job does not expire, or an attempt has ended.
    #[serde(with = "time::serde::rfc3339::option")]
    pub expires_at: Option<OffsetDateTime>,
}

impl JobRow {
    /// Reads the args as a typed value.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidJson`] when the stored args do not fit the type.
    pub fn args_as<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_str(self.args.get()).map_err(|error| unread("args", self.kind.as_str(), &error))
    }

    /// Reads the output as a typed value. `None`: it has none, as every job that has not completed.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidJson`] when the stored output does not fit the type.
    pub fn output_as<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        let output = self.output.as_ref().map(T::deserialize).transpose();
        output.map_err(|error| unread("output", self.kind.as_str(), &error))
    }

    /// The job as the holder of its key, at the given time. `None`: it has no key.
    pub(crate) fn claim_at(&self, now: OffsetDateTime) -> Option<Duplicate> {
        Some(Duplicate {
            unique_key: self.unique_key.clone()?,
            holder: self.id,
            holder_state: self.state,
            holder_age: (now - self.created_at).try_into().unwrap_or_default(),
            claims_in: self.unique_states?,
            until_start: self.until_start,
            unique_until: self.unique_until,
        })
    }
}

/// The error of a stored value that does not fit a type.
fn unread(what: &'static str, kind: &str, error: &serde_json::Error) -> Error {
    Error::InvalidJson { what, kind: kind.to_owned(), problem: error.to_string() }
}

/// The result of an insert.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Inserted {
    /// The new job. For a duplicate: the job that holds the key.
    pub job: JobRow,
    /// Whether another job claims the key, so that nothing was inserted.
    pub duplicate: bool,
    /// Whether the holder was changed in place, under `update`. Then `duplicate` is set, too.
    pub updated: bool,
    /// Whether the holder starts after the insert's transaction has committed, under `run_again`. Then `duplicate` is
    /// set, too.
    pub covered: bool,
    /// The job that this one replaced, under `replace`, `replace_except_schedule` and `preempt`.
    pub replaced: Option<JobId>,
    /// When the database returned this, by its clock.
    #[serde(with = "time::serde::rfc3339")]
    pub answered_at: OffsetDateTime,
    /// Whether the insert made the job. Not where it was sent again with its id.
    #[serde(skip)]
    pub(crate) is_new: bool,
}

impl Inserted {
    /// The id of the new job, or of the holder.
    #[must_use]
    pub const fn id(&self) -> JobId {
        self.job.id
    }

    /// The key that made this insert a duplicate, its holder, and the event that frees it. `None`: the job was
    /// inserted.
    #[must_use]
    pub fn duplicate_of(&self) -> Option<Duplicate> {
        if !self.duplicate {
            return None;
        }
        self.job.claim_at(self.answered_at)
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[test]
    fn an_id_in_the_options_of_a_kind_is_ignored() {
        #[derive(Deserialize, Serialize)]
        struct Numbered;
        impl Job for Numbered {
            const KIND: &'static str = "numbered";

            fn options() -> InsertOptions {
                InsertOptions::new().id(JobId::from(Uuid::nil())).priority(3)
            }
        }
        assert_eq!(NewJob::from(Numbered).options, InsertOptions::new().priority(3));
        let id = JobId::from(Uuid::max());
        assert_eq!(NewJob::from(Numbered).id(id).options.id, Some(id));
    }
}
