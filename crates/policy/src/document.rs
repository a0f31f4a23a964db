//! Reading the document of a policy, strictly.
//!
//! The library reads documents in JSON, the derive macro makes one of its attributes, and the SQL function
//! `_read_unique_policy` reads the same documents in the same order, with the same errors: first the members one by one,
//! in the order of jsonb, then the rules between them.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use crate::conflict::{OnConflict, OnReentry, Until};
use crate::key_parts::{KeyParts, Part};
use crate::length::Length;
use crate::read_length::{exact, exact_window};
use crate::scope::UniqueScope;
use crate::states::StateSet;
use crate::terms::{Preset, Terms};
use crate::update::{Update, UpdateArgs};
use crate::word::Problem;

type Read = for<'a> fn(&mut Members<'a>, &mut Value<'_, 'a>);

macro_rules! members {
    ($($member:ident: $kind:ty = |$value:ident| $read:expr,)+) => {
        /// Each member that a document may have, and how it is read.
        const MEMBERS: [(&str, Read); [$(stringify!($member)),+].len()] =
            [$((stringify!($member), |read, $value| read.$member = $read)),+];

        /// The members of a document.
        #[derive(Default)]
        struct Members<'a> { $($member: Option<$kind>,)+ }
    };
}

members! {
    keys: Vec<&'a str> = |value| value.keys(),
    args_keys: Vec<Part> = |value| value.parts(true),
    optional_args_keys: Vec<Part> = |value| value.parts(false),
    meta_keys: Vec<Part> = |value| value.parts(false),
    exclude_type: bool = |value| value.flag(),
    key: &'a str = |value| value.text(),
    like: Preset = |value| value.word(),
    scope: UniqueScope = |value| value.word(),
    states: StateSet = |value| value.states(),
    until: Until = |value| value.word(),
    on_reentry: OnReentry = |value| value.word(),
    on_conflict: OnConflict = |value| value.word(),
    update: UpdateArgs = |value| value.word(),
    max_items: u32 = |value| value.count(),
    period: Length = |value| value.length(Length::from_str),
    ttl: Length = |value| value.length(Length::from_str),
    window: Duration = |value| value.length(exact_window),
    debounce: Duration = |value| value.length(exact),
    max_delay: Duration = |value| value.length(exact),
}

/// The parts that a key can be made from.
const KEYS: [&str; 4] = ["type", "queue", "args", "meta"];

/// The value of a member.
#[derive(Clone, Debug, PartialEq)]
pub enum Given<'a> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Flag(bool),
    /// A number.
    Number(f64),
    /// A text.
    Text(&'a str),
    /// A list of texts.
    Texts(Vec<&'a str>),
    /// An object, or a list of anything else.
    Other,
}

/// A policy, as its document says it.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// The key itself, where the document gives one. It may be no valid key.
    pub key: Option<String>,
    /// The parts that the key is made from, where it is made.
    pub parts: KeyParts,
    /// The terms of the claim.
    pub terms: Terms,
    /// Whether the policy says more than that its defaults are River's, which alone enforce nothing.
    pub is_enforced: bool,
}

impl Policy {
    /// The members that say the terms of the claim. The others say how its key is made.
    pub fn members_of_terms() -> impl Iterator<Item = &'static str> {
        MEMBERS.into_iter().skip_while(|(member, _)| *member != "like").map(|(member, _)| member)
    }

    /// Reads the members of a document; `on_conflict` is for documents that name neither that nor a preset. The policy counts
    /// only where there is no problem. The first problem is the one that the library and SQL report.
    #[must_use]
    pub fn read<'a>(
        members: impl IntoIterator<Item = (&'a str, Given<'a>)>,
        on_conflict: OnConflict,
    ) -> (Self, Vec<Problem>) {
        let mut members: Vec<_> = members.into_iter().collect();
        members.sort_by_key(|(name, _)| (name.len(), *name));
        let mut read = Members::default();
        let mut problems = Vec::new();
        for (name, given) in &members {
            match MEMBERS.into_iter().find(|(member, _)| member == name) {
                Some((member, set)) => set(&mut read, &mut Value { member, given, problems: &mut problems }),
                None => problems.push(Problem::of_item("unknown member", "", name)),
            }
        }
        let has_problems = !problems.is_empty();
        let rules = read.problem(|name| members.iter().any(|(given, _)| *given == name));
        let policy = read.policy(on_conflict);
        if !has_problems {
            problems.extend(rules.into_iter().chain(policy.terms.problems()));
            problems.extend(policy.key.is_none().then(|| policy.parts.problem(&policy.terms)).flatten());
        }
        (policy, problems)
    }
}

