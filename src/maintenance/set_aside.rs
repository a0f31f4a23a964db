//! Jobs that the database refuses to change: set aside, and named in the log.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use uuid::Uuid;

/// How long a refused job is not tried again, or at least not logged again.
const SET_ASIDE_FOR: Duration = Duration::from_secs(600);

/// The most jobs that one log line names.
const NAMED: usize = 20;

/// Jobs that were refused alone, each until it is tried again.
#[derive(Debug, Default)]
pub(super) struct RefusedJobs(HashMap<Uuid, Instant>);

impl RefusedJobs {
    /// Sets refused jobs aside, and logs those that are new: one line for all with the same error.
    pub(super) fn add(&mut self, verb: &str, refused: Vec<(Uuid, String)>) {
        let now = Instant::now();
        self.0.retain(|_, until| *until > now);
        let mut new_by_error: BTreeMap<String, Vec<Uuid>> = BTreeMap::new();
        for (id, error) in refused {
            if self.0.insert(id, now + SET_ASIDE_FOR).is_none() {
                new_by_error.entry(error).or_default().push(id);
            }
        }
        for (error, ids) in new_by_error {
            let jobs = named(&ids);
            tracing::warn!(%jobs, %error, "the database refuses to {verb} jobs: they are set aside");
        }
    }
}

/// The first of these jobs, and how many more there are.
pub(super) fn named(ids: &[Uuid]) -> String {
    let named: Vec<_> = ids.iter().take(NAMED).map(Uuid::to_string).collect();
    let more = ids.len() - named.len();
    let and_more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{and_more}", named.join(", "))
}
