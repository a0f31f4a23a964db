//! Running jobs, the longest first.

use maud::html;

use crate::failure::Failure;
use crate::html::{Cell, Document, Shown, cli, document, fitting, job_link, key_cell, span};
use crate::page::{LOOK_UP, Page};

/// The most jobs on the page.
const ROWS: u32 = 100;

pub(crate) async fn list(page: Page) -> Result<Shown, Failure> {
    let ask = async { Ok(page.client().running_jobs(ROWS).timeout(LOOK_UP).await?) };
    let jobs = page.shared(&page.app.answers.one(), ask).await?;
    let is_shown = page.app.redact.is_none();
    let rows = fitting(&jobs, ROWS as usize, |job| {
        html! { tr id={ "job-" (job.id) } {
            td.nowrap { (job_link(&page, job.id)) }
            td.clip { (Cell(&job.kind)) }
            td.clip { (Cell(&job.queue)) }
            td.num { (job.running_for.map(span).unwrap_or_default()) }
            td.num { (job.attempt) "/" (job.max_attempts) }
            td.clip {
                (Cell(job.runner.as_deref().unwrap_or("gone")))
                @if !job.runner_is_alive { " " span.badge.critical { "dead" } }
            }
            td.clip.mono { @if is_shown { @if let Some(progress) = &job.progress { (Cell(&progress.to_string())) } } }
            td.clip { @if let Some(key) = &job.unique_key { (key_cell(&page, key)) } }
        } }
    });
    let body = html! {
        @if jobs.is_empty() { p.panel.empty { "No job runs now." } } @else {
            div.scroll { table {
                thead { tr { th { "Job" } th { "Kind" } th { "Queue" } th.num { "Running for" } th.num { "Attempt" } th { "Runner" } th { "Progress" } th { "Key" } } }
                tbody { (rows.html) }
            } }
            @if rows.shown < rows.of || rows.of == ROWS as usize { p.note { "The " (rows.shown) " that run longest." } }
        }
        (cli("uniqueue job list --state running"))
    };
    Ok(document(&page, Document { title: "Running", is_live: true, actions: html! {}, body }))
}
