//! A job as JSON, for inserts over other drivers.

use serde::ser::{Error as _, SerializeMap};
use serde::{Serialize, Serializer};
use time::format_description::well_known::Rfc3339;

use crate::period;
use crate::unique::UniquePolicy;
use crate::words::after::{AfterCondition, Parent};
use crate::words::group::GroupBy;
use crate::words::ident::JobId;
use crate::words::job::NewJob;
use crate::words::opts::{Expiry, InsertOptions, Start, Unique};

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
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("kind", kind)?;
        object.serialize_entry("args", args.as_deref().map_err(S::Error::custom)?)?;
        if let Some(id) = id {
            object.serialize_entry("id", id)?;
        }
        if let Some(queue) = queue {
            object.serialize_entry("queue", queue)?;
        }
        if let Some(priority) = priority {
            object.serialize_entry("priority", priority)?;
        }
        if let Some(max_attempts) = max_attempts {
            object.serialize_entry("max_attempts", max_attempts)?;
        }
        match start {
            None | Some(Start::Now) => {}
            Some(Start::At(at)) => {
                object.serialize_entry("scheduled_at", &at.format(&Rfc3339).map_err(S::Error::custom)?)?;
            }
            Some(Start::After(delay)) => {
                return Err(S::Error::custom(format!(
                    "scheduled_in needs the database's clock: {delay:?}; hint: give scheduled_at instead"
                )));
            }
            Some(Start::WhenReleased) => object.serialize_entry("pending", &true)?,
        }
        match expiry {
            None => {}
            Some(Expiry::Never) => object.serialize_entry("expires_at", &())?,
            Some(Expiry::At(at)) => {
                object.serialize_entry("expires_at", &at.format(&Rfc3339).map_err(S::Error::custom)?)?;
            }
            Some(Expiry::In(length)) => object.serialize_entry("expires_in", &period::write(*length))?,
        }
        if !meta.is_empty() {
            object.serialize_entry("meta", meta)?;
        }
        for (member, condition) in [
            ("after", AfterCondition::Completed),
            ("after_final", AfterCondition::Final),
            ("after_failed", AfterCondition::Failed),
        ] {
            let of_condition = parents.iter().filter(|(_, of)| *of == condition);
            let ids: Result<Vec<JobId>, S::Error> = of_condition.map(|(parent, _)| id_of(*parent)).collect();
            let ids = ids?;
            if !ids.is_empty() {
                object.serialize_entry(member, &ids)?;
            }
        }
        let policy = match unique {
            None | Some(Unique::No) => None,
            Some(Unique::Key(key)) => Some(UniquePolicy::from(key.clone())),
            Some(Unique::Policy(policy)) => Some(policy.clone()),
        };
        if let Some(policy) = policy {
            // Without a time the database would take the policy's.
            let policy = if *start == Some(Start::Now) { policy.without_delay() } else { policy };
            object.serialize_entry("unique_policy", &policy)?;
        }
        match group {
            // Without a group its limits say nothing.
            Some(GroupBy::Nothing) => return object.end(),
            None => {}
            Some(GroupBy::Key(key)) => object.serialize_entry("group_key", key)?,
            Some(GroupBy::Policy(policy)) => object.serialize_entry("group_policy", &**policy)?,
        }
        if let Some(limit) = group_limit {
            object.serialize_entry("group_limit", limit)?;
        }
        if let Some(in_order) = in_order {
            object.serialize_entry("in_order", in_order)?;
        }
        object.end()
    }
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
