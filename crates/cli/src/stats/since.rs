//! `uniqueue stats --since`: the history of jobs in steps, and by kind.

use uniqueue_admin::{Deploy, Histogram, History, HistoryCounts, KindHistory};

use crate::database::Source;
use crate::prelude::*;

/// The steps to choose from, in minutes.
const STEPS: [u64; 9] = [1, 5, 10, 30, 60, 180, 360, 1_440, 4_320];

/// The most lines of the table.
const LINES: u64 = 30;

/// The most kinds that are listed.
const KINDS: u32 = 20;

/// The quantiles of waits and runs.
const SHARES: [f64; 3] = [0.5, 0.95, 0.99];

/// The history of a time.
pub(super) struct Past {
    history: History,
    /// Empty where one kind was asked for.
    kinds: Vec<KindHistory>,
}

impl Past {
    pub(super) async fn ask(
        source: &mut Source,
        since: Duration,
        kind: Option<String>,
        queue: Option<String>,
    ) -> Result<Self, Failure> {
        let step = STEPS.map(|minutes| Duration::from_secs(minutes * 60)).into_iter();
        let step = step.clone().find(|step| since.as_secs() <= step.as_secs() * LINES).or(step.last());
        let ask = |client: Client| {
            let (kind, queue) = (kind.clone(), queue.clone());
            async move {
                let is_narrowed = kind.is_some() || queue.is_some();
                let asking = Admin::new(&client).history(since).step(step.unwrap_or(since));
                let asking = asking.given(kind, |asking, kind| asking.kind(kind));
                let history = asking.given(queue, |asking, queue| asking.queue(queue)).await?;
                let kinds =
                    if is_narrowed { Vec::new() } else { Admin::new(&client).history_by_kind(since, KINDS).await? };
                Ok(Self { history, kinds })
            }
        };
        source.ask(ask, Self::merged).await
    }

    /// The history of several places together.
    fn merged(all: Vec<Self>) -> Option<Self> {
        let (histories, kinds): (Vec<_>, Vec<_>) = all.into_iter().map(|past| (past.history, past.kinds)).unzip();
        let mut kinds = KindHistory::merged(kinds.into_iter().flatten());
        kinds.truncate(KINDS as usize);
        History::merged(histories).map(|history| Self { history, kinds })
    }

    pub(super) fn text(&self) -> String {
        let History { points, deploys, step, .. } = &self.history;
        let steps = numbers(List::of(points).column(Column::text("from"), |of| format_time(of.at)), |of| &of.counts);
        let steps = times(steps, "wait 50%", |of| &of.counts.wait);
        let table = times(steps, "run 50%", |of| &of.counts.run).table();
        let mut text = format!("{}\n", table.text_without_count());
        text.push_str(&format!("\nin steps of {}; the last two minutes are incomplete\n", format_duration(*step)));
        for Deploy { at, version, .. } in deploys {
            text.push_str(&format!("{}: version {} began to run\n", format_time(*at), output::printable(version)));
        }
        if !self.kinds.is_empty() {
            let kinds = List::of(&self.kinds).column(Column::text("kind"), |of| &of.kind);
            let kinds = numbers(kinds, |of| &of.counts).table();
            text.push_str(&format!("\n{}\n", kinds.text_without_count()));
        }
        text
    }

    pub(super) fn numbers(&self) -> Value {
        let History { since, until, step, points, deploys, .. } = &self.history;
        let points = points.iter().map(|of| counted("at", &format_time(of.at), &of.counts));
        let kinds = self.kinds.iter().map(|of| counted("kind", of.kind.as_str(), &of.counts));
        let deploys = deploys.iter().map(|of| json!({ "at": format_time(of.at), "version": of.version }));
        json!({
            "since": format_time(*since),
            "until": format_time(*until),
            "step": step.as_secs(),
            "points": points.collect::<Vec<_>>(),
            "kinds": kinds.collect::<Vec<_>>(),
            "deploys": deploys.collect::<Vec<_>>(),
        })
    }
}

/// The counts of a step or a kind, with the quantiles of its times where it has any.
fn counted(name: &str, value: &str, counts: &HistoryCounts) -> Value {
    let HistoryCounts { inserted, duplicates, completed, failed, discarded, wait, run, .. } = counts;
    let mut numbers = json!({
        name: value,
        "inserted": inserted,
        "duplicates": duplicates,
        "completed": completed,
        "failed": failed,
        "discarded": discarded,
    });
    for (name, times) in [("wait", wait), ("run", run)] {
        if let [Some(p50), Some(p95), Some(p99)] = SHARES.map(|share| times.quantile(share)) {
            let [p50, p95, p99] = [p50, p95, p99].map(|length| length.as_secs_f64());
            numbers[name] = json!({ "p50": p50, "p95": p95, "p99": p99 });
        }
    }
    numbers
}

/// The columns of the counts.
fn numbers<T>(list: List<'_, T>, counts: impl Fn(&T) -> &HistoryCounts) -> List<'_, T> {
    let cell = |number: u64, style| Cell::new(count(number)).style(if number == 0 { Style::Faint } else { style });
    list.column(Column::number("inserted"), |of| cell(counts(of).inserted, Style::Plain))
        .column(Column::number("duplicates"), |of| cell(counts(of).duplicates, Style::Plain))
        .column(Column::number("completed"), |of| cell(counts(of).completed, Style::Plain))
        .column(Column::number("failed"), |of| cell(counts(of).failed, Style::Warn))
        .column(Column::number("discarded"), |of| cell(counts(of).discarded, Style::Bad))
}

/// The columns of the quantiles. The first has its own name.
fn times<'a, T>(list: List<'a, T>, first: &str, times: impl Fn(&T) -> &Histogram) -> List<'a, T> {
    SHARES.into_iter().zip([first, "95%", "99%"]).fold(list, |list, (share, name)| {
        list.column(Column::number(name), |of| times(of).quantile(share).map(rounded).unwrap_or_default())
    })
}

/// A length with three significant digits: it comes from a histogram.
fn rounded(length: Duration) -> String {
    let milliseconds = u64::try_from(length.as_millis()).unwrap_or(u64::MAX).max(1);
    let unit = 10_u64.pow(milliseconds.ilog10().saturating_sub(2));
    format_duration(Duration::from_millis(milliseconds / unit * unit))
}
