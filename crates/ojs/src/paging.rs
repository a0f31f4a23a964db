//! Pages of lists.

use serde::Deserialize;
use serde_json::{Value, json};
use uniqueue::JobId;

use crate::fields::wrong;
use crate::problem::Problem;

/// The most results of a page.
const MOST: u32 = 200;

/// The furthest that an offset skips. A cursor goes further, at no cost.
const MOST_SKIPPED: u32 = 10_000;

/// The query of a list.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Paging {
    limit: Option<String>,
    offset: Option<String>,
    cursor: Option<String>,
    /// Only jobs of this queue.
    pub(crate) queue: Option<String>,
}

impl Paging {
    /// The most results of the page.
    pub(crate) fn limit(&self) -> Result<u32, Problem> {
        read_limit(self.limit.as_deref())
    }

    /// How many results are skipped.
    pub(crate) fn offset(&self) -> Result<u32, Problem> {
        let Some(text) = &self.offset else { return Ok(0) };
        let offset = text.parse().ok().filter(|offset| *offset <= MOST_SKIPPED);
        offset.ok_or_else(|| wrong("offset", "0 to 10000; a cursor goes further", &json!(text)))
    }

    /// The job that the page before ended with.
    pub(crate) fn after(&self) -> Result<Option<JobId>, Problem> {
        let Some(text) = self.cursor.as_deref().filter(|text| !text.is_empty()) else { return Ok(None) };
        let invalid = |_| wrong("cursor", "the next_cursor of another page", &json!(text));
        text.parse::<JobId>().map(Some).map_err(invalid)
    }

    /// The member `pagination` of the answer.
    pub(crate) fn shown(&self, total: u64, next: Option<JobId>) -> Result<Value, Problem> {
        let mut shown =
            json!({ "total": total, "limit": self.limit()?, "offset": self.offset()?, "has_more": next.is_some() });
        if let Some(next) = next {
            shown["next_cursor"] = json!(next);
        }
        Ok(shown)
    }
}

/// Reads the limit of a query. Default: 50.
pub(crate) fn read_limit(text: Option<&str>) -> Result<u32, Problem> {
    let Some(text) = text else { return Ok(50) };
    match text.parse::<u32>() {
        Ok(limit) if limit >= 1 => Ok(limit.min(MOST)),
        _ => Err(wrong("limit", "a whole number above 0", &json!(text))),
    }
}
