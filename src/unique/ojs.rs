//! A policy as a JSON document: OJS's `UniquePolicy`, and the members that uniqueue adds.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};
use std::str::FromStr;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::period;
use crate::state::JobState;
use crate::unique::conflict::OnConflict;
use crate::unique::flaw::{invalid, require};
use crate::unique::jsonb;
use crate::unique::policy::{Args, UniquePolicy};
use crate::unique::states::{StateSet, UniqueScope};

/// The strength that uniqueue declares to OJS: no two jobs claim one key, whatever the race.
pub const OJS_STRENGTH: &str = "strong";

/// How uniqueue comes by its strength, in the words of its OJS manifest.
pub const OJS_MECHANISM: &str = "PostgreSQL partial unique index over each job's own unique \
                                 states, met with INSERT … ON CONFLICT DO NOTHING";

/// The part of an OJS conformance manifest that declares unique jobs.
#[must_use]
pub fn ojs_manifest() -> Value {
    json!({"capabilities": {"unique_jobs": {"strength": OJS_STRENGTH, "mechanism": OJS_MECHANISM}}})
}

/// Every member that the document may have.
const MEMBERS: [&str; 14] = [
    "keys",
    "args_keys",
    "meta_keys",
    "period",
    "states",
    "on_conflict",
    "optional_args_keys",
    "scope",
    "ttl",
    "window",
    "until",
    "on_reentry",
    "exclude_type",
    "key",
];

impl UniquePolicy {
    /// Reads OJS's `UniquePolicy` document, with OJS's defaults.
    ///
    /// | member | default | meaning |
    /// |---|---|---|
    /// | `keys` | `["type"]` | dimensions: `type` (always there), `queue`, `args`, `meta` |
    /// | `args_keys` | all args | parts of the args, by name or JSON Pointer; needs `args` in `keys` |
    /// | `meta_keys` | none | parts of the meta; needed by `meta` in `keys` |
    /// | `period` | no limit | ISO 8601 duration from the holder's `created_at` |
    /// | `states` | `available active scheduled retryable pending` | OJS's state names; `running` is `active` |
    /// | `on_conflict` | `reject` | `reject`, `replace`, `replace_except_schedule`, `ignore` |
    /// | `scope` | | instead of `states`: `queued`, `active`, `completed`, `exists` |
    /// | `ttl` | no limit | ISO 8601 duration from the later of `created_at` and `scheduled_at` |
    /// | `window` | none | ISO 8601 duration of whole seconds: the window is part of the key |
    /// | `until` | | `start`: the fetch ends the claim. `success`: without `states` and `scope`, all states but `completed` |
    /// | `on_reentry` | `go_on` | or `discard` |
    /// | `exclude_type` | `false` | leaves the type out of the key |
    /// | `optional_args_keys` | none | as `args_keys`; what the args lack is left out |
    /// | `key` | | a raw key; stands alone, without any of what keys are made from |
    ///
    /// The first six are OJS's, the others are uniqueue's. `null` is as good as absent where it
    /// is the default: for `args_keys`, `meta_keys`, `optional_args_keys`, `period`, `ttl` and
    /// `window`.
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
    /// dimensions, states and words, wrong types, `meta` without `meta_keys`, an empty choice, and
    /// all that [`check`](Self::check) refuses; [`Error::InvalidPeriod`] for a malformed `period`.
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
        let document = Document::of(document)?;
        let mut policy = Self::ojs().on_conflict(on_conflict);
        if let Some(text) = document.text("key")? {
            document.key_stands_alone()?;
            policy = policy.key(text);
        } else {
            policy = document.dimensions(policy)?;
        }
        policy = document.limits(policy)?;
        if let Some(until) = document.word("until")? {
            policy = policy.until(until);
        }
        if let Some(states) = document.states()? {
            policy = policy.states(states);
        }
        if let Some(on_conflict) = document.word("on_conflict")? {
            policy = policy.on_conflict(on_conflict);
        }
        if let Some(on_reentry) = document.word("on_reentry")? {
            policy = policy.on_reentry(on_reentry);
        }
        policy.check()?;
        Ok(policy)
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
        let mut document = Map::new();
        let mut put = |name: &str, value: Value| document.insert(name.to_owned(), value);
        match &self.key {
            Some(Ok(text)) => drop(put("key", json!(text))),
            // `check` has refused it.
            Some(Err(flaw)) => return Err(flaw.clone().in_key()),
            None => self.put_dimensions(&mut put),
        }
        for (name, length) in [("period", self.terms.period), ("ttl", self.terms.ttl), ("window", self.window)] {
            if let Some(length) = length {
                put(name, json!(period::write(length)));
            }
        }
        let states: Vec<_> = self.terms.states.iter().map(ojs_state).collect();
        put("states", json!(states));
        put("on_conflict", json!(self.terms.on_conflict));
        if self.terms.until_start {
            put("until", json!("start"));
        }
        if self.terms.on_reentry == crate::unique::conflict::OnReentry::Discard {
            put("on_reentry", json!("discard"));
        }
        Ok(Value::Object(document))
    }

    fn put_dimensions(&self, put: &mut impl FnMut(&str, Value) -> Option<Value>) {
        let dimensions = [
            (self.has_kind, "type"),
            (self.has_queue, "queue"),
            (self.needs_args(), "args"),
            (self.needs_meta(), "meta"),
        ];
        let keys: Vec<_> = dimensions.iter().filter(|(is_in, _)| *is_in).map(|(_, name)| *name).collect();
        put("keys", json!(keys));
        if !self.has_kind {
            put("exclude_type", json!(true));
        }
        if let Args::Parts(parts) = &self.args {
            for (name, is_required) in [("args_keys", true), ("optional_args_keys", false)] {
                let names: Vec<_> =
                    parts.iter().filter(|part| part.is_required() == is_required).map(|part| part.given()).collect();
                if !names.is_empty() {
                    put(name, json!(names));
                }
            }
        }
        if let Some(parts) = &self.meta {
            let names: Vec<_> = parts.iter().map(|part| part.given()).collect();
            put("meta_keys", json!(names));
        }
    }
}

