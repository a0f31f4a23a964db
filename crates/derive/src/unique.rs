//! `unique` and `unique(...)` on the type: each option by itself.
//!
//! [`crate::consistency`] checks the options together.

use std::str::FromStr;
use std::time::Duration;

use proc_macro2::Span;
use syn::LitStr;
use uniqueue_policy::{
    InvalidLength, JobState, Length, OnConflict, OnReentry, Preset, StateSet, UniqueScope, UnknownWord, Until, Update,
    UpdateArgs, exact, exact_window,
};

use crate::entries::{self, Entry, Seen, Setting, Value};
use crate::problems::{Problems, closest, listed};

pub(crate) const OPTIONS: [&str; 19] = [
    "args",
    "kind",
    "queue",
    "meta",
    "exclude_kind",
    "scope",
    "states",
    "period",
    "ttl",
    "window",
    "until",
    "on_conflict",
    "update",
    "debounce",
    "max_delay",
    "max_items",
    "on_reentry",
    "like",
    "gaps",
];

/// The args in the key.
pub(crate) enum Args {
    All,
    Selected(Vec<LitStr>),
}

/// One of `period`, `ttl` and `window`.
pub(crate) struct Limit {
    pub(crate) name: String,
    pub(crate) span: Span,
    pub(crate) length: Option<Length>,
}

/// The unique options of a type.
pub(crate) struct Unique {
    /// The place of the word `unique`.
    pub(crate) span: Span,
    /// Whether every option was valid. Otherwise a missing option may be an invalid one.
    pub(crate) is_valid: bool,
    pub(crate) args: Option<Setting<Args>>,
    pub(crate) kind: Option<Span>,
    pub(crate) queue: Option<Span>,
    pub(crate) meta: Option<Setting<Vec<LitStr>>>,
    pub(crate) exclude_kind: Option<Span>,
    pub(crate) scope: Option<Setting<UniqueScope>>,
    pub(crate) states: Option<Setting<StateSet>>,
    pub(crate) limits: Vec<Limit>,
    pub(crate) until: Option<Setting<Until>>,
    pub(crate) on_conflict: Option<Setting<OnConflict>>,
    pub(crate) update: Option<Setting<UpdateArgs>>,
    pub(crate) debounce: Option<Setting<Duration>>,
    pub(crate) max_delay: Option<Setting<Duration>>,
    pub(crate) max_items: Option<Setting<u32>>,
    pub(crate) on_reentry: Option<Setting<OnReentry>>,
    pub(crate) like: Option<Setting<Preset>>,
    /// Whether the warnings are off.
    pub(crate) allows_gaps: bool,
}

impl Unique {
    /// A policy without options.
    pub(crate) fn empty(span: Span) -> Self {
        Self {
            span,
            is_valid: true,
            args: None,
            kind: None,
            queue: None,
            meta: None,
            exclude_kind: None,
            scope: None,
            states: None,
            limits: Vec::new(),
            until: None,
            on_conflict: None,
            update: None,
            debounce: None,
            max_delay: None,
            max_items: None,
            on_reentry: None,
            like: None,
            allows_gaps: false,
        }
    }

    pub(crate) fn read(entry: &Entry, problems: &mut Problems) -> Self {
        let mut unique = Self::empty(entry.span);
        let problems_before = problems.count();
        match &entry.value {
            Value::Absent => unique.args = setting(entry, Some(Args::All)),
            Value::Assigned(_) => problems.add(
                entry.span,
                "`unique` takes no value",
                "write `unique` for all args, or `unique(...)` with options",
            ),
            Value::List(tokens) => {
                let mut seen = Seen::default();
                for entry in entries::of_tokens(tokens.clone(), problems) {
                    if !OPTIONS.contains(&entry.name.as_str()) {
                        report_unknown(&entry, problems);
                    } else if seen.is_first(&entry, problems) {
                        unique.set(&entry, problems);
                    }
                }
            }
        }
        unique.is_valid = problems.count() == problems_before;
        unique
    }

    fn set(&mut self, entry: &Entry, problems: &mut Problems) {
        match entry.name.as_str() {
            "args" => self.args = setting(entry, args(entry, problems)),
            "kind" => self.kind = entry.flag(problems).then_some(entry.span),
            "queue" => self.queue = entry.flag(problems).then_some(entry.span),
            "meta" => self.meta = setting(entry, selection(entry, problems)),
            "exclude_kind" => self.exclude_kind = entry.flag(problems).then_some(entry.span),
            "scope" => self.scope = setting(entry, word(entry, problems)),
            "states" => self.states = setting(entry, states(entry, problems)),
            "period" | "ttl" | "window" => self.limits.push(limit(entry, problems)),
            "until" => self.until = setting(entry, word(entry, problems)),
            "on_conflict" => self.on_conflict = setting(entry, word(entry, problems)),
            "update" => self.update = setting(entry, word(entry, problems)),
            "debounce" => self.debounce = setting(entry, length(entry, exact, problems)),
            "max_delay" => self.max_delay = setting(entry, length(entry, exact, problems)),
            "max_items" => {
                let count = entry.integer(1, i64::from(Update::MOST_ITEMS), problems);
                self.max_items = setting(entry, count.and_then(|(count, _)| u32::try_from(count).ok()));
            }
            "on_reentry" => self.on_reentry = setting(entry, word(entry, problems)),
            "like" => self.like = setting(entry, word(entry, problems)),
            "gaps" => self.allows_gaps = gaps(entry, problems),
            _ => {}
        }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "each caller stores an option")]
