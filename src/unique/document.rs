//! A policy as a JSON document: OJS's `UniquePolicy`, and the members that uniqueue adds.

use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};
use uniqueue_policy::{Given, JobState, Length, OnConflict, OnReentry, Part, Policy};

use crate::error::{Error, Result};
use crate::json::{Flaw, canonical_json, parse_json};
use crate::unique::claim::invalid;
use crate::unique::policy::UniquePolicy;
use crate::unique::raw_key::checked;

impl UniquePolicy {
    /// Reads OJS's `UniquePolicy` document, with OJS's defaults.
    ///
    /// | member | default | meaning |
    /// |---|---|---|
    /// | `keys` | `["type"]` | dimensions: `type` (always there), `queue`, `args`, `meta` |
    /// | `args_keys` | all args | parts of the args, by name or JSON Pointer; needs `args` in `keys` |
    /// | `meta_keys` | none | parts of the meta; needed by `meta` in `keys` |
    /// | `period` | no limit | a length from the holder's `created_at`; years and months are added in UTC |
    /// | `states` | `available active scheduled retryable pending` | OJS's state names, or uniqueue's; `running` is `active` |
    /// | `on_conflict` | `reject` | `reject`, `replace`, `replace_except_schedule`, `ignore`; beyond OJS `preempt`, `update` and `run_again` |
    /// | `scope` | | instead of `states`: `queued`, `active`, `completed`, `exists` |
    /// | `ttl` | no limit | a length from the later of `created_at` and `scheduled_at`, as `period` |
    /// | `window` | none | a length of whole seconds: the window is part of the key |
    /// | `until` | | `start`: the fetch ends the claim. `success`: without `states` and `scope`, all states but `completed` |
    /// | `update` | `latest` with `on_conflict` `update` | or `merge`, `append`: how a duplicate changes the args of a waiting holder ([`UpdateArgs`](crate::UpdateArgs)) |
    /// | `max_items` | 1000 | with `append`: the most items of an array, 1 to 1000000 |
    /// | `debounce` | no delay | the job is due this long after its latest duplicate; needs `max_delay` ([`Update::debounce`](crate::Update::debounce)) |
    /// | `max_delay` | the schedule is kept | a duplicate moves the time of a waiting holder, at most to this long after the holder's insert ([`Update::push`](crate::Update::push)) |
    /// | `on_reentry` | `go_on` | or `discard` |
    /// | `exclude_type` | `false` | leaves the type out of the key |
    /// | `optional_args_keys` | none | as `args_keys`; keys that the args lack are left out |
    /// | `key` | | a raw key, without any of the dimensions |
    /// | `like` | | `faktory` (needs `ttl`), `ojs`, `river` or `zizq`: that queue's defaults for `keys`, `states` and `on_conflict`. `river` alone is not unique |
    ///
    /// The first six are OJS's, the others are uniqueue's. The derive macro takes the same words and lengths. A
    /// [length](crate::period::Length) is short, as `90s` or `7d`, or in ISO 8601, as `PT15M`. `update`, `max_items`,
    /// `debounce` and `max_delay` mean `on_conflict` `update`. `null` means absent for `args_keys`, `meta_keys`,
    /// `optional_args_keys` and the lengths.
    ///
    /// ```
    /// use uniqueue::UniquePolicy;
    ///
    /// let document = serde_json::json!({"keys": ["type", "args"], "args_keys": ["user_id"]});
    /// let policy = UniquePolicy::from_ojs(&document)?;
    /// assert_eq!(policy, UniquePolicy::ojs().by_arg_fields(["user_id"]));
    /// # Ok::<(), uniqueue::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InvalidPolicy`] naming the member at fault for everything else: unknown members,
    /// dimensions, states, words and lengths, wrong types, `meta` without `meta_keys`, an empty choice, and
    /// all that [`check`](Self::check) refuses.
    pub fn from_ojs(document: &Value) -> Result<Self> {
        Self::from_json_with_default(document, OnConflict::Reject)
    }

