//! The parts of a search. Each part has its own time limit, so that a slow part does not hide the results of another.

use std::collections::{BTreeMap, BTreeSet};
use std::future::IntoFuture;

use time::OffsetDateTime;
use tokio::time::Instant;
use uniqueue::{JobFilter, JobId, JobRow, JobState, MAX_KEY_BYTES};
use uniqueue_admin::{GroupInfo, KeyHolder};
use uuid::Uuid;

use crate::failure::Failure;
use crate::page::{LOOK_UP, Page};
use crate::pages::failing;
use crate::pages::jobs::{self, JobQuery};
use crate::shared::WEEK;

/// The most hits of each sort.
pub(super) const MOST: usize = 10;

/// The most jobs among which the last digits of an id are searched.
const AMONG: u32 = 1_000;

/// The most groups whose names are searched for a part, in the order of their queues and names.
const GROUPS: u32 = 100;

/// The last jobs, whose kinds are known before they are counted in the history.
const LAST: u32 = 100;

/// The fewest digits of an id.
const DIGITS: usize = 4;

/// The results of a search.
pub(super) struct Found {
    pub(super) now: OffsetDateTime,
    pub(super) by_id: Vec<JobRow>,
    pub(super) queues: Vec<String>,
    pub(super) kinds: Vec<String>,
    pub(super) groups: Vec<Group>,
    pub(super) keys: Vec<KeyHolder>,
    /// `None`: args were not searched.
    pub(super) in_args: Option<jobs::Found>,
    /// Whether a part did not answer in time.
    pub(super) has_failed: bool,
}

/// A group with jobs that wait or run.
#[derive(Clone)]
pub(super) struct Group {
    pub(super) queue: String,
    pub(super) name: String,
    pub(super) jobs: u64,
}

pub(super) async fn find(page: &Page, typed: &str) -> Result<Found, Failure> {
    let now = page.now().await?;
    let (names, failing) = tokio::join!(page.shared("search", read_names(page)), failing::found(page));
    let (names, failing) = (names.unwrap_or_default(), failing.ok());
    let failing = failing.iter().flat_map(|failing| &failing.of.kinds).map(|one| one.kind.to_string());
    let all_kinds = names.kinds.iter().cloned().chain(failing).collect();
    let contains = |names: &BTreeSet<String>| {
        let lower = typed.to_lowercase();
        let mut found: Vec<_> = names.iter().filter(|name| name.to_lowercase().contains(&lower)).cloned().collect();
        // The name itself is what was meant.
        if found.iter().any(|name| *name == typed) {
            found.retain(|name| *name == typed);
        }
        found.truncate(MOST);
        found
    };
    let (queues, kinds) = (contains(&names.queues), contains(&all_kinds));
    let ids = id_range(typed);
    let keys = page.admin().claims().prefix(typed).limit(MOST as u32).timeout(LOOK_UP).into_future();
    let (by_id, groups, keys) = tokio::join!(by_id(page, ids.as_ref()), groups(page, typed, &names.queues), keys);
    let is_found = |jobs: &Result<Vec<JobRow>, Failure>| jobs.as_ref().is_ok_and(|jobs| !jobs.is_empty());
    let in_args = match page.app.redact {
        None if !(ids.is_some() && is_found(&by_id)) => Some(in_args(page, typed, now).await),
        _ => None,
    };
    let groups = groups.map(|groups| if groups.is_empty() { named_like(&names.groups, typed) } else { groups });
    let has_failed = by_id.is_err() || groups.is_err() || keys.is_err() || matches!(in_args, Some(Err(_)));
    Ok(Found {
        now,
        by_id: by_id.unwrap_or_default(),
        queues,
        kinds,
        groups: groups.unwrap_or_default(),
        keys: keys.unwrap_or_default(),
        in_args: in_args.and_then(Result::ok),
        has_failed,
    })
}

/// The lowest and the highest id that begin with these digits, and their last digits.
struct IdRange {
    lowest: u128,
    highest: u128,
    end: String,
}

/// Reads an id, its first digits, or its first and last ones with an ellipsis between them.
fn id_range(typed: &str) -> Option<IdRange> {
    let (start, end) = typed.split_once('…').or_else(|| typed.split_once("...")).unwrap_or((typed, ""));
    let digits = |text: &str| {
        let text: String = text.chars().filter(|one| *one != '-').collect();
        text.chars().all(|one| one.is_ascii_hexdigit()).then(|| text.to_ascii_lowercase())
    };
    let (start, end) = (digits(start)?, digits(end)?);
    if !(DIGITS..=32).contains(&start.len()) || end.len() > 32 {
        return None;
    }
    // The digits of an id, filled up to its length.
    let padded = |with: &str| u128::from_str_radix(&format!("{start}{}", with.repeat(32 - start.len())), 16).ok();
    Some(IdRange { lowest: padded("0")?, highest: padded("f")?, end })
}

async fn by_id(page: &Page, range: Option<&IdRange>) -> Result<Vec<JobRow>, Failure> {
    let Some(IdRange { lowest, highest, end }) = range else { return Ok(Vec::new()) };
    let id = |number| JobId::from(Uuid::from_u128(number));
    let among = JobFilter::new().id_at_least(id(*lowest)).id_at_most(id(*highest));
    let among = among.limit(if end.is_empty() { MOST as u32 } else { AMONG });
    let mut jobs = page.client().jobs(among).timeout(LOOK_UP).await?;
    jobs.retain(|job| job.id.to_string().replace('-', "").ends_with(end));
    jobs.truncate(MOST);
    Ok(jobs)
}