fn setting<T>(entry: &Entry, value: Option<T>) -> Option<Setting<T>> {
    Some(Setting { span: entry.span, value })
}

fn args(entry: &Entry, problems: &mut Problems) -> Option<Args> {
    match entry.value {
        Value::List(_) => selection(entry, problems).map(Args::Selected),
        _ => entry.flag(problems).then_some(Args::All),
    }
}

/// Reads names of members: literal, or a JSON Pointer when they start with a slash.
fn selection(entry: &Entry, problems: &mut Problems) -> Option<Vec<LitStr>> {
    let mut names = entry.texts(problems)?;
    // An invalid name is not also checked against the members.
    names.retain(|name| {
        let value = name.value();
        let is_pointer = value.starts_with('/');
        let is_escaped = |rest: &str| rest.starts_with(['0', '1']);
        let (problem, hint) = if value.is_empty() {
            (
                format!("empty name in `{}`: \"\"", entry.name),
                "write the name of a member, or a JSON Pointer such as \"/address/zip\"",
            )
        } else if is_pointer && !value.split('~').skip(1).all(is_escaped) {
            (
                format!("invalid JSON Pointer: {value:?}"),
                "in a JSON Pointer `~` is written `~0`, and `/` in a name `~1`",
            )
        } else {
            return true;
        };
        problems.add(name.span(), problem, hint);
        false
    });
    Some(names)
}

/// Reads `name = "word"`.
fn word<W: FromStr<Err = UnknownWord>>(entry: &Entry, problems: &mut Problems) -> Option<W> {
    let text = entry.text(problems)?;
    let found = text.value().parse();
    found.map_err(|unknown: UnknownWord| report_word(unknown.member(), &text, unknown.words(), problems)).ok()
}

/// Reads `states("available", "running")`.
fn states(entry: &Entry, problems: &mut Problems) -> Option<StateSet> {
    let texts = entry.texts(problems)?;
    let mut states = Vec::new();
    for text in &texts {
        match JobState::of_policy(&text.value()) {
            Ok(state) => states.push(state),
            Err(unknown) => report_word("state", text, unknown.words(), problems),
        }
    }
    // A set without the invalid state could cause wrong errors about the set.
    (states.len() == texts.len()).then(|| StateSet::of(&states))
}

/// Reads `gaps = "allowed"`.
fn gaps(entry: &Entry, problems: &mut Problems) -> bool {
    let text = entry.text(problems);
    let unknown = text.filter(|text| text.value() != "allowed");
    if let Some(text) = &unknown {
        report_word("gaps", text, &["allowed"], problems);
    }
    unknown.is_none()
}

fn report_word(what: &str, given: &LitStr, words: &[&str], problems: &mut Problems) {
    let value = given.value();
    let meant = known_elsewhere_as(&value).filter(|meant| words.contains(meant));
    let meant = meant.or_else(|| closest(&value, words.iter().copied()));
    let meant = meant.map(|meant| format!("did you mean \"{meant}\"? "));
    let hint = format!("{}valid: {}", meant.unwrap_or_default(), listed(words.iter().copied(), "and"));
    problems.add(given.span(), format!("unknown {what}: {value:?}"), hint);
}

/// The state that another queue calls by this name.
fn known_elsewhere_as(word: &str) -> Option<&'static str> {
    Some(match word {
        "in_flight" | "reserved" | "executing" => "running",
        "ready" | "enqueued" => "available",
        "retries" => "retryable",
        "dead" => "discarded",
        "deleted" | "canceled" => "cancelled",
        _ => return None,
    })
}

/// Reads a length of time without months and years.
pub(crate) fn exact_length(entry: &Entry, problems: &mut Problems) -> Option<std::time::Duration> {
    length(entry, exact, problems)
}

/// Reads a length of time.
fn length<T>(entry: &Entry, read: fn(&str) -> Result<T, InvalidLength>, problems: &mut Problems) -> Option<T> {
    let text = entry.text(problems)?;
    let report = |InvalidLength { problem, given }| {
        let hint = "write a length of time such as \"15m\", \"1d12h\" or \"PT15M\"";
        problems.add(text.span(), format!("invalid {}: {problem}: {given:?}", entry.name), hint);
    };
    read(&text.value()).map_err(report).ok()
}

fn limit(entry: &Entry, problems: &mut Problems) -> Limit {
    let window = |text: &str| exact_window(text).map(Length::from);
    let read = if entry.name == "window" { window } else { Length::from_str };
    Limit { name: entry.name.clone(), span: entry.span, length: length(entry, read, problems) }
}

fn report_unknown(entry: &Entry, problems: &mut Problems) {
    let hint = if ["priority", "max_attempts", "crate"].contains(&entry.name.as_str()) {
        format!("`{}` goes outside `unique(...)`", entry.name)
    } else if let Some(meant) = closest(&entry.name, OPTIONS) {
        format!("did you mean `{meant}`? The options are {}", listed(OPTIONS, "and"))
    } else {
        format!("the options are {}", listed(OPTIONS, "and"))
    };
    problems.add(entry.span, format!("unknown option of `unique`: `{}`", entry.name), hint);
}
