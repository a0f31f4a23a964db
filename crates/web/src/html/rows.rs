//! Rows of jobs, and links to them.

use maud::{Markup, html};
use time::OffsetDateTime;
use uniqueue::{JobId, JobRow};

use super::{Hostile, ago, state};
use crate::fields::url;
use crate::page::Page;

/// The part of an id that differs most: UUIDv7 begins with the time.
pub(crate) fn short(id: JobId) -> String {
    let text = id.to_string();
    format!("{}…{}", &text[..8], &text[text.len() - 6..])
}

/// An id for a name of any characters, so that rows keep their place when the page is read again.
pub(crate) fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// A link to a job.
pub(crate) fn job_link(page: &Page, id: JobId) -> Markup {
    html! { a.mono href=(page.link(&format!("/jobs/{id}"))) title=(id) { (short(id)) } }
}

/// A link to a unique key.
pub(crate) fn key_link(page: &Page, key: &str) -> Markup {
    html! { a.mono.key href=(page.link(&url("/key", &[("key", key)]))) { (Hostile(key)) } }
}

/// A button that sends a field of its form.
pub(crate) fn submit(name: &str, value: &str, label: &str, class: &str) -> Markup {
    html! { button.(class) name=(name) value=(value) { (label) } }
}

/// A table of jobs. With boxes to tick, it stands in a form.
pub(crate) fn job_rows(page: &Page, jobs: &[JobRow], now: OffsetDateTime, has_boxes: bool) -> Markup {
    html! {
        div.scroll {
            table {
                thead {
                    tr {
                        @if has_boxes {
                            th { input type="checkbox" data-tick-all data-script aria-label="Tick all rows"; }
                        }
                        th { "Job" } th { "Kind" } th { "State" } th { "Queue" } th { "Args" }
                        th.num { "Attempt" } th.num { "Inserted" }
                    }
                }
                tbody {
                    @for job in jobs {
                        tr id={ "job-" (job.id) } {
                            @if has_boxes {
                                td { input type="checkbox" name="id" value=(job.id) aria-label={ "Tick job " (short(job.id)) }; }
                            }
                            td.nowrap { (job_link(page, job.id)) }
                            td.clip { (Hostile(&job.kind)) }
                            td.nowrap { (state(job.state)) }
                            td.clip { (Hostile(&job.queue)) }
                            td.clip.mono { (Hostile(&start(job.args.get()))) }
                            td.num { (job.attempt) "/" (job.max_attempts) }
                            td.num { (ago(job.created_at, now)) }
                        }
                    }
                }
            }
        }
    }
}

/// The beginning of a text: a page of hundred jobs with large args stays small.
fn start(text: &str) -> String {
    let mut characters = text.chars();
    let mut start: String = characters.by_ref().take(90).collect();
    if characters.next().is_some() {
        start.push('…');
    }
    start
}
