//! `uniqueue unique show`.

use uniqueue::{Duplicate, UniqueKey};
use uniqueue_admin::{SuppressedDuplicate, WaitingInsert};

use super::audit::counters;
use super::explain::{Blocker, would_wait};
use crate::prelude::*;

/// Show everything about one key: its holder, when it is free, its jobs, and the inserts that wait for it.
///
/// KEY is the text of the key, usually the 64 hexadecimal digits of a hash. The first eight or more digits are enough if only
/// one claimed key begins with them. The id of a job stands for the key of that job.
///
/// Examples:
///   uniqueue unique show rebuild_index
///   uniqueue unique show 71f9344b                         the key with this prefix
///   uniqueue unique show 019ab3c5-7d10-7cc2-a1d4-6f7f4f1f0a55 --json
///
/// Exit codes:
///   0    shown, whether or not a job claims the key
///   1    no job that was searched has the key
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(super) struct ShowArguments {
    /// The key, or the id of a job that has it; a key that begins with a dash comes last, after --
    #[arg(value_parser = unique_key)]
    key: String,

    /// How many of the newest jobs to search for the key; the index holds claimed keys only
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    search: u32,
}

/// The shortest prefix that stands for a hash, in hexadecimal digits.
const MIN_PREFIX: usize = 8;

/// The length of a hash in hexadecimal digits.
const HASH_LENGTH: usize = 64;

/// Everything about one key.
#[derive(Debug, Serialize)]
struct Key {
    unique_key: String,
    /// The job that claims it, if any.
    holder: Option<Duplicate>,
    holder_kind: Option<String>,
    holder_queue: Option<String>,
    /// The transaction that an insert would wait for, where no job claims the key.
    insert_waits_for: Option<Blocker>,
    /// When the holder's claim ends, as text.
    frees: Option<String>,
    /// The jobs that have the key, the newest first.
    jobs: Vec<KeyedJob>,
    /// How many of the newest jobs were searched.
    searched: u32,
    /// The counted duplicates of audited kinds.
    suppressed: Vec<SuppressedDuplicate>,
    /// The inserts that wait for the holder, or for a key that other sessions cannot see yet.
    waiting_inserts: Vec<WaitingInsert>,
}

/// A job that has the key.
#[derive(Debug, Serialize)]
struct KeyedJob {
    id: JobId,
    kind: String,
    queue: String,
    state: JobState,
    #[serde(with = "time::serde::rfc3339")]
    created_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339::option")]
    finalized_at: Option<OffsetDateTime>,
    replaced_by: Option<JobId>,
    /// Whether it claims the key.
    claims: bool,
    /// Why it claims the key, or does not.
    reason: String,
}

pub(super) async fn show(client: &Client, form: Form, arguments: ShowArguments) -> Result<Answer, Failure> {
    let ShowArguments { key, search } = arguments;
    let unique_key = find_key(client, &key).await?;
    let (now, admin) = (client.database_time().await?, Admin::new(client));
    let holder = admin.claims().from(&unique_key).limit(1).await?.pop();
    let holder = holder.filter(|holder| holder.claim.unique_key == unique_key);
    let jobs = admin.key_history(&unique_key, search).await?;
    let suppressed = admin.suppressed_duplicates().unique_key(&unique_key).await?;
    let mut waiting_inserts = admin.waiting_inserts().await?;
    waiting_inserts.retain(|insert| insert.unique_key.as_ref().is_none_or(|key| *key == unique_key));
    let insert_waits_for = match holder {
        Some(_) => None,
        None => {
            let job = NewJob::new("uniqueue.trial", &json!({})).unique_key(UniqueKey::raw(&unique_key));
            would_wait(client, job).await?
        }
    };
    let key = Key {
        unique_key,
        holder_kind: holder.as_ref().map(|holder| holder.kind.to_string()),
        holder_queue: holder.as_ref().map(|holder| holder.queue.to_string()),
        frees: holder.as_ref().map(|holder| holder.claim.frees()),
        holder: holder.map(|holder| holder.claim),
        insert_waits_for,
        jobs: jobs.iter().map(|job| keyed_job(job, now)).collect(),
        searched: search,
        suppressed,
        waiting_inserts,
    };
    let is_known = key.holder.is_some() || !key.jobs.is_empty() || !key.suppressed.is_empty();
    let verdict = if is_known { Verdict::Fine } else { Verdict::NotFine };
    Ok(form.object(&key, |key| key.text(now))?.verdict(verdict))
}

