//! `uniqueue stats`: jobs by state, rates and waits, once or at an interval.

mod since;

use uniqueue::Places;
use uniqueue_admin::{Finished, Percentiles, Stats};

use self::since::Past;
use crate::database::Source;
use crate::exit::until_interrupted;
use crate::prelude::*;

/// How many lines of --watch follow each header.
const HEADER_EVERY: u64 = 20;

/// Show jobs by state, rates and waits.
///
/// It prints the jobs by state, the rates, the age of the oldest available job, and how long jobs waited and ran. A count
/// beyond --count-up-to is estimated from a part of the table, as ~537 k, or is a lower bound, as > 10 k.
///
/// Inserted jobs are counted in the table, over --within, without jobs that are deleted already. Completed and failed jobs
/// are reported by live runners with their heartbeats, four times a lease (20 s by default), and cover the time between the
/// last two. A wait lasts from when a job was due until its last attempt started, and a run from there to its end. Both
/// come from a sample of the jobs that finished last. It is taken from the newest 20,000 jobs, and from the 2,000 jobs
/// before the head of each of the first 20 queues with waiting jobs.
///
/// With --since it prints the history instead: what happened in that time step by step, and the kinds with the most
/// failures. Minutes are kept for 7 days, hours for 90 days. Processes write them once a minute.
///
/// ***
///
/// With --json it prints one object, with --watch one a line. Lengths of time are in seconds, rates in jobs a second.
///
/// Examples:
///   uniqueue stats
///   uniqueue stats --watch 5
///   uniqueue stats --since 24h --kind email.send
///   uniqueue stats --json | jq '.jobs.available, .finished.wait.p99'
///
/// Exit codes:
///   0    printed; with --watch: ended by Ctrl-C or SIGTERM, or standard output was closed
///   130  interrupted by Ctrl-C or SIGTERM before the end, without --watch
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct StatsArguments {
    /// Print a line at this interval: a length of time such as 500ms or 1m, or a number of seconds such as 0.5
    #[arg(long, value_name = "DURATION", value_parser = seconds)]
    watch: Option<DurationArgument>,

    /// Count inserted jobs over this time
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = positive)]
    within: DurationArgument,

    /// The number of finished jobs in the sample for waits and runs
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    sample: u32,

    /// Stop counting the jobs of a queue and state at this number
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    count_up_to: u32,

    /// Print the history of this time, such as 1h, 24h or 7d: 1 minute to 90 days
    #[arg(long, value_name = "DURATION", value_parser = positive, conflicts_with_all = ["watch", "within", "sample", "count_up_to"])]
    since: Option<DurationArgument>,

    /// With --since: only this kind
    #[arg(long, value_name = "KIND", requires = "since")]
    kind: Option<String>,

    /// With --since: only this queue
    #[arg(long, value_name = "NAME", requires = "since")]
    queue: Option<String>,

    #[command(flatten)]
    database: DatabaseArguments,
}

/// Prints the numbers of the database, or of all places together.
pub(crate) async fn run(arguments: StatsArguments, places: Option<Places>) -> Result<Verdict, Failure> {
    match arguments.watch {
        Some(_) => until_interrupted(print(arguments, places)).await,
        None => or_interrupted(nothing_changed, print(arguments, places)).await,
    }
}

async fn print(arguments: StatsArguments, places: Option<Places>) -> Result<Verdict, Failure> {
    let mut source = Source::open(&arguments.database, places).await?;
    let form = Form::of_one(arguments.database.json);
    if let Some(DurationArgument(since)) = arguments.since {
        let past = Past::ask(&mut source, since, arguments.kind, arguments.queue).await?;
        return source.answer(form.object(&past.numbers(), |_| past.text())?).await;
    }
    let Some(DurationArgument(interval)) = arguments.watch else {
        let stats = query(&mut source, &arguments).await?;
        return source.answer(form.object(&numbers(&stats), |_| text(&stats))?).await;
    };
    let mut ticks = tokio::time::interval(interval);
    // After a slow query the next one starts an interval later, not at once.
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    for printed in 0_u64.. {
        ticks.tick().await;
        let stats = query(&mut source, &arguments).await?;
        let lines = match form.json {
            true => output::json_lines([numbers(&stats)])?,
            false => line(&stats, printed.is_multiple_of(HEADER_EVERY), output::width()),
        };
        if output::print_unless_closed(&lines)?.is_break() {
            break;
        }
    }
    source.answer(Answer::default()).await
}