    /// As [`from_ojs`](Self::from_ojs), with another `on_conflict` where the document names none.
    /// The SQL functions take `ignore`.
    ///
    /// # Errors
    ///
    /// As [`from_ojs`](Self::from_ojs).
    pub fn from_json_with_default(document: &Value, on_conflict: OnConflict) -> Result<Self> {
        let Value::Object(members) = document else {
            return Err(invalid("unique_policy", format!("must be an object: {}", shown(document)?)));
        };
        let given = members.iter().map(|(name, value)| (name.as_str(), given(value)));
        let (policy, problems) = Policy::read(given, on_conflict);
        if let Some(mut problem) = problems.into_iter().next() {
            // As it stands in the document.
            for (member, text) in &mut problem.values {
                if let Some(value) = members.get(*member) {
                    *text = shown(value)?;
                }
            }
            if let Some(item) = problem.item.take() {
                problem.values.push((problem.member, shown(&Value::from(item))?));
            }
            return Err(problem.into());
        }
        let policy = Self::of(policy);
        policy.check()?;
        Ok(policy)
    }

    /// The policy of a document that the derive macro wrote. The macro refuses every document with a problem.
    #[doc(hidden)]
    pub fn of_kind(document: impl IntoIterator<Item = (&'static str, Given<'static>)>) -> Self {
        Self::of(Policy::read(document, OnConflict::Ignore).0)
    }

    fn of(Policy { key, parts, terms, is_enforced }: Policy) -> Self {
        Self { key: key.map(checked), parts, terms, is_enforced }
    }

    /// Writes the policy as the document that [`from_ojs`](Self::from_ojs) reads, with every
    /// dimension, state and `on_conflict` spelled out; `null` for a policy that enforces nothing.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    pub fn to_ojs(&self) -> Result<Value> {
        if !self.is_enforced {
            return Ok(Value::Null);
        }
        self.check()?;
        let key = self.key.clone().transpose().map_err(Flaw::in_key)?;
        let (parts, terms, update) = (&self.parts, &self.terms, self.terms.changes());
        let exact = |length: Option<Duration>| length.map(|length| Length::from(length).to_string());
        let members = [
            ("key", json!(key)),
            ("keys", json!(key.is_none().then(|| self.dimensions()))),
            ("exclude_type", json!((!parts.has_kind).then_some(true))),
            ("args_keys", json!(self.arg_names(true))),
            ("optional_args_keys", json!(self.arg_names(false))),
            (
                "meta_keys",
                json!(parts.meta.as_ref().map(|parts| parts.iter().map(|part| &*part.given).collect::<Vec<_>>())),
            ),
            ("period", json!(terms.period.map(|length| length.to_string()))),
            ("ttl", json!(terms.ttl.map(|length| length.to_string()))),
            ("window", json!(exact(terms.window))),
            ("states", terms.states.iter().map(ojs_state).collect()),
            ("on_conflict", json!(terms.on_conflict)),
            ("update", json!(update.map(|update| update.args))),
            ("max_items", json!(update.and_then(|update| update.max_items))),
            ("debounce", json!(exact(update.and_then(|update| update.delay)))),
            ("max_delay", json!(exact(update.and_then(|update| update.max_delay)))),
            ("until", json!(terms.until_start.then_some("start"))),
            ("on_reentry", json!((terms.on_reentry == OnReentry::Discard).then_some("discard"))),
        ];
        let given = members.into_iter().filter(|(_, value)| !value.is_null());
        Ok(Value::Object(given.map(|(name, value)| (name.to_owned(), value)).collect()))
    }

    /// The same without a default for the time of its jobs.
    pub(crate) fn without_delay(mut self) -> Self {
        self.terms.update.delay = None;
        self
    }

    fn dimensions(&self) -> Vec<&'static str> {
        let dimensions = [
            (self.parts.has_kind, "type"),
            (self.parts.has_queue, "queue"),
            (self.needs_args(), "args"),
            (self.needs_meta(), "meta"),
        ];
        dimensions.into_iter().filter(|(is_in, _)| *is_in).map(|(_, name)| name).collect()
    }

    /// The members of the args that are chosen: those that the job must have, or those that it may lack. `None`: there are
    /// none.
    fn arg_names(&self, are_required: bool) -> Option<Vec<&str>> {
        let parts = self.parts.args.as_deref().filter(|parts| !Part::are_all(parts))?;
        let chosen = parts.iter().filter(|part| part.is_required == are_required);
        Some(chosen.map(|part| &*part.given).collect::<Vec<_>>()).filter(|names| !names.is_empty())
    }
}

