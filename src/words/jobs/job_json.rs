//! A job as JSON, for inserts over other drivers.

use serde::ser::{Error as _, SerializeMap};
use serde::{Serialize, Serializer};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::period;
use crate::words::after::{AfterCondition, Parent};
use crate::words::group::GroupBy;
use crate::words::ident::JobId;
use crate::words::job::NewJob;
use crate::words::opts::{Expiry, InsertOptions, Start};

/// The object that `insert_jobs` in SQL reads, so that any PostgreSQL driver can insert the job in its own transaction:
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use uniqueue::{Job, NewJob};
///
/// #[derive(Serialize, Deserialize, Job)]
/// #[job(kind = "email.send", queue = "emails", unique)]
/// struct SendEmail {
///     user_id: u64,
/// }
///
/// let jobs = serde_json::to_string(&[NewJob::from(SendEmail { user_id: 42 })])?;
/// // SELECT id, duplicate FROM uniqueue.insert_jobs($1::text::jsonb)
/// assert!(jobs.starts_with(r#"[{"kind":"email.send","args":{"user_id":42},"queue":"emails","unique_policy":{"#));
/// # Ok::<(), serde_json::Error>(())
/// ```
///
/// The job's and its kind's options are in it, and its key is the same as in an insert by the client. A client's defaults
/// and insert middleware have no part in it. Errors: args or a policy that no insert would take, and
/// [`scheduled_in`](NewJob::scheduled_in), which needs the database's clock. Give `scheduled_at` instead.
impl Serialize for NewJob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { kind, args, options, parents, mark: _, has_new_id: _ } = self;
        // Exhaustive, so that a new option cannot be forgotten here.
        let InsertOptions {
            id,
            queue,
            priority,
            max_attempts,
            start,
            meta,
            unique,
            group,
            group_limit,
            in_order,
            expiry,
            // The statement is sent to the place already.
            place: _,
        } = options;
        let time = |at: &OffsetDateTime| at.format(&Rfc3339).map_err(S::Error::custom);
        let scheduled_at = match start {
            Some(Start::At(at)) => Some(time(at)?),
            Some(Start::After(delay)) => {
                return Err(S::Error::custom(format!(
                    "scheduled_in needs the database's clock: {delay:?}; hint: give scheduled_at instead"
                )));
            }
            None | Some(Start::Now | Start::WhenReleased) => None,
        };
        let (expires_at, expires_in) = match expiry {
            Some(Expiry::At(at)) => (Some(time(at)?), None),
            Some(Expiry::In(length)) => (None, Some(period::write(*length))),
            Some(Expiry::Never) | None => (None, None),
        };
        // Without a time the database would take the policy's.
        let is_delayed = *start != Some(Start::Now);
        let policy = unique.clone().map(|policy| if is_delayed { policy } else { policy.without_delay() });
        let (group_key, group_policy) = match group {
            Some(GroupBy::Key(key)) => (Some(key), None),
            Some(GroupBy::Policy(policy)) => (None, Some(policy)),
            Some(GroupBy::Nothing) | None => (None, None),
        };
        // Without a group its limits say nothing.
        let is_limited = *group != Some(GroupBy::Nothing);
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("kind", kind)?;
        object.serialize_entry("args", args.as_deref().map_err(S::Error::custom)?)?;
        put(&mut object, "id", id.as_ref())?;
        put(&mut object, "queue", queue.as_ref())?;
        put(&mut object, "priority", priority.as_ref())?;
        put(&mut object, "max_attempts", max_attempts.as_ref())?;
        put(&mut object, "scheduled_at", scheduled_at.as_ref())?;
        put(&mut object, "pending", (*start == Some(Start::WhenReleased)).then_some(&true))?;
        put(&mut object, "expires_at", (*expiry == Some(Expiry::Never)).then_some(&()))?;
        put(&mut object, "expires_at", expires_at.as_ref())?;
        put(&mut object, "expires_in", expires_in.as_ref())?;
        put(&mut object, "meta", Some(meta).filter(|meta| !meta.is_empty()))?;
        for (member, condition) in [
            ("after", AfterCondition::Completed),
            ("after_final", AfterCondition::Final),
            ("after_failed", AfterCondition::Failed),
        ] {
            let of_condition = parents.iter().filter(|(_, of)| *of == condition);
            let ids = of_condition.map(|(parent, _)| id_of(*parent)).collect::<Result<Vec<JobId>, S::Error>>()?;
            put(&mut object, member, Some(&ids).filter(|ids| !ids.is_empty()))?;
        }
        put(&mut object, "unique_policy", policy.as_ref())?;
        put(&mut object, "group_key", group_key)?;
        put(&mut object, "group_policy", group_policy)?;
        put(&mut object, "group_limit", group_limit.as_ref().filter(|_| is_limited))?;
        put(&mut object, "in_order", in_order.as_ref().filter(|_| is_limited))?;
        object.end()
    }
}

/// Writes a member that the job has.
fn put<M: SerializeMap>(object: &mut M, name: &str, value: Option<&(impl Serialize + ?Sized)>) -> Result<(), M::Error> {
    value.map_or(Ok(()), |value| object.serialize_entry(name, value))
}

/// The id of a parent that is stored already.
fn id_of<E: serde::ser::Error>(parent: Parent) -> Result<JobId, E> {
    match parent {
        Parent::Stored(id) => Ok(id),
        Parent::OfCall(_) => Err(E::custom(
            "after names a job that has no id yet; hint: give both an id, or insert them with the client",
        )),
    }
}