/// Reads the JSON text of an OJS document, as [`UniquePolicy::from_ojs`].
impl FromStr for UniquePolicy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let document = jsonb::parse_json(text).map_err(|error| invalid("unique_policy", error.to_string()))?;
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

/// A document whose members are known; their values are yet to be read.
struct Document<'a>(&'a Map<String, Value>);

impl<'a> Document<'a> {
    fn of(document: &'a Value) -> Result<Self> {
        let Value::Object(members) = document else {
            return Err(invalid("unique_policy", format!("must be an object: {document}")));
        };
        match members.keys().find(|name| !MEMBERS.contains(&name.as_str())) {
            Some(unknown) => Err(invalid("unknown member", format!("{unknown:?}"))),
            None => Ok(Self(members)),
        }
    }

    fn dimensions(&self, mut policy: UniquePolicy) -> Result<UniquePolicy> {
        let keys = self.names("keys", false)?.unwrap_or_else(|| vec!["type".to_owned()]);
        if let Some(unknown) = keys.iter().find(|key| !["type", "queue", "args", "meta"].contains(&key.as_str())) {
            return Err(invalid("keys", format!("must be type, queue, args or meta: {unknown:?}")));
        }
        let has = |dimension: &str| keys.iter().any(|key| key == dimension);
        let parts = |field: &'static str, dimension: &str| {
            let names = self.names(field, true)?;
            let is_used = has(dimension) || names.as_ref().is_none_or(Vec::is_empty);
            require(is_used, field, || {
                let names = json!(names);
                format!("needs {dimension:?} in keys: {names}")
            })?;
            // An empty list beside a dimension that is not used is how OJS's own example spells
            // "none"; beside one that is used, it is a choice of nothing, which `check` refuses.
            Ok::<_, Error>(names.filter(|_| has(dimension)))
        };
        let args_keys = parts("args_keys", "args")?;
        let optional_args_keys = parts("optional_args_keys", "args")?;
        let meta_keys = parts("meta_keys", "meta")?;
        if has("args") && args_keys.is_none() && optional_args_keys.is_none() {
            policy = policy.by_args();
        }
        if let Some(names) = args_keys {
            require(!names.is_empty(), "args_keys", || "must name at least one member: []")?;
            policy = policy.by_arg_fields(names);
        }
        if let Some(names) = optional_args_keys {
            policy = policy.optional_arg_fields(names);
        }
        if has("meta") {
            policy = policy.by_meta(meta_keys.unwrap_or_default());
        }
        if has("queue") {
            policy = policy.by_queue();
        }
        if self.flag("exclude_type")? {
            require(
                !(self.0.contains_key("keys") && has("type")),
                "exclude_type",
                || "contradicts \"type\" in keys: true",
            )?;
            policy = policy.exclude_kind();
        }
        Ok(policy)
    }

    fn limits(&self, mut policy: UniquePolicy) -> Result<UniquePolicy> {
        if let Some(period) = self.length("period")? {
            policy = policy.period(period);
        }
        if let Some(ttl) = self.length("ttl")? {
            policy = policy.ttl(ttl);
        }
        if let Some(window) = self.length("window")? {
            policy = policy.window(window);
        }
        Ok(policy)
    }

    fn states(&self) -> Result<Option<StateSet>> {
        let scope: Option<UniqueScope> = self.word("scope")?;
        let Some(names) = self.names("states", false)? else {
            return Ok(scope.map(UniqueScope::states));
        };
        if let Some(scope) = scope {
            return Err(invalid("scope", format!("stands beside states, which say the same: {scope}")));
        }
        names.iter().map(|name| state(name)).collect::<Result<_>>().map(Some)
    }

    fn key_stands_alone(&self) -> Result<()> {
        const MAKERS: [&str; 6] = ["keys", "args_keys", "optional_args_keys", "meta_keys", "window", "exclude_type"];

        match MAKERS.into_iter().find(|name| self.0.contains_key(*name)) {
            Some(other) => Err(invalid("key", format!("stands alone, without {other}"))),
            None => Ok(()),
        }
    }

    fn names(&self, field: &'static str, is_nullable: bool) -> Result<Option<Vec<String>>> {
        let wrong = |given: &Value| invalid(field, format!("must be a list of strings: {given}"));
        match self.0.get(field) {
            None => Ok(None),
            Some(Value::Null) if is_nullable => Ok(None),
            Some(list @ Value::Array(items)) => items
                .iter()
                .map(|item| item.as_str().map(str::to_owned).ok_or_else(|| wrong(list)))
                .collect::<Result<_>>()
                .map(Some),
            Some(other) => Err(wrong(other)),
        }
    }

    fn text(&self, field: &'static str) -> Result<Option<&'a str>> {
        match self.0.get(field) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(invalid(field, format!("must be a string: {other}"))),
        }
    }

    fn word<T: FromStr<Err = Error>>(&self, field: &'static str) -> Result<Option<T>> {
        self.text(field)?.map(str::parse).transpose()
    }

    fn flag(&self, field: &'static str) -> Result<bool> {
        match self.0.get(field) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(other) => Err(invalid(field, format!("must be true or false: {other}"))),
        }
    }

    fn length(&self, field: &'static str) -> Result<Option<Duration>> {
        if self.0.get(field).is_none_or(Value::is_null) {
            return Ok(None);
        }
        let text = self.text(field)?.unwrap_or_default();
        match period::parse(text) {
            // `InvalidPeriod` names the period; the others are named here.
            Err(Error::InvalidPeriod { problem, given }) if field != "period" => {
                Err(invalid(field, format!("{problem}: {given:?}")))
            }
            parsed => parsed.map(Some),
        }
    }
}

fn state(name: &str) -> Result<JobState> {
    match name {
        "active" => Ok(JobState::Running),
        _ => name.parse().map_err(|_| invalid("states", format!("unknown state: {name:?}"))),
    }
}

/// OJS's name of a state.
const fn ojs_state(state: JobState) -> &'static str {
    match state {
        JobState::Running => "active",
        _ => state.as_str(),
    }
}
