//! Changing one job.

use axum::extract::Path;
use axum::response::Response;
use uniqueue::JobState;

use super::JobPath;
use crate::access::Right;
use crate::failure::Failure;
use crate::fields::Fields;
use crate::page::{LOOK_UP, Page, by};

/// Retries, cancels, releases or reschedules a job, sets its priority, or releases its claim.
pub(crate) async fn change(page: Page, Path(path): Path<JobPath>, body: String) -> Result<Response, Failure> {
    let fields = Fields::read(&body);
    let (client, id) = (page.client(), path.id);
    let verb = fields.need("verb")?;
    let (mut was_refused, mut was_discarded) = (false, false);
    let change = match verb {
        "retry" => client.retry(id),
        "retry_graph" => client.retry_graph(id),
        "cancel" => client.cancel(id),
        "discard" => client.discard(id),
        "release" => client.release(id),
        "reschedule" => {
            let delay = fields.need_minutes("minutes")?;
            let now = client.database_time().timeout(LOOK_UP).await?;
            client.reschedule(id, now + delay)
        }
        "priority" => {
            let priority = fields.parsed("priority")?;
            client.set_priority(id, priority.ok_or(Failure::Bad("The field priority is empty.".to_owned()))?)
        }
        "release_claim" => return release_claim(page, path).await,
        other => return Err(Failure::Bad(format!("there is no such change: {other:?}"))),
    };
    let changed = by!(page, change).on_refused(|_| was_refused = true).on_discarded(|_| was_discarded = true).await?;
    page.log(verb, &id.to_string());
    let did = match (was_refused, was_discarded, changed.is_empty()) {
        (true, ..) => "refused",
        (_, true, _) => "discarded_instead",
        (_, _, true) => "none",
        _ if verb == "retry"
            && client.job(id).timeout(LOOK_UP).await?.is_some_and(|job| job.state == JobState::Pending) =>
        {
            "waits"
        }
        _ => verb,
    };
    Ok(page.go_to(&format!("/jobs/{id}?did={did}")))
}

/// Releases the key that this job holds. Another job may hold it by now: its claim stays.
async fn release_claim(page: Page, path: JobPath) -> Result<Response, Failure> {
    let client = page.client();
    let job = client.job(path.id).timeout(LOOK_UP).await?.ok_or(Failure::NotFound("job"))?;
    let mut did = "none";
    if let Some(key) = job.unique_key {
        let is_holder = client.holder(&key).timeout(LOOK_UP).await?.is_some_and(|holder| holder.id == path.id);
        if is_holder && by!(page, client.release_claim(&key)).await?.is_some() {
            page.log("release_claim", &key);
            did = "release_claim";
        }
    }
    Ok(page.go_to(&format!("/jobs/{}?did={did}", path.id)))
}

/// Deletes a job that does not run.
pub(crate) async fn delete(page: Page, Path(path): Path<JobPath>) -> Result<Response, Failure> {
    debug_assert!(page.may(Right::Delete), "the table of routes checks this");
    let deleted = by!(page, page.client().delete(path.id)).await?;
    if deleted.is_empty() {
        return Ok(page.go_to(&format!("/jobs/{}?did=none", path.id)));
    }
    page.log("delete", &path.id.to_string());
    Ok(page.go_to("/jobs"))
}
