//! The unique key of a job, and the job that holds it.

use maud::{Markup, html};
use time::OffsetDateTime;
use uniqueue::{Duplicate, JobRow};

use crate::html::{Start, ago, at, grouped, job_link, key_link, state};
use crate::page::Page;
use crate::pages::explain::MADE_FROM;

pub(super) fn claim(
    page: &Page,
    job: &JobRow,
    key: &str,
    made_from: Option<&str>,
    holder: Option<&Duplicate>,
    now: OffsetDateTime,
) -> Markup {
    html! {
        section.panel {
            h2 { "Unique key" }
            @if let Some(text) = made_from { p.mono { (Start(text, MADE_FROM)) } }
            p class=[made_from.map(|_| "note")] { (key_link(page, key)) }
            dl.facts {
                dt { "Claim" }
                dd {
                    @match holder {
                        Some(holder) if holder.holder == job.id => { b { "This job holds the key." } " It is free " (holder.frees()) "." }
                        Some(holder) => {
                            b { "Another job holds the key: " } (job_link(page, holder.holder)) " " (state(holder.holder_state))
                            ". It is free " (holder.frees()) "."
                        }
                        None => "The key is free: no job holds it."
                    }
                }
                dt { "States" }
                dd {
                    @match job.unique_states {
                        Some(states) if states.is_empty() => "none: it has given up its claim for good",
                        Some(states) => (states),
                        None => "none",
                    }
                    @if job.until_start { "; until a worker fetches it" }
                }
                @if let Some(until) = job.unique_until { dt { "Until" } dd { (at(until)) " · " (ago(until, now)) } }
                @if let Some(last) = job.updated_at {
                    dt { "Updated" }
                    dd {
                        @if job.updates == 1 { "once by a duplicate, " } @else { (grouped(u64::from(job.updates))) " times by duplicates, last " }
                        (ago(last, now))
                        @if let Some(id) = job.updated_by { ", by the insert with id " span.mono { (id) } }
                    }
                }
            }
        }
    }
}
