//! Changing a queue.

use std::time::Duration;

use axum::response::Response;
use uniqueue::{Keep, Rate};

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
    let change = match verb {
        "pause" => match fields.get("reason") {
            Some(reason) => queue.pause().reason(reason),
            None => queue.pause(),
        },
        "resume" => queue.resume(),
        "hold" => queue.hold(fields.need_length("hold_for")?),
        "limit" => queue.limit(fields.parsed("limit")?),
        "limit_groups" => queue.group_limit(fields.parsed("limit")?),
        "rate" => queue.rate(Some(rate(&fields)?)),
        "no_rate" => queue.rate(None),
        "rate_groups" => queue.group_rate(Some(rate(&fields)?)),
        "no_group_rate" => queue.group_rate(None),
        "max_waiting" => queue.max_waiting(fields.parsed("limit")?),
        "fair" => queue.fair(true),
        "not_fair" => queue.fair(false),
        "keep" | "keep_default" => {
            let state = fields.parsed("state")?.ok_or(Failure::Bad("The field state is empty.".to_owned()))?;
            queue.keep(state, keep(&fields, verb)?)
        }
        other => return Err(Failure::Bad(format!("there is no such change: {other:?}"))),
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
