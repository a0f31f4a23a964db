//! The dead letter queue: discarded jobs. One whose policy says `on_exhaustion` `dead_letter` and one that says `discard` are
//! discarded alike and both are here, until the retention of their queue deletes them.

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use serde::Deserialize;
use serde_json::json;
use uniqueue::{JobFilter, JobId, JobRow, JobState};
use uniqueue_admin::Given;

use crate::answer::{Answer, Answered};
use crate::door::Door;
use crate::envelope::known_id;
use crate::fields::{page_limit, wrong};
use crate::jobs::find;
use crate::problem::Problem;
use crate::{show, times};

/// How far dead letters are counted.
const COUNTED: u32 = 10_000;

/// The furthest that an offset skips. A cursor goes further, at no cost.
const MOST_SKIPPED: u32 = 10_000;

/// The query of the list.
#[derive(Debug, Deserialize)]
pub(crate) struct Page {
    limit: Option<String>,
    offset: Option<String>,
    /// The job that the page before ended with.
    cursor: Option<String>,
    /// Only jobs of this queue.
    queue: Option<String>,
}

/// `GET /dead-letter`: the newest first.
pub(crate) async fn list(State(door): State<Arc<Door>>, Query(page): Query<Page>) -> Answered {
    let Page { limit, offset, cursor, queue } = page;
    let limit = page_limit(limit.as_deref())?;
    let offset = offset.unwrap_or_else(|| "0".to_owned());
    let skipped = offset.parse::<u32>().ok().filter(|skipped| *skipped <= MOST_SKIPPED);
    let skipped = skipped.ok_or_else(|| wrong("offset", "0 to 10000; a cursor goes further", &json!(offset)))?;
    let no_cursor = |text: &str| wrong("cursor", "the next_cursor of another page", &json!(text));
    let cursor = cursor.filter(|text| !text.is_empty());
    let after = cursor.map(|text| text.parse::<JobId>().map_err(|_| no_cursor(&text))).transpose()?;
    let filter = JobFilter::new().states(JobState::Discarded).given(queue.as_ref(), JobFilter::queue);
    // One more tells whether there is another page.
    let all = door.reads.jobs(filter.clone().limit(limit + skipped + 1).after(after)).await?;
    let jobs: Vec<_> = all.iter().skip(skipped as usize).take(limit as usize).collect();
    let next = jobs.last().map(|last| last.id).filter(|_| all.len() > (skipped + limit) as usize);
    let total = door.reads.count_jobs(filter, COUNTED).await?.counted();
    let mut pagination = json!({ "total": total, "limit": limit, "offset": skipped, "has_more": next.is_some() });
    if let Some(next) = next {
        pagination["next_cursor"] = json!(next);
    }
    let shown: Vec<_> = jobs.into_iter().map(show::job).collect();
    Ok(Answer::ok(json!({ "jobs": shown, "pagination": pagination })))
}

async fn dead(door: &Door, id: &str) -> Result<JobRow, Problem> {
    let row = find(&door.client, "dead letter job", known_id("dead letter job", id)?).await?;
    match row.state {
        JobState::Discarded => Ok(row),
        _ => Err(Problem::not_found("dead letter job", id)),
    }
}

/// `GET /dead-letter/{id}`
pub(crate) async fn show(State(door): State<Arc<Door>>, Path(id): Path<String>) -> Answered {
    Ok(Answer::ok(json!({ "job": show::job(&dead(&door, &id).await?) })))
}

/// `DELETE /dead-letter/{id}`
pub(crate) async fn delete(State(door): State<Arc<Door>>, Path(id): Path<String>) -> Answered {
    let JobRow { id: dead, .. } = dead(&door, &id).await?;
    match door.client.delete([dead]).await?.is_empty() {
        true => Err(Problem::not_found("dead letter job", &id)),
        false => Ok(Answer::ok(json!({ "deleted": true, "job_id": dead }))),
    }
}

/// `POST /dead-letter/{id}/retry`
pub(crate) async fn retry(State(door): State<Arc<Door>>, Path(id): Path<String>) -> Answered {
    let JobRow { id: dead, .. } = dead(&door, &id).await?;
    let mut holder: Option<JobId> = None;
    let retrying = door.client.retry([dead]).afresh();
    let retried = retrying.on_refused(|refused| holder = refused.first().and_then(|refused| refused.holder)).await?;
    if let Some(holder) = holder {
        let message = format!("job {dead} cannot be retried: another job claims its unique key");
        return Err(Problem::duplicate(message, &holder.to_string()));
    }
    let row = find(&door.client, "dead letter job", dead).await?;
    if retried.is_empty() {
        return Err(Problem::not_found("dead letter job", &id));
    }
    let mut shown = show::job(&row);
    shown["re_enqueued_at"] = json!(times::text(row.scheduled_at));
    Ok(Answer::ok(json!({ "job": shown })))
}
