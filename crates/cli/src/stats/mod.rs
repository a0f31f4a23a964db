//! `uniqueue stats`: how the queues are doing, once or again and again.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use uniqueue::{Client, JobCount, JobState, Percentiles, Stats};

use crate::Verdict;
use crate::args::QueueArguments;
use crate::database::Database;
use crate::failure::Failure;
use crate::output::{self, Cell, Column, Record, Span, Style, Table, count, span, time};

/// How often the header stands above the lines of --watch.
const HEADER_EVERY: u64 = 20;

/// Tell how the queues are doing: jobs by state, rates, waits.
///
/// Jobs by state, what comes and goes a second, the oldest available job, and how long jobs waited and ran. It is as quick
/// on ten million jobs, and says so where a count stopped (+).
///
/// Rates: inserted jobs are counted in the table, over --within; those that are deleted already are not seen. What is
/// completed and failed the live runners tell with their heartbeats (four times a lease, which is 20 s by default): it is
/// what happened between the last two. Wait is from when a job could have run until its last attempt started, run is from
/// there to its end; of a sample of those that finished last, found among the newest 20,000 jobs and the 2,000 before the
/// head of each of the first 20 queues where jobs wait.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StatsArguments {
    /// Tell again and again, a line each time, after so long: seconds, or a length of time such as 1m
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    watch: Option<Span>,

    /// Count inserted jobs over this time
    #[arg(long, value_name = "SPAN", default_value = "1m", value_parser = not_nothing)]
    within: Span,

    /// How many of the jobs that finished last are asked how long they waited and ran
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    sample: u32,

    /// Count the jobs of a queue and state no further than this
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    count_up_to: u32,

    #[command(flatten)]
    queue: QueueArguments,
}

const EXAMPLES: &str = "\
With --json one object, with --watch one a line; lengths of time are seconds, rates jobs a second.

Examples:
  uniqueue stats
  uniqueue stats --watch 5
  uniqueue stats --json | jq '.jobs.available, .finished.wait.p99'

Exit codes:
  0    told; with --watch: the reader went away
  2    a wrong command line, or the database failed
  130  interrupted by Ctrl-C or SIGTERM, as --watch is meant to be";

/// Prints the numbers.
pub(crate) async fn run(arguments: StatsArguments) -> Result<Verdict, Failure> {
    let database = Database::open_migrated(&arguments.queue).await?;
    let json = arguments.queue.json;
    let Some(Span(interval)) = arguments.watch else {
        let stats = ask(&database.client, &arguments).await?;
        database.close().await?;
        match json {
            true => output::print_json(&Numbers::of(&stats))?,
            false => output::print(&text(&stats))?,
        }
        return Ok(Verdict::Fine);
    };
    let mut ticks = tokio::time::interval(interval);
    // After a slow answer the next comes an interval later, not at once.
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    for told in 0_u64.. {
        ticks.tick().await;
        let stats = ask(&database.client, &arguments).await?;
        let lines = match json {
            true => output::json_lines([Numbers::of(&stats)])?,
            false => line(&stats, told.is_multiple_of(HEADER_EVERY)),
        };
        if output::print_on(&lines)?.is_break() {
            break;
        }
    }
    database.close().await?;
    Ok(Verdict::Fine)
}

async fn ask(client: &Client, arguments: &StatsArguments) -> Result<Stats, Failure> {
    let StatsArguments { within: Span(within), sample, count_up_to, .. } = arguments;
    Ok(client.stats().within(*within).sample(*sample).count_up_to(*count_up_to).await?)
}

/// A bare number is seconds here.
fn seconds(given: &str) -> Result<Span, String> {
    let is_bare = given.bytes().all(|byte| byte.is_ascii_digit());
    not_nothing(&if is_bare { format!("{given}s") } else { given.to_owned() })
}

fn not_nothing(given: &str) -> Result<Span, String> {
    let Span(length) = given.parse().map_err(|error| format!("{error}"))?;
    if length.is_zero() { Err("must be longer than nothing".to_owned()) } else { Ok(Span(length)) }
}

fn text(stats: &Stats) -> String {
    let mut jobs = Table::new([Column::text("state"), Column::number("jobs")]);
    for (state, jobs_in_it) in &stats.jobs {
        jobs.row([Cell::new(state.as_str()), number(*state, *jobs_in_it)]);
    }
    let rates = &stats.rates;
    let mut record = Record::new();
    record.cell("runners", runners(stats));
    record.cell("oldest available", stats.oldest_available_age.map_or_else(|| "none".to_owned(), span));
    record.cell("inserted", format!("{}/s over {}", rate(rates.inserted), span(rates.inserted_over)));
    match rates.worked_over {
        Some(over) => {
            record.cell("completed", format!("{}/s over {}", rate(rates.completed), span(over)));
            record.cell("failed", failures(rates.failed, &format!("{}/s over {}", rate(rates.failed), span(over))));
        }
        None => record.cell("completed", Cell::new("not known: no live runner has told").style(Style::Faint)),
    }
    let [half, most, nearly, all] = ["half", "90 %", "99 %", "all"].map(Column::number);
    let mut times = Table::new([Column::text("of those that finished last"), half, most, nearly, all]);
    if let Some(finished) = &stats.finished {
        for (what, Percentiles { p50, p90, p99, max, .. }) in [("waited", &finished.wait), ("ran", &finished.run)] {
            times.row([what.to_owned(), below(p50), below(p90), below(p99), below(max)]);
        }
    }
    let sample = match &stats.finished {
        Some(finished) => {
            let since = span((stats.asked_at - finished.since).try_into().unwrap_or_default());
            format!(
                "\n{}\nof {} jobs, the first of which finished {since} ago\n",
                times.draw_bare(),
                count(finished.jobs)
            )
        }
        None => "\nno job was found that finished lately\n".to_owned(),
    };
    format!("{}\n\n{}\n{sample}", jobs.draw_bare(), record.draw())
}

