//! Cron entries: periodic jobs of the queue, which the door remembers as they were registered.

use std::sync::Arc;

use axum::extract::{Path, State};
use serde_json::value::to_raw_value;
use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use uniqueue::{NewJob, OnConflict, PeriodicJob, UniqueKey, UniqueScope};
use uniqueue_admin::{Admin, PeriodicRow};

use crate::answer::{Answer, Answered};
use crate::body::{self, Object};
use crate::door::Door;
use crate::envelope;
use crate::exact::Exact;
use crate::fields::{Fields, wrong};
use crate::problem::Problem;
use crate::retry::DEFAULT_ATTEMPTS;
use crate::store::CronEntry;
use crate::times;

/// The longest name of an entry.
const MAX_NAME: usize = 100;

/// The periodic job of an entry.
fn periodic_name(name: &str) -> String {
    format!("ojs:{name}")
}

/// `POST /cron`
pub(crate) async fn register(State(door): State<Arc<Door>>, Object(body): Object) -> Answered {
    let fields = Fields::new(&body, None)?;
    let name = fields.text("name")?.ok_or_else(|| Problem::missing("name"))?;
    if name.is_empty() || name.len() > MAX_NAME || name.chars().any(char::is_control) {
        return Err(wrong("name", "1 to 100 bytes without control characters", &json!(name)));
    }
    let expression = match fields.text("expression")? {
        Some(expression) => expression,
        None => fields.text("cron")?.ok_or_else(|| Problem::missing("expression"))?,
    };
    // An interval, which the queue's schedules also take, is no cron expression.
    if expression.starts_with('P') {
        return Err(wrong("expression", "a cron expression", &json!(expression)));
    }
    let zone = fields.text("timezone")?.unwrap_or("UTC");
    let policy = fields.text("overlap_policy")?.unwrap_or("skip");
    let template = fields.object("job_template")?.unwrap_or(&body);
    // A name or a time of the entry is none of its jobs.
    let template: Map<_, _> = template
        .iter()
        .filter(|(name, _)| !OF_ENTRY.contains(&name.as_str()))
        .map(|(n, v)| (n.clone(), v.clone()))
        .collect();
    let envelope = envelope::read(&template)?;
    // Each run takes the defaults of its registered kind, so the entry does not store them.
    let has_defaults = envelope.has_retry || door.kinds.knows(envelope.job.kind()).await?;
    let job = match !has_defaults {
        true => envelope.job.max_attempts(DEFAULT_ATTEMPTS),
        false => envelope.job,
    };
    let is_unique = Fields::new(&template, None)?.get("unique").is_some();
    let job = without_overlap(job.meta("cron_name", name), name, policy, is_unique)?;
    let mut document = body.clone();
    for (member, value) in [("expression", expression), ("timezone", zone), ("overlap_policy", policy)] {
        document.insert(member.to_owned(), json!(value));
    }
    let document =
        to_raw_value(&Exact(&Value::Object(document))).map_err(|error| Problem::invalid(error.to_string()))?;
    let mut tx = door.client.pool().begin().await?;
    let Some(entry) = door.store.add_cron(name, document).tx(&mut tx).await?.pop() else {
        return Err(Problem::conflict(format!("a cron entry of this name exists already: {name:?}; delete it first")));
    };
    let periodic = PeriodicJob::cron(periodic_name(name), expression, job).time_zone(zone);
    door.client.define_periodic(periodic).tx(&mut tx).await?;
    tx.commit().await?;
    let row = Admin::new(&door.client).periodic().find(&periodic_name(name)).await?;
    Ok(Answer::created(json!({ "cron": shown(&entry, row.as_ref())? })))
}

/// Members of an entry that are none of its jobs.
const OF_ENTRY: [&str; 7] = ["name", "cron", "expression", "timezone", "overlap_policy", "job_template", "id"];

/// The job of an entry, unique or grouped as its policy says.
fn without_overlap(job: NewJob, name: &str, policy: &str, is_unique: bool) -> Result<NewJob, Problem> {
    let key = || UniqueKey::raw(periodic_name(name)).scope(UniqueScope::Active);
    Ok(match policy {
        // The job's own policy comes first.
        "skip" | "cancel_previous" if is_unique => job,
        "skip" => job.unique_key(key().on_conflict(OnConflict::Ignore)),
        "cancel_previous" => job.unique_key(key().on_conflict(OnConflict::Preempt)),
        "enqueue" => job.group(periodic_name(name)).group_limit(1),
        "allow" => job,
        _ => return Err(wrong("overlap_policy", "skip, allow, enqueue or cancel_previous", &json!(policy))),
    })
}

/// An entry as OJS shows it.
fn shown(entry: &CronEntry, row: Option<&PeriodicRow>) -> Result<Value, Problem> {
    let CronEntry { name, document, created_at } = entry;
    let mut shown = body::read(document.get().as_bytes())?;
    let mut put = |name: &str, value: Value| drop(shown.insert(name.to_owned(), value));
    put("name", json!(name));
    put("created_at", json!(times::text(*created_at)));
    let is_enabled = row.is_some_and(|row| row.paused_at.is_none());
    put("enabled", json!(is_enabled));
    put("status", json!(if is_enabled { "active" } else { "paused" }));
    if let Some(row) = row {
        let next = row.next_at.or_else(|| row.next_after(OffsetDateTime::now_utc()).ok().flatten());
        put("next_run_at", json!(next.map(times::text)));
        put("last_run_at", json!(row.last_at.map(times::text)));
        put("last_job_id", json!(row.last_job));
        if let Some(problem) = &row.problem {
            put("problem", json!(problem));
        }
    }
    Ok(Value::Object(shown))
}

/// `GET /cron`
pub(crate) async fn list(State(door): State<Arc<Door>>) -> Answered {
    let entries = door.store.cron_entries().await?;
    let rows = Admin::new(&door.client).periodic().list().await?;
    let row_of = |name: &str| rows.iter().find(|row| row.name.as_str() == periodic_name(name));
    let crons = entries.iter().map(|entry| shown(entry, row_of(&entry.name))).collect::<Result<Vec<_>, _>>()?;
    let pagination = json!({ "total": crons.len(), "has_more": false });
    Ok(Answer::ok(json!({ "crons": crons, "pagination": pagination })))
}

/// `DELETE /cron/{name}`: jobs that are there already stay.
pub(crate) async fn remove(State(door): State<Arc<Door>>, Path(name): Path<String>) -> Answered {
    let mut tx = door.client.pool().begin().await?;
    let removed = door.store.remove_cron(&name).tx(&mut tx).await?.pop();
    Admin::new(&door.client).periodic().remove(&periodic_name(&name)).tx(&mut tx).await?;
    tx.commit().await?;
    match removed {
        Some(entry) => Ok(Answer::ok(json!({ "deleted": true, "name": name, "cron": shown(&entry, None)? }))),
        None => Err(Problem::not_found("cron entry", &name)),
    }
}
