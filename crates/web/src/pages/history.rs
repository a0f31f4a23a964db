//! History: charts of an hour, a day or a week, for all jobs, a kind or a queue.

use uniqueue_admin::{History, HistoryCounts, HistoryPoint, KindHistory};

use crate::pages::prelude::*;
use crate::shared::HOUR;

/// The ranges to choose from: the word in the URL, and the lengths in minutes of the range and of a step.
const RANGES: [(&str, u64, u64); 3] = [("1h", 60, 1), ("24h", 1_440, 30), ("7d", 10_080, 180)];

/// The age at which all processes have written a minute.
const UNWRITTEN: time::Duration = time::Duration::minutes(2);

/// The most kinds in the table.
const KINDS: u32 = 50;

/// The kind or the queue that a history is of. Neither: all jobs.
#[derive(Clone, Copy)]
pub(super) struct Of<'a> {
    pub(super) kind: Option<&'a str>,
    pub(super) queue: Option<&'a str>,
    /// The path of the page, and the field that names the kind or the queue.
    pub(super) path: &'static str,
}

/// All jobs.
const OF: Of<'static> = Of { kind: None, queue: None, path: "/history" };

impl Of<'_> {
    fn url(&self, range: &str) -> String {
        url_given(self.path, &[("kind", self.kind), ("queue", self.queue), ("range", Some(range))])
    }
}

/// The range that a URL names.
fn range(fields: &Fields) -> (&'static str, Duration, Duration) {
    let (word, minutes, step) =
        RANGES.into_iter().find(|(word, ..)| fields.get("range") == Some(word)).unwrap_or(RANGES[0]);
    (word, Duration::from_secs(minutes * 60), Duration::from_secs(step * 60))
}

pub(crate) async fn show(page: Page, fields: Fields) -> Result<Shown, Failure> {
    let page = Arc::new(page);
    let (word, since, step) = range(&fields);
    let ask = |page: Arc<Page>| async move {
        let history = read(&page, (word, since, step), OF).await?;
        let ask = async {
            let kinds = page.admin().history_by_kind(since, KINDS + 1).timeout(LOOK_UP).await?;
            Ok(Timed::new(page.now().await?, kinds))
        };
        Ok((history, page.shared_longer(word, ask).await?))
    };
    let asked = page.ask(ask).await?;
    let history = History::merged(asked.answers.iter().map(|(_, (history, _))| history.of.clone()));
    let kinds = KindHistory::merged(asked.answers.iter().flat_map(|(_, (_, kinds))| kinds.of.iter().cloned()));
    let body = html! {
        (asked.silent())
        @if let Some(history) = &history { (drawn(&page, word, OF, history)) }
        (by_kind(&page, &kinds, word))
        (cli(&format!("uniqueue stats --since {word}")))
    };
    Ok(document(&page, Document { title: "History", is_live: true, actions: html! {}, body }))
}

/// The kinds of the time, most failures first.
fn by_kind(page: &Page, kinds: &[KindHistory], word: &str) -> Markup {
    let rows = fitting(kinds, KINDS as usize, |of| {
        let HistoryCounts { inserted, duplicates, completed, failed, discarded, .. } = of.counts;
        let name = of.kind.as_str();
        html! { tr {
            th.l1 scope="row" {
                a.row-link href=(page.link(&url("/kind", &[("kind", name), ("range", word)]))) { (Cell(name)) }
            }
            td.num.l2 data-is="inserted" { (grouped(inserted)) } td.num { (grouped(duplicates)) } td.num.l2 data-is="completed" { (grouped(completed)) }
            td.num.r1 data-is="failed" { (grouped(failed)) } td.num { (grouped(discarded)) }
            td.num.r2 { @if let Some(share) = of.counts.failed_share() { (format!("{:.1} %", share * 100.0)) } }
        } }
    });
    html! {
        @if !kinds.is_empty() {
            h2 { "By kind, most failures first" }
            (rows.table(html! { th { "Kind" } th.num { "Inserted" } th.num { "Duplicates" } th.num { "Completed" } th.num { "Failed" } th.num { "Discarded" } th.num { "Failing" } }))
            (rows.note())
        }
    }
}

/// The charts of the last hour on the overview. Each range leads to its page.
pub(super) fn last_hour(page: &Page, history: &History) -> Markup {
    html! { h2 { "History" } (drawn(page, RANGES[0].0, OF, history)) }
}

