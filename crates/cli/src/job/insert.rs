//! `uniqueue job insert`.

use uniqueue::{Duplicate, Error, Inserted, Waited};

use super::wait;
use crate::arguments::{expires_in_or_never, with_meta, with_policy};
use crate::prelude::*;

/// Insert a job.
///
/// Options that are left out have the values of the registered kind (`uniqueue kind list`), or else their own defaults.
/// --policy null and --group-policy null insert the job without the kind's policy.
///
/// A job whose unique key another job holds is a duplicate. By default nothing is inserted, and the command names the
/// holder. The policy's on_conflict changes that: ignore (the default here), reject, replace,
/// replace_except_schedule, preempt, update or run_again. The text says what became of it: inserted, duplicate, rejected,
/// updated (the holder was changed) or covered (the holder waits, and starts after this insert).
///
/// ***
///
/// `\df+ uniqueue.unique_key` in psql lists the members of a policy. With --json it prints {"duplicate", "updated", "covered", "job", "duplicate_of", "replaced"},
/// or {"rejected": {"holder", …}} for a rejected insert. --wait adds {"waited", "result"}: final, gone or timed_out, and the
/// final job.
///
/// Examples:
///   uniqueue job insert email.send --args '{"user_id": 42}' --queue emails
///   uniqueue job insert report.build --args @report.json --in 30m --priority 5
///   uniqueue job insert index.rebuild --key index --max-attempts 3
///   uniqueue job insert email.send --args '{"user_id": 42}' --policy '{"keys": ["args"], "ttl": "PT1H"}'
///   uniqueue job insert report.send --after 019abc12-3456-7def-8a12-3456789abcde
///   uniqueue job insert index.rebuild --args '{"index": "mail"}' --policy '{"keys": ["args"]}' --one-at-a-time
///
/// Exit codes:
///   0    inserted, updated, covered, or ignored as a duplicate; with --wait: the job completed
///   1    rejected as a duplicate: nothing was inserted; with --wait: the job did not complete in time
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(super) struct InsertArguments {
    /// The kind, the job's type name
    #[arg(value_name = "KIND")]
    kind: String,

    /// The args; also @FILE, or - for standard input
    #[arg(long, value_name = "JSON", default_value = "{}")]
    args: JsonArgument,

    /// The queue [default: the kind's, else default]
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,

    /// Higher runs first [default: the kind's, else 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i16>,

    /// The number of attempts before it is discarded [default: the kind's, else 25]
    #[arg(long, value_name = "N")]
    max_attempts: Option<u16>,

    /// The earliest time to run it: RFC 3339, a date, or relative to now (+2h)
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, conflicts_with_all = ["in", "pending"])]
    at: Option<TimeArgument>,

    /// Run it this long after the insert, such as 30m
    #[arg(long, value_name = "DURATION", conflicts_with = "pending")]
    r#in: Option<DurationArgument>,

    /// Discard the job if it has not started by this time: RFC 3339, a date, or relative to now (+2h)
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, conflicts_with = "expires_in")]
    expires_at: Option<TimeArgument>,

    /// Discard the job if it has not started this long after it is due; 0: the job does not expire [default: the
    /// kind's, else 0]
    #[arg(long, value_name = "DURATION")]
    expires_in: Option<DurationArgument>,

    /// Hold it back until `uniqueue job release`
    #[arg(long)]
    pending: bool,

    /// The meta, a JSON object that is stored with the job
    #[arg(long, value_name = "JSON")]
    meta: Option<JsonArgument>,

    /// A unique policy, such as {"keys": ["args"], "args_keys": ["user_id"]}; {} means unique by kind [default: the
    /// kind's, else none]
    #[arg(long, value_name = "JSON|FILE")]
    policy: Option<PolicyArgument>,

    /// A raw unique key, claimed until the job is final; short for --policy '{"key": …}'
    #[arg(long, value_name = "KEY", conflicts_with = "policy", value_parser = unique_key)]
    key: Option<String>,

    /// The group that the job belongs to within its queue: 1 to 512 bytes
    #[arg(long, value_name = "KEY", group = "grouping")]
    group: Option<String>,

    /// A policy that makes the group's key from the job, such as {"keys": ["args"], "args_keys": ["customer"]}
    #[arg(long, value_name = "JSON|FILE", group = "grouping")]
    group_policy: Option<PolicyArgument>,

    /// Start it only while fewer jobs of its group run
    #[arg(long, value_name = "N", requires = "grouping")]
    group_limit: Option<u16>,

    /// Run the jobs of the group one at a time, in their order
    #[arg(long, requires = "grouping")]
    in_order: bool,

    /// Of the jobs that --policy calls the same, run one and let one wait; the policy's states and answers are set
    #[arg(long, requires = "policy", conflicts_with = "grouping")]
    one_at_a_time: bool,

    /// Run the job after this job has completed; cancel it if this job is cancelled or discarded. Several ids: repeat
    /// the option, or separate them with commas
    #[arg(long, value_name = "ID", value_delimiter = ',', conflicts_with = "pending")]
    after: Vec<JobId>,

    /// Run the job after this job has ended, in any final state
    #[arg(long, value_name = "ID", value_delimiter = ',', conflicts_with = "pending")]
    after_final: Vec<JobId>,

    /// Run the job after these jobs have ended, if one of them was cancelled or discarded
    #[arg(long, value_name = "ID", value_delimiter = ',', conflicts_with = "pending")]
    after_failed: Vec<JobId>,

    /// The id, a UUID; an insert that is sent again with the same id is recognised [default: a new id]
    #[arg(long, value_name = "ID")]
    id: Option<JobId>,

    /// The longest wait for another open transaction that has the key, such as 5s [default: no limit]
    #[arg(long, value_name = "DURATION")]
    max_wait: Option<DurationArgument>,

    /// Wait for the job's result after the insert, this long at most
    #[arg(long, value_name = "DURATION")]
    wait: Option<DurationArgument>,
}

