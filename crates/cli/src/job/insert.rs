//! `uniqueue job insert`.

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};
use uniqueue::{Duplicate, Error, Inserted, JobId, NewJob, OnConflict, UniqueKey, UniquePolicy};

use super::json::JsonArgument;
use crate::Verdict;
use crate::args::QueueArguments;
use crate::database::Database;
use crate::failure::Failure;
use crate::output::{self, Moment, Span, ago, plain};

/// Insert a job.
///
/// A job that meets another one with the same unique key is a duplicate: nothing is inserted, and the one that holds the key
/// is named. What else becomes of it says on_conflict of the policy: ignore (the default here), reject, replace or
/// replace_except_schedule.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct InsertArguments {
    /// The kind: its type name
    #[arg(value_name = "KIND")]
    kind: String,

    /// The args; @FILE and - (standard input) as well
    #[arg(long, value_name = "JSON", default_value = "{}")]
    args: JsonArgument,

    /// The queue [default: default]
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,

    /// Higher runs first [default: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i16>,

    /// Attempts before it is discarded [default: 25]
    #[arg(long, value_name = "N")]
    max_attempts: Option<u16>,

    /// Run it at this time, at the earliest: RFC 3339, a date, or from now on (+2h)
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, conflicts_with_all = ["in", "pending"])]
    at: Option<Moment>,

    /// Run it this long after the insert, such as 30m
    #[arg(long, value_name = "SPAN", conflicts_with = "pending")]
    r#in: Option<Span>,

    /// Hold it back until `uniqueue job release`
    #[arg(long)]
    pending: bool,

    /// What travels along: an object
    #[arg(long, value_name = "JSON")]
    meta: Option<JsonArgument>,

    /// A policy that makes it unique, such as {"keys": ["args"], "args_keys": ["user_id"]}; {} is by kind
    #[arg(long, value_name = "JSON")]
    unique: Option<JsonArgument>,

    /// A unique key as it stands, claimed while the job waits; for other states: --unique '{"key": …, "scope": …}'
    #[arg(long, value_name = "KEY", conflicts_with = "unique")]
    key: Option<String>,

    /// Its id, a UUID: an insert that is sent again with the same is recognised [default: a new one]
    #[arg(long, value_name = "ID")]
    id: Option<JobId>,

    /// Wait no longer than this for another open transaction that has the key, such as 5s [default: for ever]
    #[arg(long, value_name = "SPAN")]
    max_wait: Option<Span>,

    #[command(flatten)]
    database: QueueArguments,
}

const EXAMPLES: &str = "\
The members of a policy are in docs/unique.md. With --json: {\"duplicate\", \"job\", \"duplicate_of\", \"replaced\"}; of an
insert that was rejected {\"rejected\": {\"holder\", …}}.

Examples:
  uniqueue job insert email.send --args '{\"user_id\": 42}' --queue emails
  uniqueue job insert report.build --args @report.json --in 30m --priority 5
  uniqueue job insert index.rebuild --key index --max-attempts 3
  uniqueue job insert email.send --args '{\"user_id\": 42}' --unique '{\"keys\": [\"args\"], \"ttl\": \"PT1H\"}'

Exit codes:
  0    inserted; or a duplicate that is ignored
  1    a duplicate that is rejected: nothing was inserted
  2    a wrong command line, bad JSON or a bad policy, or the database failed
  130  interrupted by Ctrl-C or SIGTERM before the end";

#[derive(Debug, Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    inserted: &'a Inserted,
    duplicate_of: Option<Duplicate>,
}

/// Inserts a job, and says what came of it.
pub(super) async fn run(arguments: InsertArguments) -> Result<Verdict, Failure> {
    let json = arguments.database.json;
    let mut job = job(&arguments)?;
    let database = Database::open_migrated(&arguments.database).await?;
    let client = &database.client;
    if let Some(moment) = arguments.at {
        job = job.scheduled_at(moment.at(client.database_time().await?));
    }
    let mut insert = client.insert(job);
    if let Some(Span(max_wait)) = arguments.max_wait {
        insert = insert.max_wait(max_wait);
    }
    let verdict = match insert.await {
        Ok(inserted) if json => {
            output::print_json(&Answer { duplicate_of: inserted.duplicate_of(), inserted: &inserted })?;
            Verdict::Fine
        }
        Ok(inserted) => {
            output::print(&text(&inserted))?;
            Verdict::Fine
        }
        Err(Error::Rejected(rejections)) => {
            let rejection = rejections.first();
            if json {
                output::print_json(&json!({ "rejected": rejection.map(|rejection| &rejection.duplicate) }))?;
            } else if let Some(rejection) = rejection {
                output::print(&format!(
                    "rejected, nothing was inserted: {}\n",
                    plain(&rejection.duplicate.to_string())
                ))?;
            }
            Verdict::NotFine
        }
        Err(error) => return Err(error.into()),
    };
    database.close().await?;
    Ok(verdict)
}

fn job(arguments: &InsertArguments) -> Result<NewJob, Failure> {
    let mut job = NewJob::from_json(&arguments.kind, arguments.args.raw("--args")?);
    if let Some(queue) = &arguments.queue {
        job = job.queue(queue);
    }
    if let Some(priority) = arguments.priority {
        job = job.priority(priority);
    }
    if let Some(max_attempts) = arguments.max_attempts {
        job = job.max_attempts(max_attempts);
    }
    if let Some(Span(delay)) = arguments.r#in {
        job = job.scheduled_in(delay);
    }
    if arguments.pending {
        job = job.pending();
    }
    if let Some(meta) = &arguments.meta {
        match meta.value("--meta")? {
            Value::Object(members) => {
                for (name, value) in members {
                    job = job.meta(name, value);
                }
            }
            other => {
                let hint = "give an object such as '{\"tenant\": 7}'";
                return Err(Failure::refused(format!("--meta is not an object: {other}"), hint));
            }
        }
    }
    if let Some(policy) = &arguments.unique {
        let policy = UniquePolicy::from_json_with_default(&policy.value("--unique")?, OnConflict::Ignore)?;
        job = job.unique(policy);
    }
    if let Some(key) = &arguments.key {
        job = job.unique_key(UniqueKey::raw(key));
    }
    if let Some(id) = arguments.id {
        job = job.id(id);
    }
    Ok(job)
}

fn text(inserted: &Inserted) -> String {
    if let Some(duplicate) = inserted.duplicate_of() {
        return format!("duplicate, nothing was inserted: {}\n", plain(&duplicate.to_string()));
    }
    let job = &inserted.job;
    let due = match job.scheduled_at > inserted.answered_at {
        true => format!(", due {}", ago(job.scheduled_at, inserted.answered_at)),
        false => String::new(),
    };
    let replaced = inserted.replaced.map(|id| format!(", in the place of {id}")).unwrap_or_default();
    format!("inserted {} ({}{due}{replaced})\n", job.id, job.state)
}
