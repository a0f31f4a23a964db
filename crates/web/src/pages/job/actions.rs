//! The actions on a job, and what they change.

use uniqueue_admin::JobVerb;

use crate::pages::prelude::*;

/// The changes that the job's state allows. `holder`: the job that holds its key.
pub(super) fn actions(page: &Page, job: &JobRow, holder: Option<JobId>, waits_for_parents: bool) -> Markup {
    if !page.may(Right::Change) {
        return html! {};
    }
    let is_held_elsewhere = holder.is_some_and(|holder| holder != job.id);
    let holds = holder == Some(job.id);
    let to = page.link(&format!("/jobs/{}/change", job.id));
    let is_waiting =
        matches!(job.state, JobState::Available | JobState::Scheduled | JobState::Retryable | JobState::Pending);
    html! {
        section.panel.actions-panel {
            h2 { "Change" }
            @if is_held_elsewhere { (before_retry(job)) }
            form.row method="post" action=(to) {
                @if job.state.is_final() || matches!(job.state, JobState::Retryable | JobState::Scheduled) {
                    (submit("verb", "retry", if job.state == JobState::Scheduled { "Run now" } else { "Retry now" }, "primary"))
                }
                // A step that waits for its parents is released by hand only to run it without them.
                @if job.state == JobState::Pending { (submit("verb", "release", if waits_for_parents { "Release without waiting" } else { "Release" }, if waits_for_parents { "" } else { "primary" })) }
                @if is_waiting { (submit("verb", "cancel", "Cancel", "")) (submit("verb", "discard", "Discard", "")) }
                @if page.may(Right::Insert) && page.app.redact.is_none() {
                    a.button href=(page.link(&format!("/insert?from={}", job.id))) { "Edit args and insert again" }
                }
            }
            @if job.state == JobState::Running {
                (confirmed("End this run", &to, html! {
                    span { "Its worker is told to stop, and its result is dropped." }
                    (submit("verb", "cancel", "Cancel the running job", "danger"))
                    (submit("verb", "discard", "Discard the running job", "danger"))
                }))
            }
            @if holds {
                (confirmed("Release the claim", &to, html! {
                    span { "The job goes on, and another job with the key can be inserted beside it." }
                    (submit("verb", "release_claim", "Release the claim", "danger"))
                }))
            }
            @if is_waiting {
                form.row method="post" action=(to) {
                    label { "Run in " input name="minutes" type="number" min="0" max="525600" value="60" required; " minutes" }
                    (submit("verb", "reschedule", "Reschedule", ""))
                }
                form.row method="post" action=(to) {
                    label { "Priority " input name="priority" type="number" min="-32768" max="32767" value=(job.priority) required; }
                    (submit("verb", "priority", "Set", ""))
                }
            }
            @if page.may(Right::Delete) && job.state != JobState::Running {
                (confirmed("Delete", &page.link(&format!("/jobs/{}/delete", job.id)), html! {
                    span { "The job and its claim are gone for good." }
                    button.danger { "Delete this job" }
                }))
            }
        }
    }
}

/// A change that is opened first, and then made.
pub(super) fn confirmed(name: &str, to: &str, body: Markup) -> Markup {
    html! { details data-hold { summary { (name) } form.row method="post" action=(to) { (body) } } }
}

/// The effect of a retry while another job holds the key.
fn before_retry(job: &JobRow) -> Markup {
    let comes_back =
        job.unique_states.is_some_and(|states| states.contains(JobState::Available) && !states.contains(job.state));
    html! {
        p.note {
            @match (comes_back && job.discard_on_reentry, job.state.is_final()) {
                (false, _) => "A retry will go on without the claim, because another job holds the key.",
                (true, true) => {
                    "A retry will be refused, and the job stays as it is: another job holds the key, and the policy says "
                    code { "on_reentry: discard" } "."
                }
                (true, false) => {
                    "A retry will discard this job: another job holds the key, and the policy says " code { "on_reentry: discard" } "."
                }
            }
        }
    }
}

/// Retries, cancels, releases or reschedules a job, sets its priority, or releases its claim.
pub(crate) async fn change(page: Page, Path(path): Path<IdPath<JobId>>, body: String) -> Result<Response, Failure> {
    let fields = Fields::read(&body);
    let (client, id) = (page.client(), path.id);
    let verb = fields.need("verb")?;
    let (mut was_refused, mut was_discarded) = (false, false);
    let change = match verb {
        "retry_graph" => client.retry_graph(id),
        "reschedule" => {
            let delay = fields.need_minutes("minutes")?;
            let now = client.database_time().timeout(LOOK_UP).await?;
            client.reschedule(id, now + delay)
        }
        "priority" => client.set_priority(id, fields.need_parsed("priority")?),
        "release_claim" => return release_claim(page, path).await,
        word => match JobVerb::named(word).filter(|verb| *verb != JobVerb::Delete) {
            Some(verb) => verb.change(client, id),
            None => return Err(Failure::Bad(format!("there is no such change: {word:?}"))),
        },
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
async fn release_claim(page: Page, path: IdPath<JobId>) -> Result<Response, Failure> {
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
pub(crate) async fn delete(page: Page, Path(path): Path<IdPath<JobId>>) -> Result<Response, Failure> {
    debug_assert!(page.may(Right::Delete), "the table of routes checks this");
    let deleted = by!(page, page.client().delete(path.id)).await?;
    if deleted.is_empty() {
        return Ok(page.go_to(&format!("/jobs/{}?did=none", path.id)));
    }
    page.log("delete", &path.id.to_string());
    Ok(page.go_to("/jobs"))
}