/// Links to the ranges.
fn ranges(page: &Page, of: Of<'_>, current: &str) -> Markup {
    html! {
        nav.ranges aria-label="Time" {
            @for (word, ..) in RANGES {
                a href=(page.link(&of.url(word))) aria-current=[(word == current).then_some("true")] { (word) }
            }
        }
    }
}

/// The ranges to choose from, with the charts of the one that the URL names, and whether anything was counted.
pub(super) async fn section(page: &Page, fields: &Fields, of: Of<'_>) -> Result<(Markup, bool), Failure> {
    let (word, since, mut step) = range(fields);
    // A kind has rows of each of its queues only: the minutes of a day in a hundred queues are 144,000 rows.
    if of.kind.is_some() && since > HOUR {
        step = step.max(HOUR);
    }
    let answer = read(page, (word, since, step), of).await?;
    Ok((drawn(page, word, of, &answer.of), !answer.of.total().is_empty()))
}

async fn read(
    page: &Page,
    (word, since, step): (&'static str, Duration, Duration),
    of: Of<'_>,
) -> Result<Arc<Timed<History>>, Failure> {
    let asking = page.admin().history(since).step(step).timeout(LOOK_UP);
    let asking =
        asking.given(of.kind, |asking, kind| asking.kind(kind)).given(of.queue, |asking, queue| asking.queue(queue));
    let ask = async { Ok(Timed::new(page.now().await?, asking.await?)) };
    page.shared_longer((word, of.kind, of.queue), ask).await
}

fn drawn(page: &Page, word: &str, of: Of<'_>, history: &History) -> Markup {
    html! {
        (ranges(page, of, word))
        (charts(history))
    }
}

fn charts(history: &History) -> Markup {
    let starts: Vec<_> = history.points.iter().map(|point| point.at).collect();
    let marks: Vec<_> = history.deploys.iter().map(|deploy| (deploy.at, deploy.version.as_str())).collect();
    let axis = Axis { starts: &starts, step: history.step, marks: &marks };
    // The last step has not passed whole, and its last minutes are not all written.
    let passed = |point: &HistoryPoint| (history.until - point.at).min(history.step.try_into().unwrap_or_default());
    let rate = |point: &HistoryPoint, jobs: u64| {
        let is_written = history.until - point.at >= UNWRITTEN;
        is_written.then(|| jobs as f64 / (passed(point).as_seconds_f64() / 60.0))
    };
    let rates = |name, class, of: fn(&HistoryCounts) -> u64| Line {
        name,
        class,
        values: history.points.iter().map(|point| rate(point, of(&point.counts))).collect(),
    };
    let went = [
        rates("inserted", "l-inserted", |counts| counts.inserted),
        rates("completed", "l-completed", |counts| counts.completed),
        rates("duplicates", "l-duplicates", |counts| counts.duplicates),
    ];
    let failed = [
        rates("failed", "l-failed", |counts| counts.failed),
        rates("discarded", "l-discarded", |counts| counts.discarded),
    ];
    let times = |of: fn(&HistoryCounts) -> &uniqueue_admin::Histogram| {
        [("p50", "l-p50", 0.5), ("p95", "l-p95", 0.95), ("p99", "l-p99", 0.99)].map(|(name, class, share)| Line {
            name,
            class,
            values: (history.points.iter())
                .map(|point| of(&point.counts).quantile(share).map(|length| length.as_secs_f64()))
                .collect(),
        })
    };
    let (waits, runs) = (times(|counts| &counts.wait), times(|counts| &counts.run));
    // Waits and runs are compared, so they share a scale.
    let of_times = Scale::of(Unit::Seconds, waits.iter().chain(&runs));
    let total = history.total();
    html! {
        @if total.is_empty() {
            p.note { "Nothing was counted in this time. Processes write their counts once a minute." }
        }
        section.time-charts aria-label="History" {
            (time_chart("Jobs", "a minute", &went, Scale::of(Unit::JobsAMinute, went.iter()), &axis))
            (time_chart("Failures", "a minute", &failed, Scale::of(Unit::JobsAMinute, failed.iter()), &axis))
            (time_chart("Waited", "until the start", &waits, of_times, &axis))
            (time_chart("Ran", "until the end", &runs, of_times, &axis))
        }
        p.note {
            (grouped(total.inserted)) " inserted, " (grouped(total.duplicates)) " duplicates, " (grouped(total.completed))
            " completed, " (grouped(total.failed)) " failed, " (grouped(total.discarded))
            " discarded. The last two minutes are incomplete."
            @if let Some((_, version)) = marks.last() { " Dashed lines mark the first runner of a new version, lately " (quoted(version)) "." }
        }
    }
}
