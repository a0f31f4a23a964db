//! Groups: their limits, their first jobs, and what holds each line up.

use uniqueue::{JobCount, QueueSettings};
use uniqueue_admin::{GroupInfo, HeldGroup, Obstacle};

use super::queues::{HOLD, held, rate_in_words};
use crate::pages::prelude::*;

/// The most groups on a page.
const ROWS: u32 = 50;

/// The most held groups on a page.
const HELD: u32 = 20;

/// The library counts the jobs of a group no further than this.
const COUNTED_TO: u64 = 1_001;

/// The groups of a page.
pub(crate) struct FoundGroups {
    listed: Vec<GroupInfo>,
    /// Groups that are held, on the first page only. They may have no job.
    held: Vec<HeldGroup>,
}

pub(crate) async fn list(page: Page, fields: Fields) -> Result<Shown, Failure> {
    let (page, query) = (Arc::new(page), Arc::new(GroupQuery::read(&fields)));
    let asked = page.ask(|page| found(page, Arc::clone(&query))).await?;
    let mut groups = asked.rows(|of| (of.now(), &of.of.listed));
    groups.sort_by_key(|(page, _, one)| {
        // Those that are held up come first, the longest first, as in the library.
        let held_up = (one.held_by.is_none(), one.head_since.is_none(), one.head_since);
        ((!query.is_by_name).then_some(held_up), one.queue.as_str(), one.group.as_str(), page.place())
    });
    let table = table(&page, &groups);
    let last = table.last(&groups);
    let next = last.filter(|_| query.is_by_name).map(|(page, _, last)| query.after(last, page.place()));
    let first = query.after.as_ref().map(|_| query.ordered(true));
    let body = html! {
        form.row.search method="get" action=(page.link("/groups")) role="search" {
            @for (is_by_name, label) in [(false, "Held up first"), (true, "By name")] {
                a.chip href=(page.link(&query.ordered(is_by_name)))
                    aria-current=[(query.is_by_name == is_by_name).then_some("true")] { (label) }
            }
            @if query.is_by_name { input type="hidden" name="order" value="name"; }
            input name="queue" value=[query.queue.as_deref()] placeholder="queue" aria-label="Queue" size="24";
            button { "Search" }
        }
        (asked.silent())
        @for (page, of) in &asked.answers { @if !of.of.held.is_empty() { (held_groups(page, &of.of.held, of.now())) } }
        @if groups.is_empty() { (nothing(&page, &query)) }
        @else { (table.html) }
        (pages(&page, first.as_deref(), next.as_deref()))
        @if last.is_some() && !query.is_by_name { p { a.button href=(page.link(&query.ordered(true))) { "All groups by name" } } }
        p.note {
            "The first job is the first available one. Since: when it could have run. Jobs of a group are counted to 1,000."
            @if last.is_some() && !query.is_by_name {
                " There are more groups. Those that have waited longest are shown, of the first 1,000 by queue, priority and name."
            }
        }
        (cli(&query.command()))
    };
    Ok(document(&page, Document { title: "Groups", is_live: true, actions: html! {}, body }))
}

async fn found(page: Arc<Page>, query: Arc<GroupQuery>) -> Result<Arc<Timed<FoundGroups>>, Failure> {
    page.shared(&query, read(&page, &query)).await
}

async fn read(page: &Page, query: &GroupQuery) -> Result<Timed<FoundGroups>, Failure> {
    let groups = page.admin().groups().limit(ROWS + 1).timeout(LOOK_UP);
    let groups = groups.given(query.queue.as_ref(), |groups, queue| groups.queue(queue));
    let groups = match &query.after {
        Some((queue, group)) if page.is_after(query.place.as_deref()) => groups.from(queue, group),
        Some((queue, group)) => groups.after(queue, group),
        None if query.is_by_name => groups.by_name(),
        None => groups,
    };
    let listed = groups.await?;
    let held = if query.after.is_none() { read_held(page, query).await? } else { Vec::new() };
    Ok(Timed::new(page.now().await?, FoundGroups { listed, held }))
}

/// The groups that are held. A database that is slow to list them must not hide the others.
async fn read_held(page: &Page, query: &GroupQuery) -> Result<Vec<HeldGroup>, Failure> {
    let held = page.admin().held_groups().limit(HELD + 1).timeout(LOOK_UP);
    let held = in_time(held.given(query.queue.as_ref(), |held, queue| held.queue(queue)).await)?;
    Ok(held.unwrap_or_default())
}

/// The groups that a worker or an operator holds.
fn held_groups(page: &Page, groups: &[HeldGroup], now: OffsetDateTime) -> Markup {
    html! {
        section.panel aria-label="Held groups" {
            h2 { "Held by a worker or by hand" @if let Some(place) = page.place() { " in " (Cell(place)) } }
            ul.held {
                @for one in groups.iter().take(HELD as usize) {
                    li {
                        a href=(group_url(page, one.queue.as_str(), &one.group)) { (Cell(&one.group)) }
                        " " span.note { "of " (Cell(&one.queue)) } " " (held(one.held_until, now))
                    }
                }
            }
            @if groups.len() > HELD as usize { p.note { "There are more. They are listed by queue and name, and here are the first " (HELD) "." } }
        }
    }
}

/// The link to a group.
pub(super) fn group_url(page: &Page, queue: &str, group: &str) -> String {
    page.link(&url("/group", &[("queue", queue), ("group", group)]))
}

