//! Why a job waits.

use maud::{Markup, html};
use uniqueue::JobId;
use uniqueue_admin::{Obstacle, ObstacleCode};

use super::{Hostile, job_link};
use crate::page::Page;

/// A panel with what keeps a job from starting, the first obstacle first. Empty where the job runs or is final.
pub(crate) fn why(page: &Page, id: JobId, obstacles: &[Obstacle]) -> Markup {
    let waits = |obstacle: &&Obstacle| !matches!(obstacle.code, ObstacleCode::Final | ObstacleCode::Running);
    let obstacles: Vec<_> = obstacles.iter().filter(waits).collect();
    html! {
        @if !obstacles.is_empty() {
            section.panel.why {
                h2 { "Why it waits" }
                ol { @for obstacle in obstacles { li { (line(page, id, obstacle)) } } }
            }
        }
    }
}

/// An obstacle, with a link to the job that it names, and what to do about it.
fn line(page: &Page, id: JobId, obstacle: &Obstacle) -> Markup {
    html! {
        (Hostile(&obstacle.reason)) (named_job(page, obstacle, Some(id)))
        @if let Some(remedy) = &obstacle.remedy { br; span.note { (Hostile(remedy)) } }
    }
}

/// A link to the job that an obstacle names, unless it is this one.
pub(crate) fn named_job(page: &Page, obstacle: &Obstacle, this: Option<JobId>) -> Markup {
    let job = obstacle.details.get("job").and_then(|job| job.as_str()?.parse::<JobId>().ok());
    html! { @if let Some(job) = job.filter(|job| Some(*job) != this) { " " (job_link(page, job)) } }
}