/// The key that the argument stands for: a job's key, the only claimed key with this prefix, or the text itself.
async fn find_key(client: &Client, given: &str) -> Result<String, Failure> {
    if let Ok(id) = given.parse::<JobId>()
        && let Some(job) = client.job(id).await?
    {
        return job.unique_key.ok_or_else(|| {
            Failure::refused(
                format!("job {id} has no unique key"),
                "it is never a duplicate, and no other job is a duplicate of it",
            )
        });
    }
    let is_hex = given.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_hex || !(MIN_PREFIX..=HASH_LENGTH).contains(&given.len()) || client.holder(given).await?.is_some() {
        return Ok(given.to_owned());
    }
    let lower = given.to_ascii_lowercase();
    if given.len() == HASH_LENGTH {
        return Ok(lower);
    }
    let mut found = Admin::new(client).claims().prefix(&lower).limit(2).await?;
    match (found.pop(), found.pop()) {
        (Some(only), None) => Ok(only.claim.unique_key),
        (Some(_), Some(_)) => Err(Failure::refused(
            format!("several claimed keys begin with {given}"),
            format!("see `uniqueue unique holders --prefix {lower}`"),
        )),
        _ => Ok(given.to_owned()),
    }
}

fn keyed_job(job: &JobRow, now: OffsetDateTime) -> KeyedJob {
    let is_expired = job.unique_until.is_some_and(|until| until <= now);
    let states = job.unique_states.unwrap_or_default();
    let reason = if job.claims && !is_expired {
        "claims the key".to_owned()
    } else if let Some(successor) = job.replaced_by {
        format!("replaced by job {successor}")
    } else if is_expired {
        "its claim has expired".to_owned()
    } else if states.is_empty() {
        "its claim has ended for good: released, expired or started".to_owned()
    } else if !states.contains(job.state) {
        format!("claims only in {states}")
    } else {
        "another job held the key when it came back, so it goes on without its claim".to_owned()
    };
    KeyedJob {
        id: job.id,
        kind: job.kind.to_string(),
        queue: job.queue.to_string(),
        state: job.state,
        created_at: job.created_at,
        finalized_at: job.finalized_at,
        replaced_by: job.replaced_by,
        claims: job.claims && !is_expired,
        reason,
    }
}

impl Key {
    fn text(&self, now: OffsetDateTime) -> String {
        let mut record = Record::new();
        record.field("unique key", &self.unique_key);
        match (&self.holder, &self.insert_waits_for) {
            (None, Some(blocker)) => {
                record.field("claimed by", Cell::new("no job that is committed").style(Style::Warn));
                record.field("an insert", format!("waits for {}, which holds the key", blocker.text()));
            }
            (None, None) => {
                record.field("claimed by", Cell::new("no job: the next insert is no duplicate").style(Style::Good))
            }
            (Some(holder), _) => {
                record.field("claimed by", Cell::new(format!("job {}", holder.holder)).style(Style::Warn));
                record.optional_field("kind", self.holder_kind.as_ref());
                record.optional_field("queue", self.holder_queue.as_ref());
                record.field("state", holder.holder_state.to_string());
                record.field("inserted", format!("{} ago", output::format_duration(holder.holder_age)));
                record.field("claims in", holder.claims_in.to_string());
                record.optional_field(
                    "expires",
                    holder
                        .unique_until
                        .map(|at| format!("{} ({})", output::format_time(at), output::format_relative(at, now))),
                );
                record.optional_field("free", self.frees.as_ref());
                record.field("an insert", "is a duplicate: it returns this job, or with reject an error that names it");
            }
        }
        let mut text = format!(
            "{}\n\nJobs with this key, among the newest {}\n",
            record.draw(),
            output::count(self.searched.into())
        );
        text.push_str(&self.history(now).text());
        if !self.suppressed.is_empty() {
            text.push_str(&format!("\nSuppressed duplicates\n{}", counters(&self.suppressed, now).text()));
        }
        if !self.waiting_inserts.is_empty() {
            text.push_str(&format!("\nWaiting inserts\n{}", waiting(&self.waiting_inserts).text()));
        }
        text
    }

    fn history(&self, now: OffsetDateTime) -> Table {
        List::of(&self.jobs)
            .column(Column::text("job"), |job| job.id.to_string())
            .column(Column::text("kind"), |job| &job.kind)
            .column(Column::text("state"), |job| job.state.as_str())
            .column(Column::number("inserted"), |job| output::format_relative(job.created_at, now))
            .column(Column::long("claim"), |job| {
                Cell::new(&job.reason).style(if job.claims { Style::Warn } else { Style::Plain })
            })
            .table()
    }
}

fn waiting(inserts: &[WaitingInsert]) -> Table {
    List::of(inserts)
        .column(Column::number("pid"), |insert| insert.pid.to_string())
        .column(Column::text("application"), |insert| insert.application.as_deref().unwrap_or_default())
        .column(Column::number("for"), |insert| insert.waiting_for.map(output::format_duration).unwrap_or_default())
        .column(Column::text("waits for"), |insert| match &insert.unique_key {
            Some(_) => "this key's holder".to_owned(),
            None => format!("{}, perhaps another", insert.waits_for),
        })
        .column(Column::text("blocked by"), |insert| match (insert.blocker_pid, &insert.blocker_application) {
            (None, _) => "a prepared transaction".to_owned(),
            (Some(pid), application) => {
                let state = insert.blocker_state.as_deref().unwrap_or("state unknown");
                format!("pid {pid} {} ({state})", application.as_deref().unwrap_or_default())
            }
        })
        .column(Column::long("its last statement"), |insert| insert.blocker_query.as_deref().unwrap_or_default())
        .table()
}