fn nothing(page: &Page, query: &GroupQuery) -> Markup {
    html! {
        div.panel.empty {
            @match (&query.after, &query.queue) {
                (Some(_), _) => { p { "There are no more groups." } }
                (_, Some(_)) => { p { "No job of a group of this queue is available or runs. " a href=(page.link("/groups")) { "All groups" } } }
                _ => {
                    p { "No job of a group is available or runs. A job belongs to a group by the option " code { "group" } " of its insert." }
                }
            }
        }
    }
}

fn table(page: &Page, groups: &[(&Page, OffsetDateTime, &GroupInfo)]) -> Rows {
    let rows = fitting(groups, ROWS as usize, |(page, now, one)| {
        html! {
            @let queue = one.queue.as_str();
            tr id=(row_id(page, "group", (queue, &one.group))) {
                (place_cell(page))
                td.clip.l1 { a.row-link href=(group_url(page, queue, &one.group)) { (Cell(&one.group)) } }
                td.clip { a.plain href=(page.link(&url("/queue", &[("queue", queue)]))) { (Cell(queue)) } }
                td.num.r1 data-is="run" { (jobs(page, one, "running", one.running)) }
                td.num { (limit(one)) }
                td.num.r1 data-is="wait" { (jobs(page, one, "available", one.waiting)) }
                td.nowrap { @if let Some(head) = one.head { (job_link(page, head)) } }
                td.clip { @if let Some(kind) = &one.head_kind { (Cell(kind)) } }
                td.num.r2 { @if let Some(since) = one.head_since { (ago(since, *now)) } }
                td.l2.wrap { (held_up(page, one, *now)) }
            }
        }
    });
    let html = rows.table(html! {
        (place_head(page))
        th { "Group" } th { "Queue" } th.num { "Running" } th.num { "Limit" } th.num { "Waiting" }
        th { "First job" } th { "Kind" } th.num { "Since" } th { "Held up by" }
    });
    Rows { html, ..rows }
}

/// The number of a group's jobs in a state, with a link to them. It is a lower bound where the library stopped counting.
pub(super) fn jobs(page: &Page, group: &GroupInfo, state: &str, jobs: u64) -> Markup {
    let pairs = [("queue", group.queue.as_str()), ("group", &group.group), ("state", state), ("since", "all")];
    html! {
        @match jobs {
            0 => "0",
            COUNTED_TO.. => a.plain href=(page.link(&url("/jobs", &pairs))) { (count(JobCount::AtLeast(COUNTED_TO - 1))) },
            _ => a.plain href=(page.link(&url("/jobs", &pairs))) { (grouped(jobs)) },
        }
    }
}

/// Without a first job only the queue's own limit is known.
pub(super) fn limit(group: &GroupInfo) -> String {
    match group.limit {
        Some(limit) => grouped(u64::from(limit)),
        None if group.head.is_some() => "none".to_owned(),
        None => String::new(),
    }
}

/// The cell names what holds the group up. Where a hold or a rate has an end, the cell also says for how much longer.
pub(super) fn held_up(page: &Page, group: &GroupInfo, now: OffsetDateTime) -> Markup {
    html! {
        @if let Some(obstacle) = &group.held_by {
            (Hostile(&obstacle.reason)) (named_job(page, obstacle, None))
            @if let Some(until) = group.held_until.filter(|until| *until > now) { " " span.note { "for " (countdown(until, now)) } }
        }
    }
}

/// Which groups a page lists, as the URL holds it.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(crate) struct GroupQuery {
    pub(super) queue: Option<String>,
    /// In the order of names, which has pages. Otherwise those that are held up come first.
    pub(super) is_by_name: bool,
    /// Goes on after this group: its queue and its key.
    pub(super) after: Option<(String, String)>,
    /// The place of that group, in a list of several places.
    pub(super) place: Option<String>,
}

impl GroupQuery {
    pub(super) fn read(fields: &Fields) -> Self {
        let word = |name| fields.get(name).map(ToOwned::to_owned);
        let after = word("after_queue").zip(word("after"));
        let is_by_name = fields.get("order") == Some("name") || after.is_some();
        Self { queue: word("queue"), is_by_name, place: word("place").filter(|_| after.is_some()), after }
    }

    fn url(&self) -> String {
        let (after_queue, after) = self.after.as_ref().map(|(queue, group)| (queue.as_str(), group.as_str())).unzip();
        let (queue, order) = (self.queue.as_deref(), self.is_by_name.then_some("name"));
        let after = [("after_queue", after_queue), ("after", after), ("place", self.place.as_deref())];
        url_given("/groups", &[&[("queue", queue), ("order", order)], &after[..]].concat())
    }

    /// The first page in one of the orders.
    pub(super) fn ordered(&self, is_by_name: bool) -> String {
        Self { is_by_name, after: None, place: None, ..self.clone() }.url()
    }

    /// The page after a group.
    pub(super) fn after(&self, last: &GroupInfo, place: Option<&str>) -> String {
        let after = Some((last.queue.to_string(), last.group.clone()));
        Self { after, place: place.map(ToOwned::to_owned), is_by_name: true, ..self.clone() }.url()
    }

    /// The command that lists the same groups.
    pub(super) fn command(&self) -> String {
        let mut words = vec!["uniqueue queue groups".to_owned()];
        if self.is_by_name {
            words.push("--by-name --limit 100000".to_owned());
        }
        words.extend(self.queue.as_deref().map(argument));
        words.join(" ")
    }
}

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
    let answer = page.shared((queue, name), read_one(&page, queue, name)).await?;
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

async fn read_one(page: &Page, queue: &str, name: &str) -> Result<Timed<FoundGroup>, Failure> {
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
