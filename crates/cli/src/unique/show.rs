//! `uniqueue unique show`.

use serde::Serialize;
use time::OffsetDateTime;
use uniqueue::{Client, Duplicate, JobId, JobRow, JobState, SuppressedDuplicate, WaitingInsert};

use super::args::ShowArguments;
use super::audit::counters;
use crate::Verdict;
use crate::database::Database;
use crate::failure::Failure;
use crate::output::{self, Cell, Column, Record, Style, Table};

/// The shortest beginning of a hash that stands for it.
const SHORTEST: usize = 8;

/// How long a hash is, in hexadecimal.
const HASH: usize = 64;

/// All about one key.
#[derive(Debug, Serialize)]
struct Key {
    unique_key: String,
    /// Who claims it; null: nobody.
    holder: Option<Duplicate>,
    holder_kind: Option<String>,
    holder_queue: Option<String>,
    /// When the holder's claim ends, as a sentence.
    frees: Option<String>,
    /// The jobs that have the key, the youngest first.
    jobs: Vec<Had>,
    /// Among how many of the last jobs they were sought.
    looked_at: u32,
    /// Inserts of audited kinds that were duplicates.
    suppressed: Vec<SuppressedDuplicate>,
    /// Inserts that wait because of the holder, or of a key that cannot be seen from outside.
    waiting_inserts: Vec<WaitingInsert>,
}

/// A job that has the key.
#[derive(Debug, Serialize)]
struct Had {
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
    /// Why it does, or does not.
    why: String,
}

pub(super) async fn run(arguments: ShowArguments) -> Result<Verdict, Failure> {
    let ShowArguments { key, look_at, queue } = arguments;
    let database = Database::open_migrated(&queue).await?;
    let client = &database.client;
    let unique_key = sought(client, &key).await?;
    let now = now(&database).await?;
    let holder = client.claims().from(&unique_key).limit(1).await?.pop();
    let holder = holder.filter(|holder| holder.claim.unique_key == unique_key);
    let jobs = client.key_history(&unique_key, look_at).await?;
    let suppressed = client.suppressed_duplicates().unique_key(&unique_key).await?;
    let mut waiting_inserts = client.waiting_inserts().await?;
    waiting_inserts.retain(|insert| insert.unique_key.as_ref().is_none_or(|key| *key == unique_key));
    database.close().await?;
    let key = Key {
        unique_key,
        holder_kind: holder.as_ref().map(|holder| holder.kind.to_string()),
        holder_queue: holder.as_ref().map(|holder| holder.queue.to_string()),
        frees: holder.as_ref().map(|holder| holder.claim.frees()),
        holder: holder.map(|holder| holder.claim),
        jobs: jobs.iter().map(|job| had(job, now)).collect(),
        looked_at: look_at,
        suppressed,
        waiting_inserts,
    };
    if queue.json {
        output::print_json(&key)?;
    } else {
        output::print(&key.text(now))?;
    }
    let is_known = key.holder.is_some() || !key.jobs.is_empty() || !key.suppressed.is_empty();
    Ok(if is_known { Verdict::Fine } else { Verdict::NotFine })
}

/// The database's time.
pub(super) async fn now(database: &Database) -> Result<OffsetDateTime, Failure> {
    Ok(database.client.database_time().await?)
}

/// The key that somebody means: in full, a job's, or the one claimed key that begins so.
async fn sought(client: &Client, given: &str) -> Result<String, Failure> {
    if let Ok(id) = given.parse::<JobId>()
        && let Some(job) = client.job(id).await?
    {
        return job.unique_key.ok_or_else(|| {
            Failure::refused(
                format!("job {id} has no unique key"),
                "it is never a duplicate, and never in the way of one",
            )
        });
    }
    let is_hex = given.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_hex || !(SHORTEST..=HASH).contains(&given.len()) || client.holder(given).await?.is_some() {
        return Ok(given.to_owned());
    }
    let lower = given.to_ascii_lowercase();
    if given.len() == HASH {
        return Ok(lower);
    }
    let mut found = client.claims().prefix(&lower).limit(2).await?;
    match (found.pop(), found.pop()) {
        (Some(only), None) => Ok(only.claim.unique_key),
        (Some(_), Some(_)) => Err(Failure::refused(
            format!("several claimed keys begin with {given}"),
            format!("see `uniqueue unique holders --prefix {lower}`"),
        )),
        _ => Ok(given.to_owned()),
    }
}

