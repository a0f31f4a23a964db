//! The value of a job that decides its place.

use super::Client;
use super::payload::read_args;
use super::rows::{Unread, group_key, needs_clock};
use crate::error::{Error, Result};
use crate::group::GroupBy;
use crate::ident::{JobId, Kind, QueueName};
use crate::job::NewJob;
use crate::opts::{Start, Unique};
use crate::place_by::{PlaceBy, member};

impl Client {
    /// The value by which the job declares its place. A job that is spread by its id gets one if it has none.
    pub(crate) fn place_value(&self, job: &mut NewJob) -> Result<String> {
        let refuse = |problem, given: &str| {
            Err(Error::InvalidOption { option: "place", problem, given: format!("{given:?} of kind {:?}", job.kind) })
        };
        let defaults = self.defaults();
        let Some(way) = job.options.place.as_ref().or(defaults.place.as_ref()) else {
            let problem = "the job declares none; hint: #[job(place = \"…\")] or NewJob::place, or name the place with places.at(…) or places.of(…)";
            return refuse(problem, "");
        };
        if matches!(way, PlaceBy::Id) {
            job.has_new_id |= job.options.id.is_none();
            return Ok(job.options.id.get_or_insert_with(JobId::generate).to_string());
        }
        let kind = Kind::parse(&job.kind)?;
        let args = job.args.as_ref().map_err(|problem| Error::InvalidJson {
            what: "args",
            kind: kind.to_string(),
            problem: problem.clone(),
        })?;
        let queue = job.options.queue.as_deref().or(defaults.queue.as_deref());
        let queue = queue.map_or_else(|| Ok(QueueName::default()), QueueName::parse)?;
        let layered_meta;
        let meta = if defaults.meta.is_empty() {
            &job.options.meta
        } else {
            layered_meta = job.options.clone().or(defaults).meta;
            &layered_meta
        };
        let window_at = match job.options.start.or(defaults.start) {
            Some(Start::At(at)) => Some(self.passed().window_at(at)),
            _ => None,
        };
        let unread = Unread { kind: &kind, queue: &queue, args, meta, window_at };
        let value = match way {
            PlaceBy::Id => None,
            PlaceBy::Arg(selector) => member(&read_args(kind.as_str(), args)?, selector),
            PlaceBy::UniqueKey if needs_clock(&job.options, defaults) => {
                return refuse(
                    "a policy with a window makes another key by the clock of each server; hint: place by a member of the args",
                    "unique_key",
                );
            }
            PlaceBy::UniqueKey => match job.options.unique.as_ref().or(defaults.unique.as_ref()) {
                None | Some(Unique::No) => None,
                Some(Unique::Key(key)) => Some(key.claim()?.key),
                Some(Unique::Policy(policy)) => {
                    unread.read(policy, |subject| policy.resolve(subject))?.map(|claim| claim.key)
                }
            },
            PlaceBy::Group => match job.options.group.as_ref().or(defaults.group.as_ref()) {
                None | Some(GroupBy::Nothing) => None,
                Some(GroupBy::Key(key)) => Some(key.clone()),
                Some(GroupBy::Policy(policy)) => group_key(policy, &unread)?,
            },
        };
        match value {
            Some(value) => Ok(value),
            None => refuse("the job has no such value", way.as_str()),
        }
    }
}
