//! A job on the command line.

use std::str::FromStr;

use uniqueue::{Client, Error, JobFilter, JobId, JobRow};
use uuid::Uuid;

/// The fewest digits that name a job.
const FEWEST_DIGITS: usize = 4;

/// How many jobs with the same first digits are named.
const LISTED: u32 = 5;

/// A job's id, or the first digits of it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum IdArgument {
    Id(JobId),
    /// Lower-case digits without hyphens.
    Digits(String),
}

impl FromStr for IdArgument {
    type Err = Error;

    fn from_str(given: &str) -> Result<Self, Error> {
        given.parse().map(Self::Id).or_else(|error| {
            // The hyphens of an id that was cut off stand where those of a whole one do.
            let is_cut = given.char_indices().all(|(at, c)| match at {
                8 | 13 | 18 | 23 => c == '-',
                _ => c.is_ascii_hexdigit(),
            });
            let digits = given.replace('-', "").to_ascii_lowercase();
            if is_cut && (FEWEST_DIGITS..32).contains(&digits.len()) { Ok(Self::Digits(digits)) } else { Err(error) }
        })
    }
}

impl IdArgument {
    /// Finds the job, or why the argument does not name one job. Ids with the same first digits are neighbours in the order of
    /// ids.
    pub(super) async fn find(&self, client: &Client) -> Result<std::result::Result<JobRow, String>, Error> {
        let digits = match self {
            Self::Id(id) => return Ok(client.job(id).await?.ok_or_else(|| format!("no such job: {id}"))),
            Self::Digits(digits) => digits,
        };
        let end =
            |filler: &str| format!("{digits}{}", filler.repeat(32 - digits.len())).parse::<Uuid>().unwrap_or_default();
        let named = JobFilter::new().id_at_least(end("0")).id_at_most(end("f"));
        let mut found = client.jobs(named.oldest_first().limit(LISTED + 1)).await?;
        Ok(match found.len() {
            0 => Err(format!("no such job: {digits}")),
            1 => Ok(found.remove(0)),
            count => {
                let more = if count > LISTED as usize { "\n  …" } else { "" };
                let ids: Vec<_> = found.iter().take(LISTED as usize).map(|job| format!("  {}", job.id)).collect();
                Err(format!("several jobs begin with {digits}:\n{}{more}", ids.join("\n")))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_may_be_cut_off_anywhere() {
        let whole = "019abc12-3456-7def-8a12-3456789abcde";
        let parsed = |given: &str| given.parse::<IdArgument>().ok();
        assert_eq!(parsed(whole), Some(IdArgument::Id(whole.parse().unwrap())));
        for length in FEWEST_DIGITS..whole.len() {
            let digits = whole[..length].replace('-', "");
            assert_eq!(parsed(&whole[..length].to_uppercase()), Some(IdArgument::Digits(digits)), "{length}");
        }
        for wrong in ["", "019", "019abc1-", "019abc123", "nope", "019abc12-3456-7def-8a12-3456789abcdef0"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }
}
