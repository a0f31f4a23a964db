//! Reading a policy's JSON document, strictly: every error names the member at fault.

use std::str::FromStr;

use serde_json::{Map, Value, json};

use crate::error::{Error, Result};
use crate::period::{self, Length};
use crate::state::JobState;
use crate::unique::conflict::OnConflict;
use crate::unique::flaw::{invalid, require};
use crate::unique::policy::UniquePolicy;
use crate::unique::preset::Preset;
use crate::unique::scope::UniqueScope;
use crate::unique::states::StateSet;
use crate::unique::update::Update;

/// Every member that the document may have.
const MEMBERS: [&str; 16] = [
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
    "like",
    "update",
];

/// Reads a policy; `on_conflict` is for documents that name neither that nor a preset.
pub(crate) fn read(document: &Value, on_conflict: OnConflict) -> Result<UniquePolicy> {
    let document = Document::of(document)?;
    let preset: Option<Preset> = document.word("like")?;
    let mut policy = preset.map_or_else(|| UniquePolicy::ojs().on_conflict(on_conflict), Preset::terms);
    if let Some(text) = document.text("key")? {
        document.key_stands_alone()?;
        policy = policy.key(text);
    } else {
        policy = document.dimensions(policy, preset.unwrap_or(Preset::Ojs))?;
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
    if let Some(given) = document.0.get("update") {
        let update = Update::read(given)?;
        update.check(None)?;
        let is_update = !document.0.contains_key("on_conflict") || policy.terms.on_conflict == OnConflict::Update;
        require(is_update, "update", || format!("needs on_conflict update: {:?}", policy.terms.on_conflict.as_str()))?;
        policy = policy.update(update);
    }
    if let Some(on_reentry) = document.word("on_reentry")? {
        policy = policy.on_reentry(on_reentry);
    }
    if preset == Some(Preset::Faktory) {
        require(policy.terms.ttl.is_some(), "like", || "faktory needs ttl, which is its unique_for: \"faktory\"")?;
    }
    policy.is_enforced = preset != Some(Preset::River) || document.enforces()?;
    policy.check()?;
    Ok(policy)
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

    /// Whether it says more than how to react to other jobs. As in River, the defaults alone are no uniqueness.
    fn enforces(&self) -> Result<bool> {
        const ADDED: [&str; 8] = ["keys", "key", "states", "scope", "until", "period", "ttl", "window"];

        let has = |name: &&str| self.0.get(*name).is_some_and(|value| !value.is_null());
        Ok(ADDED.iter().any(has) || self.flag("exclude_type")?)
    }

    fn dimensions(&self, mut policy: UniquePolicy, preset: Preset) -> Result<UniquePolicy> {
        let keys = self.names("keys", false)?;
        let keys = keys.unwrap_or_else(|| preset.keys().iter().map(|&key| key.to_owned()).collect());
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
        if let Some(period) = self.length("period", str::parse::<Length>)? {
            policy = policy.period(period);
        }
        if let Some(ttl) = self.length("ttl", str::parse::<Length>)? {
            policy = policy.ttl(ttl);
        }
        if let Some(window) = self.length("window", period::parse)? {
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

    fn length<T>(&self, field: &'static str, parse: fn(&str) -> Result<T>) -> Result<Option<T>> {
        if self.0.get(field).is_none_or(Value::is_null) {
            return Ok(None);
        }
        let text = self.text(field)?.unwrap_or_default();
        match parse(text) {
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

#[cfg(test)]
mod tests;
