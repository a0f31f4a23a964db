//! The failed jobs of a kind, grouped by the message of their last error.

use std::collections::BTreeMap;

use maud::{Markup, html};
use time::OffsetDateTime;
use uniqueue::{JobFilter, JobId, JobRow, JobState};

use crate::access::Right;
use crate::failure::Failure;
use crate::html::{Cell, Rows, ago, fitting, grouped, job_link};
use crate::page::{LOOK_UP, Page};

/// The most failed jobs that are read, the newest first.
const JOBS: u32 = 300;

/// The most groups on the page.
const GROUPS: usize = 30;

/// The most bytes of a message.
const MESSAGE: usize = 160;

/// Failed jobs whose last errors differ in numbers and ids only.
struct ErrorGroup {
    message: String,
    jobs: Vec<JobId>,
    last_at: OffsetDateTime,
    last_job: JobId,
}

/// The groups of a kind's failed jobs, each with a retry and a cancellation of its jobs.
pub(super) async fn section(page: &Page, kind: &str) -> Result<Markup, Failure> {
    let filter = JobFilter::new().kind(kind).states([JobState::Retryable, JobState::Discarded]);
    let failed = match page.client().jobs(filter).limit(JOBS).timeout(LOOK_UP).await {
        Ok(failed) => failed,
        // A kind with few failures among millions of other kinds. Kinds have no index.
        Err(error) if error.is_statement_timeout() => {
            return Ok(html! {
                h2 { "Errors" }
                p.note { "The failed jobs of this kind were not read in time." }
            });
        }
        Err(error) => return Err(error.into()),
    };
    let now = page.now().await?;
    let groups = groups(&failed);
    let may = page.may(Right::Change);
    let rows: Rows = fitting(&groups, GROUPS, |group| {
        html! { tr {
            th scope="row" class="mono wrap l1" {
                @if page.app.redact.is_none() { (Cell(&group.message)) } @else { span.note { "hidden" } }
            }
            td.num.r1 data-is="jobs" { (grouped(group.jobs.len() as u64)) }
            td.num.r2 { (ago(group.last_at, now)) }
            td.nowrap.l2 { (job_link(page, group.last_job)) }
            @if may { td.nowrap.own-line { (change(page, kind, group)) } }
        } }
    });
    Ok(html! {
        @if !groups.is_empty() {
            h2 { "Errors" }
            (rows.table(html! { th { "Message" } th.num { "Jobs" } th.num { "Last" } th { "Last job" } @if may { th { span.sr { "Change" } } } }))
            (rows.note())
            p.note {
                "Jobs that wait for a retry or were discarded. Numbers and ids are left out of the messages."
                @if failed.len() as u32 == JOBS { " Only the newest " (JOBS) " are read." }
            }
        }
    })
}

/// The buttons of a group. Each leads to a plan, which asks before it changes anything.
fn change(page: &Page, kind: &str, group: &ErrorGroup) -> Markup {
    html! {
        form.inline method="post" action=(page.link("/bulk")) {
            input type="hidden" name="kind" value=(kind);
            @for id in &group.jobs { input type="hidden" name="id" value=(id); }
            button name="verb" value="retry" { "Retry" } " "
            button name="verb" value="cancel" { "Cancel" }
        }
    }
}

fn groups(failed: &[JobRow]) -> Vec<ErrorGroup> {
    let mut groups = BTreeMap::<String, ErrorGroup>::new();
    for job in failed {
        let Some(last) = job.errors.last() else { continue };
        let message = without_numbers(&last.error);
        let group = groups.entry(message.clone()).or_insert_with(|| ErrorGroup {
            message,
            jobs: Vec::new(),
            last_at: last.at,
            last_job: job.id,
        });
        group.jobs.push(job.id);
        if last.at > group.last_at {
            (group.last_at, group.last_job) = (last.at, job.id);
        }
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.jobs.len()));
    groups
}

/// The first line of a message, in which each word with a digit is a `#`: numbers, ids, times and addresses.
fn without_numbers(message: &str) -> String {
    let line = message.trim_start().lines().next().unwrap_or_default();
    let mut text = String::with_capacity(line.len().min(MESSAGE + 4));
    let is_word = |letter: char| letter.is_alphanumeric() || matches!(letter, '-' | '_' | '.' | ':');
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|letter| is_word(letter) != is_word(first)).unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        rest = after;
        if part.contains(|letter: char| letter.is_ascii_digit()) {
            // A full stop or a colon at the end belongs to the sentence.
            text.push('#');
            text.push_str(&part[part.trim_end_matches(['.', ':']).len()..]);
        } else {
            text.push_str(part);
        }
        if text.len() > MESSAGE {
            text.truncate(text.floor_char_boundary(MESSAGE));
            text.push('…');
            break;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_differ_in_numbers_and_ids_are_one() {
        for (message, shown) in [
            ("timeout after 30s: user 17", "timeout after #: user #"),
            ("timeout after 5s: user 4021", "timeout after #: user #"),
            ("no row 01a217da-1817-7d7c-81c1-8b6e7b7ed60f.\nbacktrace", "no row #."),
            ("connect 10.0.0.1:5432: refused", "connect #: refused"),
            ("", ""),
        ] {
            assert_eq!(without_numbers(message), shown);
        }
        assert!(without_numbers(&"é ".repeat(500)).len() < MESSAGE + 4);
    }
}