#[derive(Debug, Serialize)]
struct Outcome<'a> {
    #[serde(flatten)]
    inserted: &'a Inserted,
    duplicate_of: Option<Duplicate>,
    #[serde(flatten)]
    waited: Option<Waiting<'a>>,
}

/// The fields that --wait adds.
#[derive(Debug, Serialize)]
struct Waiting<'a> {
    waited: &'static str,
    result: Option<&'a JobRow>,
}

/// Inserts a job and prints the outcome.
pub(super) async fn run(arguments: InsertArguments, database: &DatabaseArguments) -> Result<Verdict, Failure> {
    let mut job = job(&arguments)?;
    let InsertArguments { at, expires_at, max_wait, wait, .. } = arguments;
    let question = async |client: &Client, form: Form| {
        job = client.fill_in(job).await?;
        if at.is_some() || expires_at.is_some() {
            let now = client.database_time().await?;
            job = job
                .given(at, |job, moment| job.scheduled_at(moment.at(now)))
                .given(expires_at, |job, moment| job.expires_at(moment.at(now)));
        }
        let insert = client.insert(job).given(max_wait, |insert, DurationArgument(limit)| insert.max_wait(limit));
        let answered = match wait {
            Some(DurationArgument(timeout)) => {
                insert.wait(timeout).await.map(|(inserted, waited)| (inserted, Some(waited)))
            }
            None => insert.await.map(|inserted| (inserted, None)),
        };
        match answered {
            Ok((inserted, waited)) => inserted_answer(&inserted, waited.as_ref(), &form),
            Err(Error::Rejected(rejections)) => {
                let duplicate = rejections.first().and_then(|rejection| rejection.duplicate.as_ref());
                let said = duplicate.map(|duplicate| printable(&duplicate.to_string()).into_owned());
                let text = said.map(|said| format!("rejected, nothing was inserted: {said}\n")).unwrap_or_default();
                Ok(form.message(&json!({ "rejected": duplicate }), text)?.verdict(Verdict::NotFine))
            }
            Err(error) => Err(error.into()),
        }
    };
    Database::open_to_insert(database).await?.ask(database, question).await
}

fn inserted_answer(inserted: &Inserted, waited: Option<&Waited>, form: &Form) -> Result<Answer, Failure> {
    let waiting = waited.map(|waited| Waiting { waited: wait::name(waited), result: waited.job() });
    let outcome = Outcome { inserted, duplicate_of: inserted.duplicate_of(), waited: waiting };
    let answer = form.object(&outcome, |_| {
        // A result may be JSON, which is not wrapped.
        let result = waited.map(|waited| wait::text(inserted.id(), waited)).unwrap_or_default();
        format!("{}{result}", output::wrapped(&text(inserted)))
    })?;
    Ok(answer.verdict(waited.map_or(Verdict::Fine, wait::verdict)))
}

fn job(arguments: &InsertArguments) -> Result<NewJob, Failure> {
    let mut job = NewJob::from_json(&arguments.kind, arguments.args.raw("--args")?)
        .given(arguments.queue.as_ref(), NewJob::queue)
        .given(arguments.priority, NewJob::priority)
        .given(arguments.max_attempts, NewJob::max_attempts)
        .given(arguments.r#in, |job, DurationArgument(delay)| job.scheduled_in(delay))
        .given(arguments.expires_in, expires_in_or_never)
        .given_flag(arguments.pending, NewJob::pending)
        .given(arguments.group.as_ref(), NewJob::group)
        .given(arguments.id, NewJob::id);
    if let Some(meta) = &arguments.meta {
        job = with_meta(job, meta)?;
    }
    let unique = if arguments.one_at_a_time { NewJob::one_at_a_time } else { NewJob::unique };
    job = with_policy(job, arguments.policy.as_ref(), arguments.key.as_deref(), unique)?;
    if let Some(policy) = &arguments.group_policy {
        job = match policy.policy_or_none("--group-policy")? {
            Some(policy) => job.group_by(policy),
            None => job.not_grouped(),
        };
    }
    job = job.given(arguments.group_limit, NewJob::group_limit).given_flag(arguments.in_order, NewJob::in_order);
    Ok(job.after(&arguments.after).after_final(&arguments.after_final).after_failed(&arguments.after_failed))
}

fn text(inserted: &Inserted) -> String {
    if let Some(duplicate) = inserted.duplicate_of() {
        let outcome = match (inserted.updated, inserted.covered) {
            (true, _) => "updated, the holder was changed",
            (_, true) => "covered, the holder starts after this insert",
            _ => "duplicate, nothing was inserted",
        };
        return format!("{outcome}: {}\n", printable(&duplicate.to_string()));
    }
    let job = &inserted.job;
    let due = match job.scheduled_at > inserted.answered_at {
        true => format!(", due {}", format_relative(job.scheduled_at, inserted.answered_at)),
        false => String::new(),
    };
    let replaced = inserted.replaced.map(|id| format!(", replacing {id}")).unwrap_or_default();
    format!("inserted {} ({}{due}{replaced})\n", job.id, job.state)
}