fn had(job: &JobRow, now: OffsetDateTime) -> Had {
    let is_expired = job.unique_until.is_some_and(|until| until <= now);
    let states = job.unique_states.unwrap_or_default();
    let why = if job.claims && !is_expired {
        "claims the key".to_owned()
    } else if let Some(successor) = job.replaced_by {
        format!("job {successor} took its place")
    } else if is_expired {
        "its claim has expired".to_owned()
    } else if states.is_empty() {
        "gave its claim up for good: released, expired or started".to_owned()
    } else if !states.contains(job.state) {
        format!("claims only in {states}")
    } else {
        "came back while another job held the key, and goes on without".to_owned()
    };
    Had {
        id: job.id,
        kind: job.kind.to_string(),
        queue: job.queue.to_string(),
        state: job.state,
        created_at: job.created_at,
        finalized_at: job.finalized_at,
        replaced_by: job.replaced_by,
        claims: job.claims && !is_expired,
        why,
    }
}

impl Key {
    fn text(&self, now: OffsetDateTime) -> String {
        let mut record = Record::new();
        record.cell("unique key", &self.unique_key);
        match &self.holder {
            None => record.cell("claimed by", Cell::new("nobody: an insert goes in").style(Style::Good)),
            Some(holder) => {
                record.cell("claimed by", Cell::new(format!("job {}", holder.holder)).style(Style::Warn));
                record.some("kind", self.holder_kind.as_ref());
                record.some("queue", self.holder_queue.as_ref());
                record.cell("state", holder.holder_state.to_string());
                record.cell("inserted", format!("{} ago", output::span(holder.holder_age)));
                record.cell("claims in", holder.claims_in.to_string());
                record.some(
                    "expires",
                    holder.unique_until.map(|at| format!("{} ({})", output::time(at), output::ago(at, now))),
                );
                record.some("free", self.frees.as_ref());
                record.cell("an insert", "is a duplicate: it gets this job, or under reject an error that names it");
            }
        }
        let mut text = format!(
            "{}\n\nJobs with this key, among the last {}\n",
            record.draw(),
            output::count(self.looked_at.into())
        );
        text.push_str(&self.history(now).text());
        if !self.suppressed.is_empty() {
            text.push_str(&format!("\nSuppressed duplicates\n{}", counters(&self.suppressed, now).text()));
        }
        if !self.waiting_inserts.is_empty() {
            text.push_str(&format!("\nInserts that wait now\n{}", waiting(&self.waiting_inserts).text()));
        }
        text
    }

    fn history(&self, now: OffsetDateTime) -> Table {
        let mut table = Table::new([
            Column::text("job"),
            Column::text("kind"),
            Column::text("state"),
            Column::number("inserted"),
            Column::long("claim"),
        ]);
        for job in &self.jobs {
            let style = if job.claims { Style::Warn } else { Style::Plain };
            table.row([
                Cell::new(job.id.to_string()),
                Cell::new(&job.kind),
                Cell::new(job.state.as_str()),
                Cell::new(output::ago(job.created_at, now)),
                Cell::new(&job.why).style(style),
            ]);
        }
        table
    }
}

fn waiting(inserts: &[WaitingInsert]) -> Table {
    let mut table = Table::new([
        Column::number("pid"),
        Column::text("application"),
        Column::number("for"),
        Column::text("waits for"),
        Column::text("blocked by"),
        Column::long("which runs, or ran last"),
    ]);
    for insert in inserts {
        let blocker = match (insert.blocker_pid, &insert.blocker_application) {
            (None, _) => "a prepared transaction".to_owned(),
            (Some(pid), application) => {
                let state = insert.blocker_state.as_deref().unwrap_or("state unknown");
                format!("pid {pid} {} ({state})", application.as_deref().unwrap_or_default())
            }
        };
        let waits_for = match &insert.unique_key {
            Some(_) => "this key's holder".to_owned(),
            None => format!("{}, perhaps another", insert.waits_for),
        };
        table.row([
            insert.pid.to_string(),
            insert.application.clone().unwrap_or_default(),
            insert.waiting_for.map(output::span).unwrap_or_default(),
            waits_for,
            blocker,
            insert.blocker_query.clone().unwrap_or_default(),
        ]);
    }
    table
}
