//! A plan that runs, or has ended.

use maud::{Markup, html};

use crate::bulk::{Plan, Run, Stage};
use crate::html::{Hostile, count, grouped, job_link};
use crate::page::Page;

pub(super) fn started(page: &Page, plan: &Plan, run: &Run) -> Markup {
    html! {
        section.panel {
            p.big role="status" {
                @match &run.stage {
                    Stage::Running => "Running.",
                    Stage::Stopped => "Stopped. The batch that was under way may have been made.",
                    Stage::Failed(why) => { "Failed: " (Hostile(why)) " The batches before were made." }
                    _ => "Done.",
                }
            }
            dl.facts {
                dt { "Which" } dd.mono { (Hostile(&plan.words)) }
                dt { "Changed" } dd { b.number { (grouped(run.changed.saturating_sub(run.discarded))) } @if let Some(jobs) = plan.count { " of " (count(jobs)) } }
                dt { "Refused" } dd { (grouped(run.refused)) " because another job holds their key" }
                dt { "Discarded" } dd { (grouped(run.discarded)) " because another job holds their key" }
            }
            @if let Some(jobs) = plan.count {
                progress aria-label="Progress" max=(jobs.counted().max(1)) value=(run.changed + run.refused) {}
            }
            @if run.stage == Stage::Running {
                form.row method="post" action=(page.link(&format!("/bulk/{}/stop", plan.id))) { button.danger { "Stop" } }
            } @else { p { a.button href=(page.link(&plan.back)) { "Back to the jobs" } } }
        }
        @if !run.named.is_empty() {
            section {
                h2.above { "Refused jobs" }
                div.scroll { table {
                    thead { tr { th { "Job" } th { "Held by" } } }
                    tbody { @for job in &run.named { tr {
                        td { (job_link(page, job.id)) }
                        td { @match job.holder { Some(holder) => (job_link(page, holder)), None => "an open transaction" } }
                    } } }
                } }
                @if run.refused > run.named.len() as u64 { p.note { "The first " (run.named.len()) " are named." } }
            }
        }
    }
}