async fn query(source: &mut Source, arguments: &StatsArguments) -> Result<Stats, Failure> {
    let &StatsArguments { within: DurationArgument(within), sample, count_up_to, .. } = arguments;
    let ask = |client: uniqueue::Client| async move {
        Admin::new(&client).stats().within(within).sample(sample).count_up_to(count_up_to).await
    };
    source.ask(ask, Stats::merged).await
}

/// Reads a length of time, or a number of seconds.
fn seconds(given: &str) -> Result<DurationArgument, String> {
    let is_bare = given.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    positive(&if is_bare { format!("{given}s") } else { given.to_owned() })
}

fn positive(given: &str) -> Result<DurationArgument, String> {
    let DurationArgument(length) = given.parse()?;
    if length.is_zero() { Err("must be longer than nothing".to_owned()) } else { Ok(DurationArgument(length)) }
}

fn text(stats: &Stats) -> String {
    let jobs: Vec<_> = stats.jobs.iter().collect();
    let jobs = List::of(&jobs)
        .column(Column::text("state"), |(state, _)| state.as_str())
        .column(Column::number("jobs"), |(state, jobs)| number(**state, **jobs))
        .table();
    let rates = &stats.rates;
    let mut record = Record::new();
    record.field("runners", runners(stats));
    record.field("oldest available", stats.oldest_available_age.map_or_else(|| "none".to_owned(), format_duration));
    record.field("inserted", format!("{}/s over {}", rate(rates.inserted), format_duration(rates.inserted_over)));
    match rates.worked_over {
        Some(over) => {
            let style = if rates.failed > 0.0 { Style::Warn } else { Style::Plain };
            let worked = |number: f64| Cell::new(format!("{}/s over {}", rate(number), format_duration(over)));
            record.field("completed", worked(rates.completed));
            record.field("failed", worked(rates.failed).style(style));
        }
        None => record.field("completed", Cell::new("unknown: no live runner has reported").style(Style::Faint)),
    }
    let of_times = |finished: &Finished| {
        List::of(&[("waited", finished.wait), ("ran", finished.run)])
            .column(Column::text("finished jobs, at most"), |(name, _)| *name)
            .column(Column::number("half"), |(_, of)| format_duration(of.p50))
            .column(Column::number("90 %"), |(_, of)| format_duration(of.p90))
            .column(Column::number("99 %"), |(_, of)| format_duration(of.p99))
            .column(Column::number("all"), |(_, of)| format_duration(of.max))
            .table()
    };
    let sample = match &stats.finished {
        Some(finished) => {
            let since = format_duration((stats.asked_at - finished.since).try_into().unwrap_or_default());
            format!(
                "\n{}\na sample of {}, the first of which finished {since} ago\n",
                of_times(finished).text_without_count(),
                output::counted(finished.jobs, "job")
            )
        }
        None => "\nno recently finished job was found\n".to_owned(),
    };
    format!("{}\n\n{}\n{sample}", jobs.text_without_count(), record.draw())
}

fn runners(stats: &Stats) -> Cell {
    let waits = stats.jobs.get(&JobState::Available).is_some_and(|jobs| jobs.counted() > 0);
    let style = if waits && stats.runners == 0 { Style::Bad } else { Style::Plain };
    Cell::new(count(stats.runners)).style(style)
}

fn number(state: JobState, jobs: JobCount) -> Cell {
    let style = match state {
        _ if jobs.counted() == 0 => Style::Faint,
        JobState::Discarded => Style::Bad,
        JobState::Retryable => Style::Warn,
        _ => Style::Plain,
    };
    Cell::new(output::jobs(jobs)).style(style)
}

/// Writes a rate with its significant digits.
fn rate(rate: f64) -> String {
    match rate {
        rate if rate >= 100.0 => count(rate.round() as u64),
        0.0 => "0".to_owned(),
        rate if rate < 0.1 => format!("{rate:.3}"),
        rate => format!("{rate:.1}"),
    }
}

