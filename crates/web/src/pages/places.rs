//! All places at a glance: a row for each, and their sums.

use uniqueue::PlaceName;
use uniqueue_admin::{Severity, Stats};

use super::doctor::{Remedies, list};
use super::overview::times;
use crate::app::AllPlaces;
use crate::asked::Asked;
use crate::pages::prelude::*;
use crate::sampler::Snapshot;

/// The states that the table shows.
const STATES: [JobState; 5] =
    [JobState::Available, JobState::Running, JobState::Retryable, JobState::Scheduled, JobState::Discarded];

/// The most findings on the page.
const FINDINGS: usize = 6;

type Samples = Asked<Option<Arc<Snapshot>>>;

pub(crate) async fn show(page: Page) -> Result<Shown, Failure> {
    let page = Arc::new(page);
    let Some(all) = page.app.all_places() else { return Err(Failure::NotFound("page")) };
    let asked = page.ask(|page| async move { Ok(page.sample().await) }).await?;
    let across = all.across.latest().await;
    let sums = merged(&asked);
    let body = html! {
        @if let Some(found) = &across { (list(&page, found, FINDINGS, Remedies::Folded)) }
        (table(&page, all, &asked, sums.as_ref()))
        @if let Some(stats) = &sums { section.columns { (times(stats)) } }
        (cli("uniqueue places status --places FILE"))
    };
    Ok(document(&page, Document { title: "All places", is_live: true, actions: html! {}, body }))
}

fn merged(asked: &Samples) -> Option<Stats> {
    Stats::merged(asked.answers.iter().filter_map(|(_, sample)| sample.as_ref()).map(|sample| sample.stats.clone()))
}

fn table(page: &Page, all: &AllPlaces, asked: &Samples, sums: Option<&Stats>) -> Markup {
    let sample = |name: &PlaceName| asked.answers.iter().find(|(of, _)| of.among.as_ref() == Some(name));
    html! {
        div.scroll { table {
            thead { tr {
                th { "Place" }
                @for one in STATES { th.num.word { (one) } }
                th.num { "Oldest" } th.num { "Inserted/s" } th.num { "Completed/s" } th.num { "Failed/s" } th.num { "Runners" } th { "Doctor" }
            } }
            tbody {
                @for (name, app) in all.iter() {
                    @let of = page.in_place(name, app);
                    tr id=(row_id(&of, "place", "")) {
                        th scope="row" { a.row-link href=(of.link("/")) { (Cell(name.as_str())) } }
                        @if let Some((_, Some(sample))) = sample(name) { (numbers(&sample.stats)) }
                        @else { @for _ in 0..STATES.len() + 5 { td.num { "?" } } }
                        td {
                            @if let Some(problem) = asked.problem_of(name) { span.badge.critical { "down" } " " (Hostile(problem)) }
                            @else if let Some((of, Some(sample))) = sample(name) { (worst(of, sample)) }
                        }
                    }
                }
                @if let Some(stats) = sums {
                    tr id="place-sum" { th scope="row" { "All places" } (numbers(stats)) td {} }
                }
            }
        } }
    }
}

fn numbers(stats: &Stats) -> Markup {
    html! {
        @for one in STATES { td.num { (stats.jobs.get(&one).copied().map(count).unwrap_or_default()) } }
        td.num { (stats.oldest_available_age.map(span).unwrap_or_default()) }
        @for one in [stats.rates.inserted, stats.rates.completed, stats.rates.failed] { td.num { (rate(one)) } }
        td.num { (grouped(stats.runners)) }
    }
}

/// The worst of the findings in a place.
fn worst(page: &Page, sample: &Snapshot) -> Markup {
    let Some(diagnosis) = &sample.doctor.diagnosis else { return html! {} };
    let worst = diagnosis.worst();
    let class = match worst {
        Severity::Critical => "badge critical",
        Severity::Warning => "badge warning",
        _ => "note",
    };
    html! { @if worst > Severity::Ok { a href=(page.link("/doctor")) { span class=(class) { (worst.as_str()) } " " (diagnosis.findings.len()) } } }
}

/// A page that each place has for itself, such as that of a key: a link to it in each place.
pub(crate) async fn each(page: Page, fields: Fields) -> Result<Shown, Failure> {
    let Some(all) = page.app.all_places() else { return Err(Failure::NotFound("page")) };
    let title = match name_of(page.path()) {
        Some(name) => name.to_owned(),
        // The path of a single thing is its sort, and its name is in the field of that sort.
        None => {
            let sort = &page.path()[1..];
            format!("{}{} {}", sort[..1].to_uppercase(), &sort[1..], fields.get(sort).unwrap_or_default())
        }
    };
    let body = html! {
        p { "Each place has this page for itself. Open it in one of them:" }
        div.scroll { table.lines { tbody {
            @for (name, app) in all.iter() {
                tr { th.l1 scope="row" { a.row-link href=(page.in_place(name, app).link(&page.here)) { (Cell(name.as_str())) } } }
            }
        } } }
    };
    Ok(document(&page, Document { title: &title, is_live: false, actions: html! {}, body }))
}

/// Opens the page of a job in its place.
pub(crate) async fn job(page: Page, Path(IdPath { id }): Path<IdPath<JobId>>) -> Result<Response, Failure> {
    let page = Arc::new(page);
    let ask = |page: Arc<Page>| async move { Ok(page.client().job(id).timeout(LOOK_UP).await?.is_some()) };
    let asked = page.ask(ask).await?;
    match asked.answers.iter().find(|(_, has_job)| *has_job) {
        Some((of, _)) => Ok(of.go_to(&format!("/jobs/{id}"))),
        None if asked.is_whole() => Err(Failure::NotFound("job")),
        None => Err(Failure::Away(Some("a place that does not answer may have it".to_owned()))),
    }
}
