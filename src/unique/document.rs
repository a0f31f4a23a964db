//! Reading a policy's JSON document, strictly: every error names the member at fault and the value as it was given.
//!
//! The SQL function `_read_unique_policy` reads the same documents in the same order, with the same errors: first the
//! members one by one, in the order of jsonb, then the rules between them.

use std::str::FromStr;
use std::time::Duration;

use serde_json::{Map, Value};
use uniqueue_policy::{
    InvalidLength, JobState, Length, OnConflict, OnReentry, Preset, Problem, StateSet, UniqueScope, UnknownWord, Until,
    Update, UpdateArgs, exact, exact_window,
};

use crate::error::{Error, Result};
use crate::unique::canonical::canonical_json;
use crate::unique::flaw::{invalid, require};
use crate::unique::key::checked;
use crate::unique::policy::{Args, UniquePolicy};
use crate::unique::select::Part;

/// Every member that the document may have.
const MEMBERS: [&str; 19] = [
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
    "max_items",
    "debounce",
    "max_delay",
];

/// The parts that a key can be made from.
const KEYS: [&str; 4] = ["type", "queue", "args", "meta"];

/// Reads a policy; `on_conflict` is for documents that name neither that nor a preset.
pub(crate) fn read(document: &Value, on_conflict: OnConflict) -> Result<UniquePolicy> {
    let Value::Object(members) = document else {
        return Err(wrong("unique_policy", "must be an object", document));
    };
    let mut in_order: Vec<_> = members.iter().collect();
    in_order.sort_by_key(|(name, _)| (name.len(), *name));
    let mut given = Members::default();
    for (name, value) in in_order {
        match MEMBERS.into_iter().find(|member| member == name) {
            Some(member) => given.read(member, value)?,
            None => return Err(invalid("unknown member", shown(&Value::from(name.as_str()))?)),
        }
    }
    given.check(members)?;
    let policy = given.policy(on_conflict);
    if let Some(problem) = policy.terms.problems().next() {
        return Err(as_given(problem, members)?);
    }
    policy.check()?;
    Ok(policy)
}

/// The members of a document.
#[derive(Default)]
struct Members<'a> {
    keys: Option<Vec<&'a str>>,
    args_keys: Option<Vec<Part>>,
    optional_args_keys: Option<Vec<Part>>,
    meta_keys: Option<Vec<Part>>,
    exclude_type: bool,
    key: Option<&'a str>,
    like: Option<Preset>,
    scope: Option<UniqueScope>,
    states: Option<StateSet>,
    until: Option<Until>,
    on_reentry: Option<OnReentry>,
    period: Option<Length>,
    ttl: Option<Length>,
    window: Option<Duration>,
    on_conflict: Option<OnConflict>,
    update: Option<UpdateArgs>,
    max_items: Option<u32>,
    debounce: Option<Duration>,
    max_delay: Option<Duration>,
}

impl<'a> Members<'a> {
    fn read(&mut self, member: &'static str, value: &'a Value) -> Result<()> {
        match member {
            "keys" => self.keys = Some(choice(member, value, &KEYS)?),
            "args_keys" => self.args_keys = parts(member, value, Part::required)?,
            "optional_args_keys" => self.optional_args_keys = parts(member, value, Part::optional)?,
            "meta_keys" => self.meta_keys = parts(member, value, Part::optional)?,
            "states" => {
                let names = strings(member, value)?;
                self.states =
                    Some(names.into_iter().map(|name| word(member, name, JobState::of_policy)).collect::<Result<_>>()?);
            }
            "exclude_type" => {
                self.exclude_type = value.as_bool().ok_or_else(|| wrong(member, "must be true or false", value))?;
            }
            "key" => self.key = Some(text(member, value)?),
            "like" => self.like = Some(word(member, text(member, value)?, Preset::from_str)?),
            "scope" => self.scope = Some(word(member, text(member, value)?, UniqueScope::from_str)?),
            "until" => self.until = Some(word(member, text(member, value)?, Until::from_str)?),
            "on_reentry" => self.on_reentry = Some(word(member, text(member, value)?, OnReentry::from_str)?),
            "on_conflict" => self.on_conflict = Some(word(member, text(member, value)?, OnConflict::from_str)?),
            "update" => self.update = Some(word(member, text(member, value)?, UpdateArgs::from_str)?),
            "max_items" => {
                let count = value.as_f64().filter(|count| count.fract() == 0.0);
                let count = count.filter(|count| (1.0..=f64::from(Update::MOST_ITEMS)).contains(count));
                // In this range the conversion is exact.
                let count = count.map(|count| count as u32);
                self.max_items = Some(count.ok_or_else(|| wrong(member, "must be 1 to 1000000", value))?);
            }
            "period" => self.period = length(member, value, Length::from_str)?,
            "ttl" => self.ttl = length(member, value, Length::from_str)?,
            "window" => self.window = length(member, value, exact_window)?,
            "debounce" => self.debounce = length(member, value, exact)?,
            "max_delay" => self.max_delay = length(member, value, exact)?,
            _ => {}
        }
        Ok(())
    }

