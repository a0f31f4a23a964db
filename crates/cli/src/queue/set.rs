//! `uniqueue queue limit|max-waiting|rate|retention`.

use uniqueue::{Keep, QueueChanges, QueueSettings, Rate};
use uniqueue_admin::QueueInfo;

use crate::prelude::*;

/// Limit how many of a queue's jobs, or of each of its groups, run at once, over all runners.
///
/// With --per-group the limit is that of each group. --fair lets groups, and the jobs without a group as one more, take
/// turns within a priority. Running jobs are finished. Fetches from a limited queue wait for each other, so a limit suits queues that run few jobs at
/// once.
///
/// ***
///
/// With --json it prints one object: {"name", "paused_at", "limit", "keep_completed", …}.
///
/// Examples:
///   uniqueue queue limit geocoding 5
///   uniqueue queue limit geocoding none
///   uniqueue queue limit emails 3 --per-group
///   uniqueue queue limit emails --fair yes
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(super) struct LimitArguments {
    /// The queue
    #[arg(value_name = "NAME")]
    name: String,

    /// The limit, at least 1; none: as many as the runners have slots for
    #[arg(value_name = "N", required_unless_present = "fair", value_parser = limit_or_none)]
    limit: Option<OrNone<u32>>,

    /// The limit is that of each group; none: as many as the jobs themselves allow
    #[arg(long, requires = "limit")]
    per_group: bool,

    /// Whether groups, and the jobs without a group as one more, take turns
    #[arg(long, value_name = "YES|NO")]
    fair: Option<YesOrNo>,
}

/// Set or show how long a queue's final jobs are kept.
///
/// Without options it shows the retention. A state that is not given keeps its retention, at first that of the runners: a
/// day for completed and cancelled jobs and a week for discarded jobs, unless configured. Zero deletes completed jobs as they
/// complete. A job whose claim has a deadline is kept until then. Runners apply a change after their next heartbeat.
///
/// ***
///
/// With --json it prints one object: {"name", "paused_at", "limit", "keep_completed", "keep_cancelled",
/// "keep_discarded"}. A retention is a number of seconds, "forever", or null for that of the
/// runners.
///
/// Examples:
///   uniqueue queue retention emails
///   uniqueue queue retention emails --completed 1h --discarded 30d
///   uniqueue queue retention pings --completed 0s
///   uniqueue queue retention audits --completed forever --cancelled forever --discarded forever
///   uniqueue queue retention emails --as-runners-say
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(super) struct RetentionArguments {
    /// The queue
    #[arg(value_name = "NAME")]
    name: String,

    /// How long completed jobs are kept: such as 12h; forever; or runners, for the runners' retention
    #[arg(long, value_name = "DURATION", value_parser = keep)]
    completed: Option<Keep>,

    /// How long cancelled jobs are kept
    #[arg(long, value_name = "DURATION", value_parser = keep)]
    cancelled: Option<Keep>,

    /// How long discarded jobs are kept
    #[arg(long, value_name = "DURATION", value_parser = keep)]
    discarded: Option<Keep>,

    /// Use the runners' retention for all of them, as before anything was set
    #[arg(long, conflicts_with_all = ["completed", "cancelled", "discarded"])]
    as_runners_say: bool,
}

/// Limit how many available jobs a queue may have.
///
/// An insert that would exceed the limit is refused. Available jobs are due and not started. Scheduled, retryable and pending
/// jobs do not count. Duplicates are answered as ever. Retries, releases, scheduled jobs whose time comes and periodic jobs are
/// never refused, and jobs that wait already stay.
///
/// The first limit of a schema, and removing the last one, wait up to 7 seconds for open transactions that write jobs.
///
/// ***
///
/// With --json it prints one object: {"name", "paused_at", "limit", "max_waiting", …}.
///
/// Examples:
///   uniqueue queue max-waiting imports 10000
///   uniqueue queue max-waiting imports none
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(super) struct MaxWaitingArguments {
    /// The queue
    #[arg(value_name = "NAME")]
    name: String,

    /// The limit, at least 1; none: any number
    #[arg(value_name = "N", value_parser = limit_or_none)]
    limit: OrNone<u32>,
}

