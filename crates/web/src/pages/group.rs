//! One group: its jobs, what holds it up, and its hold.

use axum::response::Response;
use time::OffsetDateTime;
use uniqueue::QueueSettings;
use uniqueue_admin::{GroupInfo, Obstacle};

use super::groups::{jobs, limit};
use super::queues::{HOLD, held, rate_in_words};
use crate::pages::prelude::*;

/// The result of each change of this page: the word in the URL, and the sentence.
const DONE: [(&str, &str); 3] = [
    ("hold", "The group is held. Its running jobs are finished. A hold that ends later stays."),
    ("resume", "The hold has ended."),
    ("none", "The group was not held."),
];

/// A group as the database knows it.
pub(crate) struct FoundGroup {
    /// `None`: none of its jobs is available or runs.
    group: Option<GroupInfo>,
    /// `None`: it is not held.
    held_until: Option<OffsetDateTime>,
    /// The obstacles of its first job.
    obstacles: Vec<Obstacle>,
}

pub(crate) async fn show(page: Page, fields: Fields) -> Result<Shown, Failure> {
    let (queue, name) = (fields.need("queue")?, fields.need("group")?);
    let answer = page.shared((queue, name), read(&page, queue, name)).await?;
    let (now, FoundGroup { group, held_until, obstacles }) = (answer.now(), &answer.of);
    let head = group.as_ref().and_then(|group| group.head);
    let snapshot = page.sample().await;
    let mut queues = snapshot.iter().flat_map(|snapshot| &snapshot.queues).map(|queue| &queue.settings);
    let settings = queues.find(|settings| settings.name.as_str() == queue);
    let done = fields.get("did").and_then(|did| DONE.iter().find(|(word, _)| *word == did));
    let body = html! {
        @if let Some((_, text)) = done { p.callout.notice role="status" { (text) } }
        @if let Some(until) = *held_until { p.callout.warning { (held(until, now)) } }
        @if let Some(head) = head { (why(&page, head, obstacles)) }
        div.columns {
            section.panel {
                h2 { "Group" }
                (facts(&page, queue, group.as_ref(), settings, now))
                p { a href=(page.link(&url("/jobs", &[("queue", queue), ("group", name), ("since", "all")]))) { "Jobs of this group" } }
            }
            @if page.may(Right::Queues) { section.panel.actions-panel { h2 { "Change" } (forms(&page, queue, name, held_until.is_some())) } }
        }
        (cli(&format!("uniqueue job list --queue {} --group {}", quoted(queue), quoted(name))))
    };
    let title = format!("Group {name}");
    Ok(document(&page, Document { title: &title, is_live: true, actions: html! {}, body }))
}

async fn read(page: &Page, queue: &str, name: &str) -> Result<Timed<FoundGroup>, Failure> {
    let group = page.admin().groups().of(queue, name).timeout(LOOK_UP).await?.pop();
    let held = page.admin().held_groups().of(queue, name).timeout(LOOK_UP).await?.pop();
    let obstacles = match group.as_ref().and_then(|group| group.head) {
        Some(head) => page.admin().why(head).timeout(LOOK_UP).await?,
        None => Vec::new(),
    };
    let held_until = held.map(|held| held.held_until);
    Ok(Timed::new(page.now().await?, FoundGroup { group, held_until, obstacles }))
}

fn facts(
    page: &Page,
    queue: &str,
    group: Option<&GroupInfo>,
    settings: Option<&QueueSettings>,
    now: OffsetDateTime,
) -> Markup {
    html! {
        dl.facts {
            dt { "Queue" } dd { a href=(page.link(&url("/queue", &[("queue", queue)]))) { (Hostile(queue)) } }
            dt { "Rate" } dd { (rate_in_words(settings.and_then(|settings| settings.group_rate))) }
            @if let Some(group) = group {
                @if group.head.is_some() || group.limit.is_some() { dt { "Limit" } dd { (limit(group)) } }
                dt { "Running" } dd { (jobs(page, group, "running", group.running)) }
                dt { "Waiting" } dd { (jobs(page, group, "available", group.waiting)) }
                @if let Some(head) = group.head {
                    dt { "First job" }
                    dd {
                        (job_link(page, head))
                        @if let Some(kind) = &group.head_kind { " " (Hostile(kind)) }
                        @if let Some(since) = group.head_since { " · could have run " (ago(since, now)) }
                    }
                }
            }
        }
        @if group.is_none() { p.empty { "None of its jobs is available or runs." } }
    }
}

fn forms(page: &Page, queue: &str, group: &str, is_held: bool) -> Markup {
    let to = page.link("/groups/change");
    let names = html! {
        input type="hidden" name="queue" value=(queue);
        input type="hidden" name="group" value=(group);
    };
    html! {
        @if is_held {
            form.row method="post" action=(to) { (names) (submit("verb", "resume", "End the hold", "primary")) }
        }
        form.row method="post" action=(to) {
            (names)
            span.label { "Hold for" }
            (length_fields("hold_for", "Hold for", HOLD))
            (submit("verb", "hold", "Hold", ""))
        }
        p.note { "Meanwhile no job of the group starts. Its rate is that of every group of the queue, and is set there." }
    }
}

/// Holds a group, or ends its hold.
pub(crate) async fn change(page: Page, body: String) -> Result<Response, Failure> {
    let fields = Fields::read(&body);
    let (name, group, verb) = (fields.need("queue")?, fields.need("group")?, fields.need("verb")?);
    let queue = page.client().queue(name);
    let did = match verb {
        "hold" => {
            by!(page, queue.hold_group(group, fields.need_length("hold_for")?)).await?;
            verb
        }
        "resume" => match by!(page, queue.resume_group(group)).await? {
            true => verb,
            false => "none",
        },
        other => return Err(Failure::Bad(format!("there is no such change: {other:?}"))),
    };
    page.log(&format!("{verb} group"), &format!("{name} {group}"));
    Ok(page.go_to(&url("/group", &[("queue", name), ("group", group), ("did", did)])))
}