    /// The parts that the key is made from.
    fn keys(&self) -> &[&str] {
        self.keys.as_deref().unwrap_or_else(|| self.like.map_or(&["type"], Preset::keys))
    }

    fn has(&self, key: &str) -> bool {
        self.keys().contains(&key)
    }

    /// The members that exclude or need each other, of which a built policy cannot have both.
    fn check(&self, members: &Map<String, Value>) -> Result<()> {
        const MAKERS: [&str; 6] = ["keys", "args_keys", "optional_args_keys", "meta_keys", "window", "exclude_type"];

        if let (Some(_), Some(other)) = (self.key, MAKERS.into_iter().find(|name| members.contains_key(*name))) {
            return Err(invalid("key", format!("stands alone, without {other}")));
        }
        let lists = [
            ("args_keys", "args", &self.args_keys),
            ("optional_args_keys", "args", &self.optional_args_keys),
            ("meta_keys", "meta", &self.meta_keys),
        ];
        for (member, key, parts) in lists {
            if !self.has(key) && parts.as_ref().is_some_and(|parts| !parts.is_empty()) {
                return Err(wrong(member, &format!("needs \"{key}\" in keys"), &members[member]));
            }
        }
        let is_empty = |parts: &Option<Vec<Part>>| parts.as_ref().is_some_and(Vec::is_empty);
        let chosen = if self.args_keys.is_none() { "optional_args_keys" } else { "args_keys" };
        let chooses_none = is_empty(self.args_keys.as_ref().map_or(&self.optional_args_keys, |_| &self.args_keys));
        require(!(self.has("args") && chooses_none), chosen, || "must name at least one member: []")?;
        let chooses_meta = self.meta_keys.as_ref().is_some_and(|parts| !parts.is_empty());
        require(!self.has("meta") || chooses_meta, "meta_keys", || "must name at least one member: []")?;
        let is_named = self.keys.as_ref().is_some_and(|keys| keys.contains(&"type"));
        require(!(self.exclude_type && is_named), "exclude_type", || "contradicts \"type\" in keys: true")?;
        let is_limited = self.like != Some(Preset::Faktory) || self.ttl.is_some();
        require(is_limited, "like", || "faktory needs ttl, which is its unique_for: \"faktory\"")?;
        if self.scope.is_some() && self.states.is_some() {
            return Err(wrong("scope", "stands beside states, which say the same", &members["scope"]));
        }
        match (self.on_conflict, self.of_update()) {
            (Some(other), Some(member)) if other != OnConflict::Update => {
                Err(Problem::needs_update(member, other).into())
            }
            _ => Ok(()),
        }
    }

