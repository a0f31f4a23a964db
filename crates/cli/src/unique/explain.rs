//! `uniqueue unique explain`.

use std::future::IntoFuture;
use std::pin::pin;

use sqlx::Row;
use uniqueue::{Error, Explanation, InsertOutcome};
use uniqueue_admin::WaitingInsert;

use crate::arguments::{with_meta, with_policy};
use crate::job::show::add_group;
use crate::prelude::*;

/// Explain what an insert would do, without doing it.
///
/// It makes the key as the insert would, from the kind, the policy and the database's time, and finds the key's holder. It
/// says what the insert would do: insert the job, replace or update the holder, or return it as a duplicate. It takes no lock
/// and writes nothing, so another transaction may change the answer at any time. Options that are left
/// out have the values of the registered kind (`uniqueue kind list`).
///
/// Examples:
///   uniqueue unique explain email.send --args '{"user_id": 42}' --policy '{"keys": ["args"]}'
///   uniqueue unique explain email.send --args '{"user_id": 42}'    by the policy of the registered kind
///   uniqueue unique explain report.build --args @args.json --policy policy.json --json
///   uniqueue unique explain rebuild --key rebuild_index || echo 'the key is held'
///
/// Exit codes:
///   0    the job would be inserted
///   1    no job would be inserted, because another job claims the key; or the insert would wait for an open transaction
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(super) struct ExplainArguments {
    /// The job's kind
    kind: String,

    /// The job's args; also @FILE, or - for standard input
    #[arg(long, value_name = "JSON", default_value = "{}")]
    args: JsonArgument,

    /// The job's queue [default: the kind's, else default]
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,

    /// The job's meta, a JSON object; also @FILE, or - for standard input
    #[arg(long, value_name = "JSON", default_value = "{}")]
    meta: JsonArgument,

    /// The time at which the job is scheduled, which decides its window [default: now]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    scheduled_at: Option<TimeArgument>,

    /// The policy: a document as in `insert_job`, or the name of a file that holds one; null: the job is not unique
    /// [default: the kind's]
    #[arg(long, value_name = "JSON|FILE")]
    policy: Option<PolicyArgument>,

    /// A raw key, short for the policy {"key": …}
    #[arg(long, value_name = "KEY", conflicts_with = "policy", value_parser = unique_key)]
    key: Option<String>,
}

/// The output with --json.
#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    explanation: &'a Explanation,
    /// The transaction that the insert would wait for first.
    waits_for: Option<Blocker>,
}

pub(super) async fn explain(client: &Client, form: Form, arguments: ExplainArguments) -> Result<Answer, Failure> {
    let ExplainArguments { kind, args, queue, meta, scheduled_at, policy, key } = arguments;
    let job = with_meta(NewJob::new(&kind, &args.value("--args")?).given(queue, NewJob::queue), &meta)?;
    let mut job = client.fill_in(with_policy(job, policy.as_ref(), key.as_deref(), NewJob::unique)?).await?;
    if let Some(at) = scheduled_at {
        job = job.scheduled_at(at.at(client.database_time().await?));
    }
    let explanation = client.explain(job.clone()).await?;
    let waits_for = match (&explanation.holder, &explanation.unique_key) {
        (None, Some(_)) => would_wait(client, job).await?,
        _ => None,
    };
    let mut record = text(&explanation, waits_for.as_ref());
    if let Some(holder) = explanation.holder.as_ref().filter(|_| !form.json)
        && let Some(holder) = client.job(holder.holder).await?
    {
        add_group(&mut record, client, &holder).await?;
        let first = Admin::new(client).why(holder.id).await?.into_iter().next();
        let waits = first.filter(|first| first.code.is_obstacle());
        record.optional_field("why it waits", waits.map(|first| first.reason));
    }
    let is_inserted_at_once = explanation.outcome == InsertOutcome::Inserted && waits_for.is_none();
    let report = Report { explanation: &explanation, waits_for };
    let verdict = if is_inserted_at_once { Verdict::Fine } else { Verdict::NotFine };
    Ok(form.object(&report, |_| format!("{}\n", record.draw()))?.verdict(verdict))
}

fn text(explanation: &Explanation, waits_for: Option<&Blocker>) -> Record {
    let Explanation { canonical, unique_key, would_claim_in, holder, new_args, new_scheduled_at, .. } = explanation;
    let mut record = Record::new();
    record.optional_field("canonical", canonical.as_ref());
    record.optional_field("unique key", unique_key.as_ref());
    record.field("the job", answer(explanation, waits_for));
    if unique_key.is_some() {
        record.field("its claim", format!("while {would_claim_in}"));
    }
    if let Some(holder) = holder {
        record.field("holder", holder.holder.to_string());
        record.field("its state", holder.holder_state.to_string());
        record.field("its age", output::format_duration(holder.holder_age));
        record.field("claims in", holder.claims_in.to_string());
        record.field("free", holder.frees());
    }
    record.optional_field("its new args", new_args.as_ref().map(|args| args.get()));
    record.optional_field("its new due time", new_scheduled_at.map(output::format_time));
    record
}

