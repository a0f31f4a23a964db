//! All jobs of a filter as a file: JSON lines, or CSV. It is sent while it is read, so its size has no limit.

use axum::body::{Body, Bytes};
use axum::http::header;
use futures_util::stream::try_unfold;
use time::format_description::well_known::Rfc3339;
use uniqueue::Error;

use super::{JobQuery, check_args};
use crate::pages::prelude::*;

/// How many jobs are read at once.
const PAGE: u32 = 500;

/// How long each part may take to be read.
const PART: Duration = Duration::from_secs(60);

/// The columns of CSV.
const COLUMNS: &str = "id,kind,queue,state,priority,attempt,max_attempts,inserted_at,due_at,attempted_at,ended_at,group,\
                       unique_key,args,last_failed_at,last_error\r\n";

/// Sends the jobs of a filter that are there now.
pub(crate) async fn export(page: Page, fields: Fields) -> Result<Response, Failure> {
    let query = JobQuery::read(&fields)?;
    check_args(&page, &query)?;
    let (is_csv, name, content_type) = match fields.get("format") {
        Some("csv") => (true, "jobs.csv", "text/csv; charset=utf-8"),
        None | Some("jsonl") => (false, "jobs.jsonl", "application/jsonl; charset=utf-8"),
        Some(other) => return Err(Failure::Bad(format!("There is no such format: {other:?}. It is csv or jsonl."))),
    };
    let now = page.now().await?;
    let filter = query.ordered(query.filter(now)).created_before(query.range.inserted_before(now));
    // Of a filter that fails the first part says so, before the answer begins.
    let first = part(&page, filter.clone(), None).await?;
    page.log("export", &query.command());
    let start = if is_csv { COLUMNS } else { "" };
    let page = Arc::new(page);
    let parts = try_unfold(Some((start.to_owned(), first)), move |left| {
        let (page, filter) = (Arc::clone(&page), filter.clone());
        async move {
            let Some((mut text, jobs)) = left else { return Ok(None) };
            let last = jobs.last().filter(|_| jobs.len() == PAGE as usize).map(|job| job.id);
            jobs.into_iter().for_each(|job| write(&mut text, is_csv, &page.app.redacted(job)));
            // On an error the browser sees that the file is not whole.
            let next = tokio::select! {
                next = next(&page, filter, last) => next.map_err(std::io::Error::other)?,
                () = page.app.stopped().cancelled() => return Err(std::io::Error::other("the dashboard stops")),
            };
            Ok(Some((Bytes::from(text), next.map(|jobs| (String::new(), jobs)))))
        }
    });
    let disposition = format!("attachment; filename=\"{name}\"");
    let headers = [(header::CONTENT_TYPE, content_type.to_owned()), (header::CONTENT_DISPOSITION, disposition)];
    Ok((headers, Body::from_stream(parts)).into_response())
}

/// The jobs after the last one of a part. `None`: it was the last part.
async fn next(page: &Page, filter: JobFilter, last: Option<JobId>) -> Result<Option<Vec<JobRow>>, Error> {
    match last {
        Some(_) => part(page, filter, last).await.map(Some),
        None => Ok(None),
    }
}

async fn part(page: &Page, filter: JobFilter, after: Option<JobId>) -> Result<Vec<JobRow>, Error> {
    page.client().jobs(filter.limit(PAGE).after(after)).timeout(PART).await
}

fn write(text: &mut String, is_csv: bool, job: &JobRow) {
    match is_csv {
        true => csv(text, job),
        false => *text += &(serde_json::to_string(job).unwrap_or_default() + "\n"),
    }
}

fn csv(text: &mut String, job: &JobRow) {
    let at = |at: Option<OffsetDateTime>| at.and_then(|at| at.format(&Rfc3339).ok()).unwrap_or_default();
    let failed = job.errors.last();
    let cells = [
        job.id.to_string(),
        job.kind.to_string(),
        job.queue.to_string(),
        job.state.to_string(),
        job.priority.to_string(),
        job.attempt.to_string(),
        job.max_attempts.to_string(),
        at(Some(job.created_at)),
        at(Some(job.scheduled_at)),
        at(job.attempted_at),
        at(job.finalized_at),
        job.group_key.clone().unwrap_or_default(),
        job.unique_key.clone().unwrap_or_default(),
        job.args.get().to_owned(),
        at(failed.map(|error| error.at)),
        failed.map(|error| error.error.clone()).unwrap_or_default(),
    ];
    for (place, cell) in cells.iter().enumerate() {
        text.push_str(if place > 0 { "," } else { "" });
        text.push_str(&csv_cell(cell));
    }
    text.push_str("\r\n");
}

/// A cell. A spreadsheet runs a text that begins as a formula does, so such a text begins with an apostrophe.
fn csv_cell(cell: &str) -> String {
    let is_formula = cell.starts_with(['=', '+', '-', '@', '\t', '\r']) && cell.parse::<f64>().is_err();
    let apostrophe = if is_formula { "'" } else { "" };
    match is_formula || cell.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{apostrophe}{}\"", cell.replace('"', "\"\"")),
        false => cell.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_quoted_where_it_must_be_and_is_no_formula() {
        assert_eq!(csv_cell("plain"), "plain");
        assert_eq!(csv_cell("{\"a\":1}"), "\"{\"\"a\"\":1}\"");
        assert_eq!(csv_cell("=HYPERLINK(\"x\")"), "\"'=HYPERLINK(\"\"x\"\")\"");
        assert_eq!(csv_cell("-5"), "-5");
    }
}