    /// The first member that says how a duplicate changes its holder.
    fn of_update(&self) -> Option<&'static str> {
        let given = [
            ("update", self.update.is_some()),
            ("debounce", self.debounce.is_some()),
            ("max_delay", self.max_delay.is_some()),
            ("max_items", self.max_items.is_some()),
        ];
        given.into_iter().find(|(_, is_given)| *is_given).map(|(member, _)| member)
    }

    fn policy(self, on_conflict: OnConflict) -> UniquePolicy {
        let mut policy = match self.like {
            Some(preset) => UniquePolicy::like(preset),
            None => UniquePolicy::on(UniqueScope::Active.states(), on_conflict),
        };
        policy.is_enforced = self.like != Some(Preset::River) || self.enforces();
        let terms = &mut policy.terms;
        (terms.period, terms.ttl, terms.window) = (self.period, self.ttl, self.window);
        if let Some(until) = self.until {
            terms.set_until(until);
        }
        if let Some(states) = self.states.or(self.scope.map(UniqueScope::states)) {
            terms.states = states;
        }
        if let Some(on_reentry) = self.on_reentry {
            terms.on_reentry = on_reentry;
        }
        if let Some(on_conflict) = self.on_conflict.or(self.of_update().map(|_| OnConflict::Update)) {
            terms.on_conflict = on_conflict;
        }
        let update = Update::of(self.update.unwrap_or(UpdateArgs::Latest));
        terms.update = update.with_members(self.debounce, self.max_delay, self.max_items);
        match self.key {
            Some(key) => policy.key = Some(checked(key.to_owned())),
            None => self.choose(&mut policy),
        }
        policy
    }

    /// Says what the key is made from.
    fn choose(self, policy: &mut UniquePolicy) {
        policy.has_kind = !self.exclude_type;
        policy.has_queue = self.has("queue");
        if self.has("meta") {
            policy.meta = Some(self.meta_keys.clone().unwrap_or_default());
        }
        if self.has("args") {
            policy.args = match (self.args_keys, self.optional_args_keys) {
                (None, None) => Args::All,
                (required, optional) => Args::Parts(required.into_iter().chain(optional).flatten().collect()),
            };
        }
    }

    /// Whether it says more than how to react to other jobs. As in River, the defaults alone are no uniqueness.
    fn enforces(&self) -> bool {
        let has_limit = self.period.is_some() || self.ttl.is_some() || self.window.is_some();
        let has_states = self.states.is_some() || self.scope.is_some() || self.until.is_some();
        self.keys.is_some() || self.key.is_some() || self.exclude_type || has_limit || has_states
    }
}

/// The problem with the values as they stand in the document.
fn as_given(mut problem: Problem, members: &Map<String, Value>) -> Result<Error> {
    for (member, text) in &mut problem.values {
        if let Some(value) = members.get(*member) {
            *text = shown(value)?;
        }
    }
    Ok(problem.into())
}

/// A value as errors show it: its canonical text, of which the first 80 characters.
fn shown(value: &Value) -> Result<String> {
    Ok(canonical_json(value)?.chars().take(80).collect())
}

/// The error about a value. It is another one where the value has no canonical text.
fn wrong(member: &'static str, problem: &str, value: &Value) -> Error {
    shown(value).map_or_else(|error| error, |value| invalid(member, format!("{problem}: {value}")))
}

fn unknown_word(member: &'static str, words: &[&str], given: &str) -> Error {
    wrong(member, &format!("must be one of {}", words.join(", ")), &Value::from(given))
}

fn text<'a>(member: &'static str, value: &'a Value) -> Result<&'a str> {
    value.as_str().ok_or_else(|| wrong(member, "must be a string", value))
}

fn word<W>(member: &'static str, text: &str, read: fn(&str) -> Result<W, UnknownWord>) -> Result<W> {
    read(text).map_err(|unknown| unknown_word(member, unknown.words(), text))
}

fn strings<'a>(member: &'static str, value: &'a Value) -> Result<Vec<&'a str>> {
    let strings = value.as_array().and_then(|items| items.iter().map(Value::as_str).collect());
    strings.ok_or_else(|| wrong(member, "must be a list of strings", value))
}

fn choice<'a>(member: &'static str, value: &'a Value, words: &[&str]) -> Result<Vec<&'a str>> {
    let given = strings(member, value)?;
    match given.iter().find(|word| !words.contains(word)) {
        None => Ok(given),
        Some(word) => Err(unknown_word(member, words, word)),
    }
}

fn parts(member: &'static str, value: &Value, part: fn(String) -> Part) -> Result<Option<Vec<Part>>> {
    if value.is_null() {
        return Ok(None);
    }
    let parts: Vec<_> = strings(member, value)?.into_iter().map(|name| part(name.to_owned())).collect();
    for part in &parts {
        if let Some(problem) = part.problem() {
            return Err(wrong(member, problem, &Value::from(part.given())));
        }
    }
    Ok(Some(parts))
}

fn length<T>(member: &'static str, value: &Value, read: fn(&str) -> Result<T, InvalidLength>) -> Result<Option<T>> {
    if value.is_null() {
        return Ok(None);
    }
    let length = read(text(member, value)?);
    length.map(Some).map_err(|invalid| wrong(member, invalid.problem, value))
}

#[cfg(test)]
mod tests;