/// A value as errors show it: its canonical text, of which the first 80 characters.
fn shown(value: &Value) -> Result<String> {
    Ok(canonical_json(value)?.chars().take(80).collect())
}

fn given(value: &Value) -> Given<'_> {
    match value {
        Value::Null => Given::Null,
        Value::Bool(flag) => Given::Flag(*flag),
        Value::Number(number) => Given::Number(number.as_f64().unwrap_or(f64::INFINITY)),
        Value::String(text) => Given::Text(text),
        Value::Array(items) => {
            items.iter().map(Value::as_str).collect::<Option<_>>().map_or(Given::Other, Given::Texts)
        }
        Value::Object(_) => Given::Other,
    }
}

impl FromStr for UniquePolicy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let document = parse_json(text).map_err(|error| invalid("unique_policy", error.to_string()))?;
        Self::from_ojs(&document)
    }
}

/// As [`UniquePolicy::to_ojs`].
impl Serialize for UniquePolicy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let document = self.to_ojs().map_err(serde::ser::Error::custom)?;
        document.serialize(serializer)
    }
}

/// As [`UniquePolicy::from_ojs`].
impl<'de> Deserialize<'de> for UniquePolicy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let document = Value::deserialize(deserializer)?;
        Self::from_ojs(&document).map_err(serde::de::Error::custom)
    }
}

/// OJS's name of a state.
const fn ojs_state(state: JobState) -> &'static str {
    match state {
        JobState::Running => "active",
        _ => state.as_str(),
    }
}

#[cfg(test)]
mod reading;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unique::{UniqueScope, Until, Update};

    #[test]
    fn a_policy_is_written_with_everything_spelled_out() {
        let policy = UniquePolicy::faktory(Duration::from_secs(600))
            .by_arg_fields(["user_id"])
            .optional_arg_fields(["/address/city"])
            .by_meta(["tenant_id"])
            .until(Until::Start)
            .scope(UniqueScope::Active)
            .on_reentry(OnReentry::Discard);
        let document = json!({
            "keys": ["type", "queue", "args", "meta"],
            "args_keys": ["user_id"],
            "optional_args_keys": ["/address/city"],
            "meta_keys": ["tenant_id"],
            "ttl": "PT10M",
            "states": ["pending", "scheduled", "available", "active", "retryable"],
            "on_conflict": "reject",
            "until": "start",
            "on_reentry": "discard",
        });
        assert_eq!(policy.to_ojs().unwrap(), document);
        assert_eq!(UniquePolicy::from_ojs(&document).unwrap(), policy);
    }

    #[test]
    fn an_update_is_written_in_its_words() {
        let (delay, longest) = (Duration::from_secs(5), Duration::from_secs(60));
        let document = UniquePolicy::new().update(Update::append().debounce(delay, longest)).to_ojs().unwrap();
        assert_eq!(
            json!([document["update"], document["debounce"], document["max_delay"]]),
            json!(["append", "PT5S", "PT1M"])
        );
    }

    #[test]
    fn a_policy_goes_through_text_and_serde() {
        let policy = UniquePolicy::new().by_args().exclude_kind().window(Duration::from_secs(900));
        let text = serde_json::to_string(&policy).unwrap();
        assert_eq!(serde_json::from_str::<UniquePolicy>(&text).unwrap(), policy);
        assert_eq!(text.parse::<UniquePolicy>().unwrap(), policy);
        assert!("{".parse::<UniquePolicy>().is_err());
        assert!(serde_json::from_str::<UniquePolicy>(r#"{"keyz": []}"#).is_err());
    }

    #[test]
    fn a_policy_that_enforces_nothing_is_null_and_an_invalid_one_is_not_written() {
        assert_eq!(UniquePolicy::river().to_ojs().unwrap(), Value::Null);
        assert!(UniquePolicy::from_ojs(&Value::Null).is_err());
        assert!(UniquePolicy::new().key("").to_ojs().is_err());
        assert!(serde_json::to_string(&UniquePolicy::new().exclude_kind()).is_err());
    }
}