/// The groups of this name with jobs that wait or run, in any queue.
async fn groups(page: &Page, name: &str, queues: &BTreeSet<String>) -> Result<Vec<Group>, Failure> {
    if queues.is_empty() || name.len() > MAX_KEY_BYTES {
        return Ok(Vec::new());
    }
    let of = |state: JobState| {
        let filter = JobFilter::new().queues(queues.iter()).group(name).states(state).limit(AMONG);
        page.client().jobs(filter).timeout(LOOK_UP).into_future()
    };
    let (available, running) = tokio::join!(of(JobState::Available), of(JobState::Running));
    let mut found: BTreeMap<String, u64> = BTreeMap::new();
    for job in available?.into_iter().chain(running?) {
        *found.entry(job.queue.to_string()).or_default() += 1;
    }
    Ok(found.into_iter().map(|(queue, jobs)| Group { queue, name: name.to_owned(), jobs }).collect())
}

/// The waiting groups whose names contain the typed text.
fn named_like(groups: &[Group], typed: &str) -> Vec<Group> {
    let lower = typed.to_lowercase();
    groups.iter().filter(|group| group.name.to_lowercase().contains(&lower)).take(MOST).cloned().collect()
}

/// One job more than is shown tells that there are more.
async fn in_args(page: &Page, typed: &str, now: OffsetDateTime) -> Result<jobs::Found, Failure> {
    jobs::read(page, &JobQuery::of_args(typed), now, MOST as u32 + 1, Instant::now() + LOOK_UP).await
}

/// The names that are known.
#[derive(Default)]
pub(super) struct Names {
    pub(super) queues: BTreeSet<String>,
    pub(super) kinds: BTreeSet<String>,
    groups: Vec<Group>,
}

/// The queues with jobs, runners or settings. The kinds that are registered, that live runners work, that the history of a
/// week has, or of which the last jobs are. The first groups. Each part is read by index and has few rows.
async fn read_names(page: &Page) -> Result<Names, Failure> {
    let queues = match page.sample().await {
        Some(snapshot) => snapshot.queues.iter().map(|queue| queue.settings.name.to_string()).collect(),
        None => BTreeSet::new(),
    };
    let (registered, runners, counted, last, groups) = tokio::join!(
        page.admin().kinds().timeout(LOOK_UP).into_future(),
        page.admin().runners().timeout(LOOK_UP).into_future(),
        page.admin().history_by_kind(WEEK, AMONG).timeout(LOOK_UP).into_future(),
        page.client().jobs(JobFilter::all().limit(LAST)).timeout(LOOK_UP).into_future(),
        page.admin().groups().by_name().limit(GROUPS).timeout(LOOK_UP).into_future(),
    );
    // A role that may not read all of them gets the names that it may read.
    let has_failed = registered.is_err() && runners.is_err() && counted.is_err() && last.is_err();
    let groups = match groups {
        Err(error) if has_failed => return Err(error.into()),
        groups => groups,
    };
    let mut kinds: BTreeSet<_> = registered.into_iter().flatten().map(|kind| kind.name.to_string()).collect();
    kinds.extend(runners.into_iter().flatten().flat_map(|runner| runner.kinds).flatten().map(|kind| kind.to_string()));
    kinds.extend(counted.into_iter().flatten().map(|of| of.kind.to_string()));
    kinds.extend(last.into_iter().flatten().map(|job| job.kind.to_string()));
    let group =
        |one: GroupInfo| Group { queue: one.queue.to_string(), name: one.group, jobs: one.running + one.waiting };
    Ok(Names { queues, kinds, groups: groups.into_iter().flatten().map(group).collect() })
}

/// The names that contain the typed text, of one sort or of all. Names that begin with it come first.
pub(super) async fn suggestions(page: &Page, typed: &str, of: Option<&str>) -> Vec<String> {
    // All search boxes share them. A new name appears within 20 s.
    let names = page.shared_longer("suggest", read_names(page)).await.unwrap_or_default();
    let groups = names.groups.iter().map(|group| group.name.clone()).collect();
    let sorts = [("kinds", &names.kinds), ("queues", &names.queues), ("groups", &groups)];
    let asked = sorts.into_iter().filter(|(sort, _)| of.is_none_or(|of| of == *sort)).flat_map(|(_, names)| names);
    let lower = typed.to_lowercase();
    let mut found: Vec<_> = asked.filter(|name| name.to_lowercase().contains(&lower)).cloned().collect();
    found.sort_by_key(|name| !name.to_lowercase().starts_with(&lower));
    found.truncate(2 * MOST);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_digits_of_an_id_are_a_range() {
        let of = |typed| id_range(typed).map(|range| (range.lowest, range.highest, range.end));
        let whole = 0x019a_bc12_3456_7def_8a12_3456_789a_bcde;
        assert_eq!(of("019ABC12-3456-7def-8a12-3456789abcde"), Some((whole, whole, String::new())));
        let (lowest, highest) = (0x019a_bc12 << 96, (0x019a_bc12 << 96) | (u128::MAX >> 32));
        assert_eq!(of("019abc12…9abcde"), Some((lowest, highest, "9abcde".to_owned())));
        for typed in ["01a", "mail", "019abc12x", "", "…abcd"] {
            assert_eq!(of(typed), None, "{typed}");
        }
    }
}
