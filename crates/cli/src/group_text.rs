//! The group of a job, for people.

use uniqueue::{Client, JobRow};
use uniqueue_admin::Admin;

use crate::exit::Failure;
use crate::output::{Record, count};

/// Adds a job's group, what the job says of it, and how the group stands now.
pub(crate) async fn add_group(record: &mut Record, client: &Client, job: &JobRow) -> Result<(), Failure> {
    let Some(key) = &job.group_key else { return Ok(()) };
    let own = match (job.in_order, job.group_limit) {
        (true, _) => ", in order".to_owned(),
        (false, Some(limit)) => format!(", at most {limit} at once"),
        (false, None) => String::new(),
    };
    record.field("group", format!("{key}{own}"));
    let Some(now) = Admin::new(client).groups().of(job.queue.as_str(), key).await?.pop() else { return Ok(()) };
    let limit = now.limit.map(|limit| format!(" of {}", count(u64::from(limit)))).unwrap_or_default();
    let first = if now.head == Some(job.id) { "; this job is the first" } else { "" };
    record.field(
        "in the group",
        format!("{}{limit} running, {} available{first}", count(now.running), count(now.waiting)),
    );
    Ok(())
}