/// One line of --watch. The columns have fixed widths, so that all lines are aligned.
fn line(stats: &Stats, has_header: bool, width: Option<usize>) -> String {
    let jobs = |state: JobState| output::jobs(stats.jobs.get(&state).copied().unwrap_or(JobCount::Exactly(0)));
    let half_and_most = |of: fn(&Finished) -> &Percentiles| {
        let of = stats.finished.as_ref().map(of);
        of.map(|of| [of.p50, of.p99].map(format_duration)).unwrap_or_default()
    };
    let [wait_half, wait_most] = half_and_most(|finished| &finished.wait);
    let [run_half, run_most] = half_and_most(|finished| &finished.run);
    let worked = |number: f64| if stats.rates.worked_over.is_some() { rate(number) } else { "?".to_owned() };
    let time = format_time(stats.asked_at);
    // A narrow terminal leaves out the last columns first.
    let all = [
        ("time", 20, time.clone()),
        ("available", 9, jobs(JobState::Available)),
        ("oldest", 7, stats.oldest_available_age.map(format_duration).unwrap_or_default()),
        ("running", 8, jobs(JobState::Running)),
        ("retryable", 9, jobs(JobState::Retryable)),
        ("discarded", 9, jobs(JobState::Discarded)),
        ("in/s", 7, rate(stats.rates.inserted)),
        ("done/s", 7, worked(stats.rates.completed)),
        ("failed/s", 8, worked(stats.rates.failed)),
        ("wait 50%", 8, wait_half),
        ("99%", 7, wait_most),
        ("run 50%", 7, run_half),
        ("99%", 7, run_most),
    ];
    let columns = fitting(all, &time, width);
    let mut lines = String::new();
    if has_header {
        let header = columns.iter().map(|(name, width, _)| format!("{name:>width$}")).collect::<Vec<_>>().join(" ");
        lines.push_str(&format!("{}\n", output::paint(Style::Strong, &header)));
    }
    let values = columns.iter().map(|(_, width, value)| format!("{value:>width$}")).collect::<Vec<_>>().join(" ");
    lines.push_str(&format!("{values}\n"));
    lines
}

/// A column of --watch: its name, its width, its value.
type WatchColumn = (&'static str, usize, String);

/// The columns that fit a width. Where not all do, the time has no date, and the last columns are left out.
fn fitting<const N: usize>(all: [WatchColumn; N], time: &str, width: Option<usize>) -> Vec<WatchColumn> {
    let mut columns = Vec::from(all);
    let needs = |columns: &[WatchColumn]| columns.iter().map(|(_, width, _)| width + 1).sum::<usize>() - 1;
    let Some(width) = width.filter(|width| needs(&columns) > *width) else { return columns };
    let time_of_day = time.get(11..19).unwrap_or(time);
    columns[0] = ("time", time_of_day.len(), time_of_day.to_owned());
    while columns.len() > 1 && needs(&columns) > width {
        columns.pop();
    }
    columns
}

/// The numbers as JSON: times to the second, and no rates of work where no live runner has reported.
fn numbers(stats: &Stats) -> Value {
    let mut numbers = json!(stats);
    numbers["asked_at"] = format_time(stats.asked_at).into();
    if let Some(finished) = &stats.finished {
        numbers["finished"]["since"] = format_time(finished.since).into();
    }
    if stats.rates.worked_over.is_none() {
        numbers["rates"]["completed"] = Value::Null;
        numbers["rates"]["failed"] = Value::Null;
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_says_why_fits_80_columns() {
        let all = || {
            let widths = [20, 9, 7, 8, 9, 9, 7, 7, 8, 8, 7, 7, 7];
            widths.map(|width| ("x", width, "1".to_owned()))
        };
        let time = "2026-01-15T09:30:07Z";
        assert_eq!(fitting(all(), time, None).len(), 13);
        assert_eq!(fitting(all(), time, Some(200)).len(), 13);
        let narrow = fitting(all(), time, Some(80));
        assert_eq!((narrow.len(), narrow[0].2.as_str()), (9, "09:30:07"), "up to the failures");
        assert_eq!(narrow.iter().map(|(_, width, _)| width + 1).sum::<usize>() - 1, 80);
    }
}