/// The value of a member, and where its problems go.
struct Value<'v, 'a> {
    member: &'static str,
    given: &'v Given<'a>,
    problems: &'v mut Vec<Problem>,
}

impl<'a> Value<'_, 'a> {
    fn refuse<T>(&mut self, reason: &str) -> Option<T> {
        // The caller has the value in the document's own language.
        self.problems
            .push(Problem { values: vec![(self.member, String::new())], ..Problem::new(self.member, reason, "") });
        None
    }

    fn text(&mut self) -> Option<&'a str> {
        if let Given::Text(text) = self.given { Some(text) } else { self.refuse("must be a string") }
    }

    /// A list whose items are read one by one.
    fn items<T>(&mut self, read: impl Fn(&'a str) -> Result<T, Problem>) -> Option<Vec<T>> {
        let Given::Texts(texts) = self.given else { return self.refuse("must be a list of strings") };
        let keep = |item: Result<T, Problem>| item.map_err(|problem| self.problems.push(problem)).ok();
        Some(texts.iter().map(|text| read(text)).filter_map(keep).collect())
    }

    fn keys(&mut self) -> Option<Vec<&'a str>> {
        let member = self.member;
        let unknown = |key| Problem::unknown_word(member, key, &KEYS);
        self.items(|key| if KEYS.contains(&key) { Ok(key) } else { Err(unknown(key)) })
    }

    fn states(&mut self) -> Option<StateSet> {
        let member = self.member;
        // As the Open Job Spec calls it.
        let name = |word| if word == "active" { "running" } else { word };
        let state = |word: &'a str| name(word).parse().map_err(|unknown| Problem { member, ..unknown });
        self.items(state).map(StateSet::from_iter)
    }

    fn flag(&mut self) -> Option<bool> {
        if let Given::Flag(flag) = *self.given { Some(flag) } else { self.refuse("must be true or false") }
    }

    fn parts(&mut self, is_required: bool) -> Option<Vec<Part>> {
        let member = self.member;
        let part = |given| {
            let part = Part::new(given, is_required);
            part.problem().map_or(Ok(part), |problem| Err(Problem::of_item(member, problem, given)))
        };
        if *self.given == Given::Null { None } else { self.items(part) }
    }

    fn word<W: FromStr<Err = Problem>>(&mut self) -> Option<W> {
        let read = self.text()?.parse();
        read.map_err(|unknown| self.problems.push(unknown)).ok()
    }

    fn length<T>(&mut self, read: impl Fn(&str) -> Result<T, Problem>) -> Option<T> {
        if *self.given == Given::Null {
            return None;
        }
        let text = self.text()?;
        read(text).map_err(|invalid| self.problems.push(Problem::of_item(self.member, &invalid.reason, text))).ok()
    }

    fn count(&mut self) -> Option<u32> {
        match *self.given {
            // In this range the conversion is exact.
            Given::Number(count) if count.fract() == 0.0 && (1.0..=f64::from(Update::MOST_ITEMS)).contains(&count) => {
                Some(count as u32)
            }
            _ => self.refuse("must be 1 to 1000000"),
        }
    }
}

impl<'a> Members<'a> {
    fn has(&self, key: &str) -> bool {
        self.keys.as_deref().unwrap_or_else(|| self.like.map_or(&["type"], Preset::keys)).contains(&key)
    }