/// Set how many of a queue's jobs, or of each of its groups, start in a time, over all runners.
///
/// Jobs over the rate stay available. In any length of time t, at most the burst and count times t divided by the period
/// start. A start counts whatever becomes of the job.
///
/// ***
///
/// With --json it prints one object: {"name", "paused_at", "rate": {"count", "period", "burst"}, "group_rate", …}.
/// A period is a number of seconds.
///
/// Examples:
///   uniqueue queue rate geocoding 10/1s
///   uniqueue queue rate geocoding 10/1s --burst 1
///   uniqueue queue rate emails 100/1h --per-group
///   uniqueue queue rate geocoding none
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(super) struct RateArguments {
    /// The queue
    #[arg(value_name = "NAME")]
    name: String,

    /// A count and a period, such as 10/1s or 100/1h; none: any number
    #[arg(value_name = "COUNT/PERIOD", value_parser = rate_or_none)]
    rate: OrNone<Rate>,

    /// How many start at once after a time without starts; default: the count. With 1 they are evenly spaced
    #[arg(long, value_name = "N")]
    burst: Option<u32>,

    /// The rate is that of each group
    #[arg(long)]
    per_group: bool,
}

/// The values of --fair.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum YesOrNo {
    Yes,
    No,
}

/// A value that may be `none`. It has another name, because clap takes an `Option` for an argument that may be left out.
type OrNone<T> = Option<T>;

fn limit_or_none(given: &str) -> Result<OrNone<u32>, &'static str> {
    match given {
        "none" => Ok(None),
        number => number.parse().map(Some).map_err(|_| "expected a number, or none"),
    }
}

fn rate_or_none(given: &str) -> Result<OrNone<Rate>, &'static str> {
    if given == "none" {
        return Ok(None);
    }
    let parsed = given.split_once('/').and_then(|(count, period)| {
        let DurationArgument(period) = period.parse().ok()?;
        Some(Rate::per(count.trim().parse().ok()?, period))
    });
    parsed.map(Some).ok_or("expected a count and a period such as 10/1s, or none")
}

fn keep(given: &str) -> Result<Keep, String> {
    match given {
        "forever" => Ok(Keep::Forever),
        "runners" => Ok(Keep::AsRunnersSay),
        length => match length.parse() {
            Ok(DurationArgument(length)) => Ok(Keep::For(length)),
            Err(error) => Err(format!("{error}, or forever, or runners")),
        },
    }
}

/// Limits a queue.
pub(super) async fn limit(client: &Client, form: &Form, arguments: LimitArguments) -> Result<Answer, Failure> {
    let LimitArguments { name, limit, per_group, fair } = arguments;
    let set_limit = if per_group { QueueChanges::group_limit } else { QueueChanges::limit };
    let changes = QueueChanges::new()
        .given(limit, set_limit)
        .given(fair, |changes, fair| changes.fair(matches!(fair, YesOrNo::Yes)));
    let text = |settings: &QueueSettings| limits(settings, limit.is_some(), per_group, fair.is_some());
    set(client, form, &name, changes, text).await
}

/// The queue's new settings, in words.
fn limits(settings: &QueueSettings, is_limit: bool, per_group: bool, is_fair: bool) -> String {
    let (limit, of, none) = match per_group {
        true => (settings.group_limit, " of each group", "has no limit for its groups but the jobs' own"),
        false => (settings.limit, "", "has no limit but the runners' own"),
    };
    let limit = match limit {
        Some(1) => format!("runs 1 job{of} at once, over all runners"),
        Some(limit) => format!("runs up to {limit} jobs{of} at once, over all runners"),
        None => none.to_owned(),
    };
    let fair = if settings.fair { "lets its groups take turns" } else { "does not let its groups take turns" };
    match (is_limit, is_fair) {
        (true, true) => format!("{limit}, and {fair}"),
        (_, false) => limit,
        (false, true) => fair.to_owned(),
    }
}

/// Limits how many jobs of a queue wait.
pub(super) async fn max_waiting(
    client: &Client,
    form: &Form,
    MaxWaitingArguments { name, limit }: MaxWaitingArguments,
) -> Result<Answer, Failure> {
    set(client, form, &name, QueueChanges::new().max_waiting(limit), |settings| match settings.max_waiting {
        Some(limit) => format!("takes inserts until {} wait", output::counted(u64::from(limit), "job")),
        None => "takes inserts however many jobs wait".to_owned(),
    })
    .await
}

