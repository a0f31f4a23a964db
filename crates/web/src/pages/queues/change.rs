//! Changing a queue.

use std::time::Duration;

use axum::response::Response;
use uniqueue::{Keep, QueueChanges, Rate};

use crate::failure::Failure;
use crate::fields::{Fields, url};
use crate::page::{Page, by};

/// Pauses, holds, resumes or limits a queue, sets its rates, how many jobs may wait in it, how it treats its groups, or a
/// retention.
pub(crate) async fn change(page: Page, body: String) -> Result<Response, Failure> {
    let fields = Fields::read(&body);
    let name = fields.need("queue")?;
    let queue = page.client().queue(name);
    let verb = fields.need("verb")?;
    let changes = QueueChanges::new();
    let change = match verb {
        "pause" => fields.get("reason").map_or_else(|| queue.pause(), |reason| queue.pause_because(reason)),
        "resume" => queue.resume(),
        "hold" => queue.hold(fields.need_length("hold_for")?),
        _ => queue.set(match verb {
            "limit" => changes.limit(fields.parsed("limit")?),
            "limit_groups" => changes.group_limit(fields.parsed("limit")?),
            "rate" => changes.rate(Some(rate(&fields)?)),
            "no_rate" => changes.rate(None),
            "rate_groups" => changes.group_rate(Some(rate(&fields)?)),
            "no_group_rate" => changes.group_rate(None),
            "max_waiting" => changes.max_waiting(fields.parsed("limit")?),
            "fair" => changes.fair(true),
            "not_fair" => changes.fair(false),
            "keep" | "keep_default" => match (fields.need("state")?, keep(&fields, verb)?) {
                ("completed", keep) => changes.keep_completed(keep),
                ("cancelled", keep) => changes.keep_cancelled(keep),
                ("discarded", keep) => changes.keep_discarded(keep),
                (state, _) => {
                    return Err(Failure::Bad(format!("jobs of this state are not kept for a time: {state:?}")));
                }
            },
            other => return Err(Failure::Bad(format!("there is no such change: {other:?}"))),
        }),
    };
    by!(page, change).await.map_err(|error| match verb {
        // The limit of the statement may end the wait before the library does.
        "max_waiting" if error.is_retryable() => Failure::Bad(format!(
            "Nothing was changed. The first limit of available jobs, and removing the last one, wait for open transactions \
             that have inserted or changed jobs, and one of them stayed open. Try again when it has ended: {error}"
        )),
        _ => error.into(),
    })?;
    page.log(verb, name);
    page.app.sampler.refresh().await;
    Ok(page.go_to(&url("/queue", &[("queue", name)])))
}

/// A rate. Without a burst, as many as its count start at once.
fn rate(fields: &Fields) -> Result<Rate, Failure> {
    let count = fields.parsed("count")?.ok_or(Failure::Bad("The field count is empty.".to_owned()))?;
    let rate = Rate::per(count, fields.need_length("period")?);
    Ok(fields.parsed("burst")?.map_or(rate, |burst| rate.burst(burst)))
}

fn keep(fields: &Fields, verb: &str) -> Result<Keep, Failure> {
    match (verb, fields.parsed::<f64>("days")?) {
        ("keep", Some(days)) => Duration::try_from_secs_f64(days * 86_400.0)
            .map(Keep::For)
            .map_err(|_| Failure::Bad(format!("days is not valid: {days}"))),
        _ => Ok(Keep::AsRunnersSay),
    }
}
