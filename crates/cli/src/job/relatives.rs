//! The parents and children of a job, as `job show` prints them.

use uniqueue::{Client, JobId, JobParent};
use uniqueue_admin::{Admin, JobChild};

use crate::failure::Failure;
use crate::output::{Cell, Column, Style, Table, paint};

/// How many children are shown.
const CHILDREN: u32 = 100;

/// The parents and the children of a job.
pub(super) async fn of(client: &Client, id: JobId) -> Result<(Vec<JobParent>, Vec<JobChild>), Failure> {
    Ok((client.parents(id).await?, Admin::new(client).children(id, CHILDREN).await?))
}

/// The part of `job show` for parents and children. Empty if the job has none.
pub(super) fn text(parents: &[JobParent], children: &[JobChild]) -> String {
    let mut text = String::new();
    if !parents.is_empty() {
        let mut table = table();
        for parent in parents {
            let kind = parent.kind.as_ref().map_or_else(|| "(deleted)".to_owned(), ToString::to_string);
            let state = parent.state.or(parent.outcome).map(|state| state.to_string()).unwrap_or_default();
            let told = parent.outcome.map_or_else(|| "waits for it".to_owned(), |outcome| outcome.to_string());
            table.row([parent.id.to_string(), kind, state, parent.condition.to_string(), told].map(Cell::new));
        }
        text.push_str(&format!("\n{}\n{}", paint(Style::Strong, "runs after"), table.text_without_count()));
    }
    if !children.is_empty() {
        let mut table = table();
        for child in children {
            let told = child.outcome.map_or_else(|| "waits".to_owned(), |outcome| outcome.to_string());
            let cells = [
                child.id.to_string(),
                child.kind.to_string(),
                child.state.to_string(),
                child.condition.to_string(),
                told,
            ];
            table.row(cells.map(Cell::new));
        }
        let title = match children.len() < CHILDREN as usize {
            true => "before".to_owned(),
            false => format!("before (the first {CHILDREN})"),
        };
        text.push_str(&format!("\n{}\n{}", paint(Style::Strong, &title), table.text_without_count()));
    }
    text
}

fn table() -> Table {
    Table::new([
        Column::text("id"),
        Column::long("kind"),
        Column::text("state"),
        Column::text("condition"),
        Column::text("outcome"),
    ])
}
