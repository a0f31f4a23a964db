//! Inserting a job by hand.

use uniqueue::json::indent_json;

use super::explain::{explained, job};
use crate::failure::told;
use crate::pages::prelude::*;

/// How long an insert waits for another transaction with its key. Shorter than the time limit of a statement in
/// `uniqueue serve`, so that the error names the key as its reason.
const MAX_WAIT: Duration = Duration::from_millis(1_500);

pub(crate) async fn form(page: Page, fields: Fields) -> Result<Shown, Failure> {
    let Some(id) = fields.parsed::<JobId>("from")? else { return Ok(document_of(&page, &fields, html! {})) };
    if page.app.redact.is_some() {
        return Err(Failure::Bad("Args cannot be inserted again here, because parts of them are hidden.".to_owned()));
    }
    let job = page.client().job(id).timeout(LOOK_UP).await?.ok_or(Failure::NotFound("job"))?;
    let note =
        html! { p.callout.notice { "The values come from job " (job_link(&page, id)) ". That job stays as it is." } };
    let fields = Fields::of([
        ("kind", job.kind.to_string()),
        ("queue", job.queue.to_string()),
        ("priority", job.priority.to_string()),
        ("max_attempts", job.max_attempts.to_string()),
        ("args", indent_json(job.args.get())),
    ]);
    Ok(document_of(&page, &fields, note))
}

fn document_of(page: &Page, fields: &Fields, answer: Markup) -> Shown {
    let may = page.may(Right::Insert);
    let body = html! {
        (answer)
        @if !may { p.callout.notice { "You do not have the right to insert jobs here." } }
        form.panel method="post" action=(page.link("/insert")) {
            div.fields {
                label.field { "Kind" input name="kind" value=[fields.get("kind")] required; }
                label.field { "Queue" input name="queue" value=[fields.get("queue")] placeholder="the kind's"; }
                label.field { "Priority" input name="priority" type="number" min="-32768" max="32767" value=[fields.get("priority")] placeholder="the kind's"; }
                label.field { "Attempts" input name="max_attempts" type="number" min="1" max="32767" value=[fields.get("max_attempts")] placeholder="the kind's"; }
                label.field { "Run in minutes" input name="minutes" type="number" min="0" max="525600" value=[fields.get("minutes")] placeholder="the kind's"; }
                label.field.wide { "Args" textarea name="args" rows="5" spellcheck="false" { (fields.get("args").unwrap_or("{}")) } }
                label.field.wide { "Unique policy" textarea name="policy" rows="3" spellcheck="false" placeholder="the kind's; null: none" { (fields.get("policy").unwrap_or_default()) } }
            }
            p.note { "What is left empty is taken from the kind where it is registered, else from the defaults of every kind." }
            div.row {
                button.primary name="verb" value="explain" disabled[!may] { "Explain first" }
                button name="verb" value="insert" disabled[!may] { "Insert" }
            }
        }
    };
    document(page, Document { title: "Insert", is_live: false, actions: html! {}, body })
}

/// Inserts a job, or explains what its insert would do.
pub(crate) async fn insert(page: Page, body: String) -> Result<Response, Failure> {
    let fields = Fields::read(&body);
    let refuse = |page: &Page, why: &str| {
        document_of(page, &fields, html! { p.callout.critical role="alert" { (Hostile(why)) } }).into_response()
    };
    let job = match job(&fields) {
        Ok(job) => job,
        Err(why) => return Ok(refuse(&page, &why)),
    };
    let job = match page.client().fill_in(job).timeout(LOOK_UP).await {
        Ok(job) => job,
        Err(error) => return Ok(refuse(&page, &told(&error))),
    };
    if fields.get("verb") == Some("insert") {
        return Ok(match by!(page, page.client().insert(job).max_wait(MAX_WAIT)).await {
            Ok(inserted) if inserted.duplicate => {
                let frees = inserted.duplicate_of().map(|duplicate| duplicate.frees()).unwrap_or_default();
                let (answer, what) = match (inserted.updated, inserted.covered) {
                    (true, _) => ("An update. ", "Nothing was inserted, and the holder was changed: "),
                    (_, true) => ("Covered. ", "Nothing was inserted, because a waiting job does the work: "),
                    _ => ("A duplicate. ", "Nothing was inserted: "),
                };
                let answer = html! {
                    p.callout.warning role="status" {
                        b { (answer) } (what) (job_link(&page, inserted.id())) " "
                        (state(inserted.job.state)) " holds the key. It is free " (frees) "."
                    }
                };
                document_of(&page, &fields, answer).into_response()
            }
            Ok(inserted) => {
                page.log("insert", &inserted.id().to_string());
                page.go_to(&format!("/jobs/{}", inserted.id()))
            }
            Err(error) => refuse(&page, &told(&error)),
        });
    }
    Ok(match page.client().explain(job).timeout(LOOK_UP).await {
        Ok(explanation) => document_of(&page, &fields, explained(&page, &explanation)).into_response(),
        Err(error) => refuse(&page, &error.to_string()),
    })
}
