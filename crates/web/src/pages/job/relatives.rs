//! The parents and the children of a job.

use maud::{Markup, html};
use uniqueue::{AfterCondition, JobChild, JobId, JobParent, JobState};

use crate::failure::Failure;
use crate::html::{Cell, fitting, job_link, state};
use crate::page::{LOOK_UP, Page};

/// The most parents and the most children on the page.
const ROWS: usize = 20;

/// The parents and the children of a job.
pub(super) struct Relatives {
    parents: Vec<JobParent>,
    children: Vec<JobChild>,
}

pub(super) async fn read(page: &Page, id: JobId) -> Result<Relatives, Failure> {
    let parents = page.client().parents(id).timeout(LOOK_UP).await?;
    let children = page.client().children(id, ROWS as u32 + 1).timeout(LOOK_UP).await?;
    Ok(Relatives { parents, children })
}

impl Relatives {
    /// A panel of both. Nothing where the job has neither.
    pub(super) fn panel(&self, page: &Page) -> Markup {
        if self.parents.is_empty() && self.children.is_empty() {
            return html! {};
        }
        let row = |id, kind: Option<&str>, in_state: Option<JobState>, condition: AfterCondition| {
            html! { tr {
                td.nowrap.l1 { (job_link(page, id)) }
                td.clip.l2 { @if let Some(kind) = kind { (Cell(kind)) } }
                td.nowrap.r1 { @match in_state { Some(one) => (state(one)), None => span.note { "deleted" } } }
                td.nowrap.r2 { (words(condition)) }
            } }
        };
        let parents = fitting(&self.parents, ROWS, |one| {
            row(one.id, one.kind.as_ref().map(AsRef::as_ref), one.state.or(one.outcome), one.condition)
        });
        let children =
            fitting(&self.children, ROWS, |one| row(one.id, Some(one.kind.as_ref()), Some(one.state), one.condition));
        html! {
            section.panel {
                @for (title, rows) in [("Runs after", &parents), ("Before", &children)] {
                    @if rows.of > 0 {
                        h2 { (title) }
                        (rows.table(html! { th { "Job" } th { "Kind" } th { "State" } th { "When" } }))
                        (rows.note())
                    }
                }
            }
        }
    }
}

/// When the later job may start.
fn words(condition: AfterCondition) -> &'static str {
    match condition {
        AfterCondition::Completed => "when it completed",
        AfterCondition::Failed => "when one failed",
        _ => "when it ended",
    }
}
