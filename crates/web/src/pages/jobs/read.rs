//! Reading a page of jobs within the time of a look-up.

use tokio::time::Instant;
use uniqueue::Error;

use super::filter::JobQuery;
use crate::failure::Failure;
use crate::page::Page;
use crate::pages::prelude::*;

/// How far back the first part of a search in args goes. Each part is three times as long as the one before.
const FIRST_PART: Duration = Duration::from_secs(600);

/// The jobs of a page.
pub(crate) struct Found {
    pub(crate) jobs: Vec<JobRow>,
    /// Why there may be more.
    pub(crate) cut: Option<Cut>,
}

/// A search that reached its deadline.
pub(crate) enum Cut {
    /// Nothing was searched to its end.
    Whole,
    /// The jobs since this time were searched. A page after this id goes on from there.
    Since(OffsetDateTime, JobId),
}

/// Reads up to this many jobs until the deadline.
pub(crate) async fn read(
    page: &Page,
    query: &JobQuery,
    now: OffsetDateTime,
    limit: u32,
    deadline: Instant,
) -> Result<Found, Failure> {
    let filter = query.ordered(query.filter(now));
    // Args have no index. The other conditions have one, or are found quickly among the jobs of a state or a queue.
    if query.word("args").is_some() && !query.is_oldest_first {
        return read_in_parts(page, query, filter, now, limit, deadline).await;
    }
    Ok(match in_time(list(page, filter.after(query.after).limit(limit), deadline).await)? {
        Some(jobs) => Found { jobs, cut: None },
        None => Found { jobs: Vec::new(), cut: Some(Cut::Whole) },
    })
}

/// Searches backwards in growing parts, so that a search that is stopped has the jobs of the parts before.
async fn read_in_parts(
    page: &Page,
    query: &JobQuery,
    filter: JobFilter,
    now: OffsetDateTime,
    limit: u32,
    deadline: Instant,
) -> Result<Found, Failure> {
    let oldest = query.range.oldest(now);
    let (mut jobs, mut length) = (Vec::new(), FIRST_PART);
    let mut searched_since = None;
    let mut from = query.after.map_or(now, |id| time_of(id).min(now));
    loop {
        from = from
            .checked_sub(time::Duration::try_from(length).unwrap_or_default())
            .unwrap_or(OffsetDateTime::UNIX_EPOCH);
        let first = JobId::first_at(from);
        let is_last = from <= OffsetDateTime::UNIX_EPOCH || oldest.is_some_and(|oldest| first <= oldest);
        let part = if is_last { filter.clone() } else { filter.clone().id_at_least(first) };
        let part = part.after(searched_since.map(JobId::first_at).or(query.after)).limit(limit - jobs.len() as u32);
        let Some(found) = in_time(list(page, part, deadline).await)? else {
            let cut = searched_since.map_or(Cut::Whole, |since| Cut::Since(since, JobId::first_at(since)));
            return Ok(Found { jobs, cut: Some(cut) });
        };
        jobs.extend(found);
        if is_last || jobs.len() >= limit as usize {
            return Ok(Found { jobs, cut: None });
        }
        (searched_since, length) = (Some(from), length * 3);
    }
}

/// A look-up without time is stopped at once.
async fn list(page: &Page, filter: JobFilter, deadline: Instant) -> Result<Vec<JobRow>, Error> {
    page.client().jobs(filter).timeout(deadline.saturating_duration_since(Instant::now())).await
}

/// When a job was inserted, by its id.
fn time_of(id: JobId) -> OffsetDateTime {
    let millis = (id.as_uuid().as_u128() >> 80) as i128;
    OffsetDateTime::from_unix_timestamp_nanos(millis * 1_000_000).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    #[test]
    fn an_id_has_the_time_of_its_job() {
        let at = datetime!(2026-02-12 15:15:00.25 UTC);
        assert_eq!(time_of(JobId::first_at(at)), at);
    }
}
