//! Running jobs, the longest first.

use uniqueue_admin::RunningJobInfo;

use crate::pages::prelude::*;

/// The most jobs on the page.
const ROWS: u32 = 100;

/// The number of running jobs among which the jobs of one runner are searched.
const AMONG: u32 = 1_000;

/// The running jobs of a queue, of all its runners or of one.
async fn running(page: Arc<Page>, runner: Option<String>) -> Result<Arc<Vec<RunningJobInfo>>, Failure> {
    let ask = async {
        let most = if runner.is_some() { AMONG } else { ROWS };
        let mut jobs = page.admin().running_jobs().limit(most).timeout(LOOK_UP).await?;
        jobs.retain(|job| runner.is_none() || job.runner == runner);
        Ok(jobs)
    };
    page.shared(&runner, ask).await
}

pub(crate) async fn list(page: Page, fields: Fields) -> Result<Shown, Failure> {
    let runner = fields.get("runner");
    let page = Arc::new(page);
    let asked = page.ask(|page| running(page, runner.map(ToOwned::to_owned))).await?;
    let mut jobs = asked.rows(|jobs| ((), jobs));
    jobs.sort_by_key(|(.., job)| Reverse(job.running_for));
    let is_shown = page.app.redact.is_none();
    let rows = fitting(&jobs, ROWS as usize, |(page, (), job)| {
        html! { tr id={ "job-" (job.id) } {
            (place_cell(page))
            td.nowrap.c-id { a.mono.row-link href=(page.link(&format!("/jobs/{}", job.id))) title=(job.id) { (short(job.id)) } }
            td.clip.l1 { (Cell(&job.kind)) }
            td.clip { (Cell(&job.queue)) }
            td.num.r1 { (job.running_for.map(span).unwrap_or_default()) }
            td.num { (job.attempt) "/" (job.max_attempts) }
            td.clip.l2 {
                (Cell(job.runner.as_deref().unwrap_or("gone")))
                @if !job.runner_is_alive { " " span.badge.critical { "dead" } }
            }
            td.clip.mono.r2 { @if is_shown { @if let Some(progress) = &job.progress { (Cell(&progress.to_string())) } } }
            td.clip { @if let Some(key) = &job.unique_key { (key_cell(page, key)) } }
        } }
    });
    let body = html! {
        @if let Some(runner) = runner {
            p { "On runner " b { (Hostile(runner)) } ". " a.inline href=(page.link("/running")) { "All running jobs" } }
        }
        (asked.silent())
        @if jobs.is_empty() { p.panel.empty { "No job runs now." } } @else {
            (rows.table(html! { (place_head(&page)) th { "Job" } th { "Kind" } th { "Queue" } th.num { "Running for" } th.num { "Attempt" } th { "Runner" } th { "Progress" } th { "Key" } }))
            @if rows.shown < rows.of || rows.of == ROWS as usize { p.note { "The " (rows.shown) " that run longest." } }
        }
        (cli("uniqueue job list --state running"))
    };
    Ok(document(&page, Document { title: "Running", is_live: true, actions: html! {}, body }))
}
