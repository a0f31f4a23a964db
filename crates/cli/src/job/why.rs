//! Why jobs wait, for people and as JSON.

use serde::Serialize;
use uniqueue::JobRow;
use uniqueue_admin::{Obstacle, ObstacleCode};

use crate::output::{Style, paint, printable};

/// A job with what keeps it from starting, as `--json` prints it.
#[derive(Debug, Serialize)]
pub(super) struct JobAndWhy<'a, W: Serialize> {
    #[serde(flatten)]
    pub(super) job: &'a JobRow,
    pub(super) why: W,
}

/// A part of `job show`: each obstacle, and below it what to do. Empty for a job that runs or is final.
pub(super) fn text(obstacles: &[Obstacle]) -> String {
    let waits = |obstacle: &&Obstacle| !matches!(obstacle.code, ObstacleCode::Final | ObstacleCode::Running);
    let mut text = String::new();
    for obstacle in obstacles.iter().filter(waits) {
        text.push_str(&format!("  {}\n", printable(&obstacle.reason)));
        if let Some(remedy) = &obstacle.remedy {
            text.push_str(&format!("    {}\n", paint(Style::Faint, &printable(remedy))));
        }
    }
    match text.is_empty() {
        true => text,
        false => format!("\n{}\n{text}", paint(Style::Strong, "why it waits")),
    }
}