    /// The first broken rule between members that exclude or need each other, of which a built policy cannot have both.
    fn problem(&self, is_given: impl Fn(&str) -> bool) -> Option<Problem> {
        const MAKERS: [&str; 6] = ["keys", "args_keys", "optional_args_keys", "meta_keys", "window", "exclude_type"];

        let broken = |member, reason: &str| Some(Problem::new(member, reason, ""));
        if let (Some(_), Some(other)) = (self.key, MAKERS.into_iter().find(|name| is_given(name))) {
            return broken("key", &format!("stands alone, without {other}"));
        }
        let is_named = |parts: &Option<Vec<Part>>| parts.as_ref().is_some_and(|parts| !parts.is_empty());
        let is_empty = |parts: &Option<Vec<Part>>| parts.as_ref().is_some_and(Vec::is_empty);
        for (member, key, parts) in [
            ("args_keys", "args", &self.args_keys),
            ("optional_args_keys", "args", &self.optional_args_keys),
            ("meta_keys", "meta", &self.meta_keys),
        ] {
            if !self.has(key) && is_named(parts) {
                let problem = Problem::new(member, format!("needs \"{key}\" in keys"), "");
                return Some(problem.with(member, ""));
            }
        }
        let (chosen, parts) = match &self.args_keys {
            None => ("optional_args_keys", &self.optional_args_keys),
            Some(_) => ("args_keys", &self.args_keys),
        };
        if self.has("args") && is_empty(parts) {
            return broken(chosen, "must name at least one member: []");
        }
        if self.has("meta") && !is_named(&self.meta_keys) {
            return broken("meta_keys", "must name at least one member: []");
        }
        if self.exclude_type == Some(true) && self.keys.as_ref().is_some_and(|keys| keys.contains(&"type")) {
            return broken("exclude_type", "contradicts \"type\" in keys: true");
        }
        if self.like == Some(Preset::Faktory) && self.ttl.is_none() {
            return broken("like", "faktory needs ttl, which is its unique_for: \"faktory\"");
        }
        if let (Some(scope), Some(_)) = (self.scope, self.states) {
            return Some(Problem::new("scope", "stands beside states, which say the same", "").with("scope", scope));
        }
        match (self.on_conflict, self.of_update()) {
            (Some(other), Some(member)) if other != OnConflict::Update => {
                let problem = Problem::new(member, "needs on_conflict update", "remove on_conflict");
                Some(problem.with("on_conflict", other))
            }
            _ => None,
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

    fn policy(self, on_conflict: OnConflict) -> Policy {
        let mut terms = self.like.map_or(Terms::new(UniqueScope::Active.states(), on_conflict), Preset::terms);
        (terms.period, terms.ttl, terms.window) = (self.period, self.ttl, self.window);
        if let Some(until) = self.until {
            terms.set_until(until);
        }
        if let Some(states) = self.states.or(self.scope.map(UniqueScope::states)) {
            terms.states = states;
        }
        terms.on_reentry = self.on_reentry.unwrap_or(terms.on_reentry);
        let of_update = self.of_update().map(|_| OnConflict::Update);
        terms.on_conflict = self.on_conflict.or(of_update).unwrap_or(terms.on_conflict);
        terms.update = Update {
            args: self.update.unwrap_or(UpdateArgs::Latest),
            delay: self.debounce,
            max_delay: self.max_delay,
            max_items: self.max_items,
        };
        let is_enforced = self.like != Some(Preset::River) || self.enforces();
        let (key, parts) = match self.key {
            Some(key) => (Some(key.to_owned()), KeyParts::KIND),
            None => (None, self.parts()),
        };
        Policy { key, parts, terms, is_enforced }
    }

    /// The parts that the key is made from.
    fn parts(self) -> KeyParts {
        let (has_kind, has_queue, has_args, has_meta) =
            (self.exclude_type != Some(true), self.has("queue"), self.has("args"), self.has("meta"));
        let args = match (self.args_keys, self.optional_args_keys) {
            _ if !has_args => None,
            (None, None) => Some([Part::all()].into()),
            (required, optional) => Some(required.into_iter().chain(optional).flatten().collect()),
        };
        let meta = has_meta.then(|| Arc::from(self.meta_keys.unwrap_or_default()));
        KeyParts { has_kind, has_queue, args, meta }
    }

    /// Whether it says more than how to react to other jobs. As in River, the defaults alone are no uniqueness.
    fn enforces(&self) -> bool {
        let has_limit = self.period.is_some() || self.ttl.is_some() || self.window.is_some();
        let has_states = self.states.is_some() || self.scope.is_some() || self.until.is_some();
        self.keys.is_some() || self.key.is_some() || self.exclude_type == Some(true) || has_limit || has_states
    }
}