fn below(length: &Duration) -> String {
    span(*length)
}

fn runners(stats: &Stats) -> Cell {
    let waits = stats.jobs.get(&JobState::Available).is_some_and(|jobs| jobs.counted() > 0);
    let style = if waits && stats.runners == 0 { Style::Bad } else { Style::Plain };
    Cell::new(count(stats.runners)).style(style)
}

fn failures(failed: f64, text: &str) -> Cell {
    Cell::new(text).style(if failed > 0.0 { Style::Warn } else { Style::Plain })
}

fn number(state: JobState, jobs: JobCount) -> Cell {
    let more = if jobs.is_exact() { "" } else { "+" };
    let style = match state {
        _ if jobs.counted() == 0 => Style::Faint,
        JobState::Discarded => Style::Bad,
        JobState::Retryable => Style::Warn,
        _ => Style::Plain,
    };
    Cell::new(format!("{}{more}", count(jobs.counted()))).style(style)
}

/// A rate with as many digits as say something.
fn rate(rate: f64) -> String {
    match rate {
        rate if rate >= 100.0 => count(rate.round() as u64),
        0.0 => "0".to_owned(),
        rate if rate < 0.1 => format!("{rate:.3}"),
        rate => format!("{rate:.1}"),
    }
}

/// One line of --watch. The columns have fixed widths, so that lines that are told an hour apart stand below each other.
fn line(stats: &Stats, has_header: bool) -> String {
    let jobs = |state: JobState| {
        let jobs = stats.jobs.get(&state).copied().unwrap_or(JobCount::Exactly(0));
        format!("{}{}", count(jobs.counted()), if jobs.is_exact() { "" } else { "+" })
    };
    let wait = stats.finished.map(|finished| (span(finished.wait.p50), span(finished.wait.p99))).unwrap_or_default();
    let run = stats.finished.map(|finished| (span(finished.run.p50), span(finished.run.p99))).unwrap_or_default();
    let worked = |number: f64| if stats.rates.worked_over.is_some() { rate(number) } else { "?".to_owned() };
    let columns = [
        ("time", 20, time(stats.asked_at)),
        ("available", 9, jobs(JobState::Available)),
        ("oldest", 7, stats.oldest_available_age.map(span).unwrap_or_default()),
        ("running", 8, jobs(JobState::Running)),
        ("retryable", 9, jobs(JobState::Retryable)),
        ("discarded", 9, jobs(JobState::Discarded)),
        ("in/s", 7, rate(stats.rates.inserted)),
        ("done/s", 7, worked(stats.rates.completed)),
        ("failed/s", 8, worked(stats.rates.failed)),
        ("wait 50%", 8, wait.0),
        ("99%", 7, wait.1),
        ("run 50%", 7, run.0),
        ("99%", 7, run.1),
    ];
    let mut lines = String::new();
    if has_header {
        let header = columns.each_ref().map(|(name, width, _)| format!("{name:>width$}")).join(" ");
        lines.push_str(&format!("{}\n", output::paint(Style::Strong, &header)));
    }
    let values = columns.map(|(_, width, value)| format!("{value:>width$}")).join(" ");
    lines.push_str(&format!("{values}\n"));
    lines
}

/// The numbers for programs.
#[derive(Debug, Serialize)]
struct Numbers {
    asked_at: String,
    jobs: BTreeMap<JobState, JobCount>,
    runners: u64,
    oldest_available_age: Option<f64>,
    rates: NumberedRates,
    finished: Option<NumberedFinished>,
}

#[derive(Debug, Serialize)]
struct NumberedRates {
    inserted: f64,
    inserted_over: f64,
    completed: Option<f64>,
    failed: Option<f64>,
    worked_over: Option<f64>,
}

#[derive(Debug, Serialize)]
struct NumberedFinished {
    jobs: u64,
    since: String,
    wait: BTreeMap<&'static str, f64>,
    run: BTreeMap<&'static str, f64>,
}

impl Numbers {
    fn of(stats: &Stats) -> Self {
        let rates = &stats.rates;
        let lengths = |percentiles: &Percentiles| {
            let Percentiles { p50, p90, p99, max, .. } = percentiles;
            BTreeMap::from([("p50", p50), ("p90", p90), ("p99", p99), ("max", max)].map(|(n, l)| (n, l.as_secs_f64())))
        };
        let known = rates.worked_over.map(|over| over.as_secs_f64());
        Self {
            asked_at: time(stats.asked_at),
            jobs: stats.jobs.clone(),
            runners: stats.runners,
            oldest_available_age: stats.oldest_available_age.map(|age| age.as_secs_f64()),
            rates: NumberedRates {
                inserted: rates.inserted,
                inserted_over: rates.inserted_over.as_secs_f64(),
                completed: known.map(|_| rates.completed),
                failed: known.map(|_| rates.failed),
                worked_over: known,
            },
            finished: stats.finished.map(|finished| NumberedFinished {
                jobs: finished.jobs,
                since: time(finished.since),
                wait: lengths(&finished.wait),
                run: lengths(&finished.run),
            }),
        }
    }
}