/// Sets the rate of a queue.
pub(super) async fn rate(client: &Client, form: &Form, arguments: RateArguments) -> Result<Answer, Failure> {
    let RateArguments { name, rate, burst, per_group } = arguments;
    let rate = rate.map(|rate| rate.burst(burst.unwrap_or(rate.burst)));
    let changes = QueueChanges::new();
    let changes = if per_group { changes.group_rate(rate) } else { changes.rate(rate) };
    let jobs = if per_group { "jobs of each group" } else { "jobs" };
    set(client, form, &name, changes, |settings| match if per_group { settings.group_rate } else { settings.rate } {
        Some(rate) => format!("starts {jobs} at a rate of {rate}, over all runners"),
        None => format!("starts {jobs} at any rate"),
    })
    .await
}

/// Sets or shows how long jobs are kept.
pub(super) async fn retention(client: &Client, form: &Form, arguments: RetentionArguments) -> Result<Answer, Failure> {
    let RetentionArguments { name, completed, cancelled, discarded, as_runners_say } = arguments;
    let all = as_runners_say.then_some(Keep::AsRunnersSay);
    let changes = QueueChanges::new()
        .given(completed.or(all), QueueChanges::keep_completed)
        .given(cancelled.or(all), QueueChanges::keep_cancelled)
        .given(discarded.or(all), QueueChanges::keep_discarded);
    set(client, form, &name, changes, |settings| {
        let kept = [settings.keep_completed, settings.keep_cancelled, settings.keep_discarded];
        if kept == [Keep::AsRunnersSay; 3] {
            return "keeps its final jobs as the runners are configured".to_owned();
        }
        let [completed, cancelled, discarded] = kept.map(|keep| match keep {
            Keep::AsRunnersSay => "as the runners are configured".to_owned(),
            Keep::Forever => "forever".to_owned(),
            Keep::For(length) => format_duration(length),
        });
        format!("keeps completed jobs {completed}, cancelled ones {cancelled}, discarded ones {discarded}")
    })
    .await
}

/// Changes the settings of a queue, and answers with them. Without changes it only answers.
async fn set(
    client: &Client,
    form: &Form,
    name: &str,
    changes: QueueChanges,
    text: impl Fn(&QueueSettings) -> String,
) -> Result<Answer, Failure> {
    let queue = client.queue(name);
    let before = queue.settings().await?;
    if changes.is_empty() {
        return told(form, &before, None, &text(&before));
    }
    let after = queue.set(changes).actor(own_name()).await?;
    Ok(told(form, &after, None, &text(&after))?.notes(notes(client, &before).await))
}

/// A note if a queue had no settings, no live runner and no recent job: its name may be a typing error. A check that fails
/// after the change does not affect it.
pub(super) async fn notes(client: &Client, before: &QueueSettings) -> Vec<String> {
    let is_set = |(setting, value): (&String, &Value)| setting != "name" && !value.is_null() && *value != json!(false);
    if json!(before).as_object().is_some_and(|settings| settings.iter().any(is_set)) {
        return Vec::new();
    }
    let Ok(queues) = Admin::new(client).queues().count_up_to(1).await else { return Vec::new() };
    let has_jobs = |queue: &QueueInfo| JobState::ALL.iter().any(|state| queue.count(*state).counted() > 0);
    let is_this = |queue: &&QueueInfo| queue.settings.name == before.name;
    if queues.iter().find(is_this).is_some_and(|queue| queue.runners > 0 || has_jobs(queue)) {
        return Vec::new();
    }
    let name = before.name.as_str();
    vec![format!("note: this queue has no live runner and no recent job; is its name right? {name:?}")]
}

/// The settings of a queue, and with JSON whether the command changed them where that is known.
pub(super) fn told(
    form: &Form,
    settings: &QueueSettings,
    changed: Option<bool>,
    text: &str,
) -> Result<Answer, Failure> {
    #[derive(Serialize)]
    struct Settings<'a> {
        #[serde(flatten)]
        settings: &'a QueueSettings,
        #[serde(skip_serializing_if = "Option::is_none")]
        changed: Option<bool>,
    }
    form.part(&Settings { settings, changed }, &format!("queue {} {text}\n", printable(settings.name.as_str())))
}
