//! The parents and the children of a job.

use uniqueue::{AfterCondition, JobId, JobParent, JobState};
use uniqueue_admin::JobChild;

use super::actions::confirmed;
use crate::pages::prelude::*;

/// The most parents and the most children on the page.
const ROWS: usize = 20;

/// The parents and the children of a job.
pub(super) struct Relatives {
    parents: Vec<JobParent>,
    children: Vec<JobChild>,
    /// What a retry of the graph would do: how many jobs are available at once, and how many wait for parents.
    retry: (usize, usize),
}

pub(super) async fn read(page: &Page, id: JobId) -> Result<Relatives, Failure> {
    let parents = page.client().parents(id).timeout(LOOK_UP).await?;
    let children = page.admin().children(id, ROWS as u32 + 1).timeout(LOOK_UP).await?;
    let planned = match parents.is_empty() && children.is_empty() {
        true => Vec::new(),
        false => page.admin().retry_graph_plan(id).timeout(LOOK_UP).await?,
    };
    let waiting = planned.iter().filter(|(_, state)| *state == JobState::Pending).count();
    Ok(Relatives { parents, children, retry: (planned.len() - waiting, waiting) })
}

impl Relatives {
    pub(super) fn has_parents(&self) -> bool {
        !self.parents.is_empty()
    }

    /// A panel of both. Nothing where the job has neither.
    pub(super) fn panel(&self, page: &Page, id: JobId) -> Markup {
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
                @if page.may(Right::Change) && self.retry.0 > 0 {
                    (confirmed("Retry the graph", &page.link(&format!("/jobs/{id}/change")), html! {
                        span {
                            "Jobs that are available again: " (self.retry.0) ". Jobs that wait for them: " (self.retry.1)
                            ". Completed jobs stay."
                        }
                        (submit("verb", "retry_graph", "Retry the graph", "primary"))
                    }))
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
