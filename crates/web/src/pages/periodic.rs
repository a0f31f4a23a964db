//! Periodic jobs.

use crate::pages::prelude::*;

/// The most periodic jobs on the page.
const ROWS: usize = 100;

/// The most bytes of what is wrong with one.
const PROBLEM: usize = 1_000;

pub(crate) async fn list(page: Page, fields: Fields) -> Result<Shown, Failure> {
    let page = Arc::new(page);
    let ask = |page: Arc<Page>| async move {
        let jobs = page.admin().periodic().list().timeout(LOOK_UP).await?;
        Ok((page.now().await?, jobs))
    };
    let asked = page.ask(ask).await?;
    let mut jobs = asked.rows(|(now, jobs)| (*now, jobs));
    jobs.sort_by_key(|(page, _, job)| (job.name.as_str(), page.place()));
    let ran: Option<uniqueue::JobId> = fields.parsed("ran")?;
    let may = page.may(Right::Periodic);
    let rows = fitting(&jobs, ROWS, |(page, now, job)| {
        html! { tr {
            (place_cell(page))
            th.l1 scope="row" {
                (Cell(&job.name))
                @if job.paused_at.is_some() { " " span.badge.warning { "paused" } }
                @if let Some(problem) = &job.problem { p.note.bad { (Start(problem, PROBLEM)) } }
            }
            td.clip { a.plain href=(page.link(&url("/kind", &[("kind", job.kind.as_str())]))) { (Cell(&job.kind)) } }
            td.l2 { code { (Cell(&job.schedule)) } " " span.note { (Cell(&job.time_zone)) } }
            td.num.r1 { @match job.next_at { Some(at) if job.paused_at.is_none() => (ago(at, *now)), _ => "" } }
            td.num.r2 { @if let Some(at) = job.last_at { (ago(at, *now)) } }
            td.nowrap { @if let Some(id) = job.last_job { (job_link(page, id)) } }
            @if may { td.own-line {
                form.row method="post" action=(page.link("/periodic/change")) {
                    input type="hidden" name="name" value=(job.name);
                    @if job.paused_at.is_some() { (submit("verb", "resume", "Resume", "")) } @else { (submit("verb", "pause", "Pause", "")) }
                    (submit("verb", "run", "Run now", ""))
                }
            } }
        } }
    });
    let body = html! {
        @if let Some(id) = ran { p.callout.notice role="status" { "Inserted, or met as the holder of its key: " (job_link(&page, id)) } }
        (asked.silent())
        @if jobs.is_empty() {
            p.panel.empty { "There is no periodic job. Runners define them when they start, and " code { "uniqueue periodic add" } " does." }
        } @else {
            (rows.table(html! { (place_head(&page)) th { "Name" } th { "Kind" } th { "Schedule" } th.num { "Next" } th.num { "Last" } th { "Last job" } @if may { th { "Change" } } }))
            (rows.note())
        }
        (cli("uniqueue periodic list"))
    };
    Ok(document(&page, Document { title: "Periodic jobs", is_live: false, actions: html! {}, body }))
}

/// Pauses, resumes or runs a periodic job.
pub(crate) async fn change(page: Page, body: String) -> Result<Response, Failure> {
    let fields = Fields::read(&body);
    let (name, verb) = (fields.need("name")?, fields.need("verb")?);
    let periodic = page.admin().periodic();
    let gone = Failure::NotFound("periodic job");
    let to = match verb {
        "pause" => by!(page, periodic.pause(name)).await?.then(|| "/periodic".to_owned()),
        "resume" => by!(page, periodic.resume(name)).await?.then(|| "/periodic".to_owned()),
        "run" => by!(page, periodic.run_now(name)).await?.map(|run| format!("/periodic?ran={}", run.job)),
        other => return Err(Failure::Bad(format!("there is no such change: {other:?}"))),
    };
    let to = to.ok_or(gone)?;
    page.log(verb, name);
    Ok(page.go_to(&to))
}