/// The effect that the insert would have.
fn answer(explanation: &Explanation, waits_for: Option<&Blocker>) -> Cell {
    let Explanation { outcome, unique_key, replaced, holder, .. } = explanation;
    let state = holder.as_ref().map(|holder| holder.holder_state);
    let (text, style) = match (outcome, state, waits_for) {
        (_, None, Some(blocker)) => {
            return Cell::new(format!("would wait for {}, which holds the key", blocker.text())).style(Style::Warn);
        }
        (InsertOutcome::Inserted, None, None) if unique_key.is_none() => {
            ("would be inserted: it is not unique, since neither the kind nor --policy says how", Style::Good)
        }
        (InsertOutcome::Inserted, None, None) => ("would be inserted: no job claims the key", Style::Good),
        (InsertOutcome::Inserted, Some(JobState::Running), _) if replaced.is_some() => {
            ("would be inserted, and replace the holder, which runs and is cancelled", Style::Warn)
        }
        (InsertOutcome::Inserted, _, _) if replaced.is_some() => {
            ("would be inserted, and replace the holder", Style::Good)
        }
        (InsertOutcome::Inserted, _, _) => {
            ("would be inserted: the holder is full, and gives up its claim", Style::Good)
        }
        (InsertOutcome::Updated, _, _) => ("would update the holder", Style::Good),
        (InsertOutcome::Covered, _, _) => {
            ("would be covered: the holder starts after the insert has committed", Style::Good)
        }
        (InsertOutcome::Duplicate, _, _) => ("would be a duplicate: another job claims the key", Style::Warn),
        (InsertOutcome::Rejected, _, _) => ("would be rejected: another job claims the key", Style::Warn),
    };
    Cell::new(text).style(style)
}

/// How long the trial waits before the answer is that it waits.
const MAX_WAIT: Duration = Duration::from_millis(300);

/// How often the blocker is looked for meanwhile.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The transaction that an insert would wait for.
#[derive(Debug, Serialize)]
pub(super) struct Blocker {
    /// The process id of its session. `None`: a prepared transaction, or one that ended in the meantime.
    pid: Option<i32>,
    application: Option<String>,
    state: Option<String>,
}

impl Blocker {
    /// Such as `the open transaction of pid 17 billing (idle in transaction)`.
    pub(super) fn text(&self) -> String {
        let Some(pid) = self.pid else { return "an open transaction".to_owned() };
        let application = self.application.as_deref().map(|name| format!(" {name}")).unwrap_or_default();
        let state = self.state.as_deref().map(|state| format!(" ({state})")).unwrap_or_default();
        format!("the open transaction of pid {pid}{application}{state}")
    }
}

/// Inserts a job whose key no job claims, and rolls back. Returns the transaction that the insert waits for. `None`: it
/// does not wait, or the role may not insert.
pub(super) async fn would_wait(client: &Client, job: NewJob) -> Result<Option<Blocker>, Failure> {
    let mut tx = client.pool().begin().await?;
    let pid: i32 = sqlx::query("SELECT pg_backend_pid()").fetch_one(&mut *tx).await?.try_get(0)?;
    let mut blocker = None;
    let tried = {
        let mut trying = pin!(client.insert(job).max_wait(MAX_WAIT).tx(&mut tx).into_future());
        loop {
            tokio::select! {
                tried = &mut trying => break tried,
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
            if blocker.is_none() {
                blocker = Admin::new(client).waiting_inserts().await?.into_iter().find(|insert| insert.pid == pid);
            }
        }
    };
    tx.rollback().await?;
    match tried {
        Err(Error::Busy { .. }) => Ok(Some(blocker.map_or(
            Blocker { pid: None, application: None, state: None },
            |WaitingInsert { blocker_pid, blocker_application, blocker_state, .. }| Blocker {
                pid: blocker_pid,
                application: blocker_application,
                state: blocker_state,
            },
        ))),
        // A full queue has nothing to do with the key.
        Err(Error::QueueFull { .. }) => Ok(None),
        Err(error) if may_not_insert(&error) => Ok(None),
        Err(error) => Err(error.into()),
        Ok(_) => Ok(None),
    }
}

/// Whether the role has no right to insert, or the server is a standby.
fn may_not_insert(error: &Error) -> bool {
    let Error::Database(sqlx::Error::Database(error)) = error else { return false };
    matches!(error.code().as_deref(), Some("42501" | "25006"))
}
