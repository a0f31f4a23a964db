//! `unique` and `unique(...)` on the type: each option by itself.
//!
//! [`crate::consistency`] checks the options together.

use std::time::Duration;

use proc_macro2::Span;
use syn::LitStr;

use crate::entries::{self, Entry, Seen, Setting, Value};
use crate::length;
use crate::problems::{Problems, closest, listed};
use crate::states::States;
use crate::unique_values::{self, Gaps, Like, OnConflict, OnReentry, Scope, Until, Update};

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
    /// Calendar months and an exact time.
    pub(crate) length: Option<(u32, Duration)>,
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
    pub(crate) scope: Option<Setting<Scope>>,
    pub(crate) states: Option<Setting<States>>,
    pub(crate) limits: Vec<Limit>,
    pub(crate) until: Option<Setting<Until>>,
    pub(crate) on_conflict: Option<Setting<OnConflict>>,
    pub(crate) update: Option<Setting<Update>>,
    pub(crate) debounce: Option<Setting<Duration>>,
    pub(crate) max_delay: Option<Setting<Duration>>,
    pub(crate) max_items: Option<Setting<i32>>,
    pub(crate) on_reentry: Option<Setting<OnReentry>>,
    pub(crate) like: Option<Setting<Like>>,
    pub(crate) gaps: Option<Setting<Gaps>>,
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
            gaps: None,
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
            "scope" => self.scope = setting(entry, unique_values::read(entry, problems)),
            "states" => self.states = setting(entry, unique_values::read_states(entry, problems)),
            "period" | "ttl" | "window" => self.limits.push(limit(entry, problems)),
            "until" => self.until = setting(entry, unique_values::read(entry, problems)),
            "on_conflict" => {
                self.on_conflict = setting(entry, unique_values::read(entry, problems));
            }
            "update" => self.update = setting(entry, unique_values::read(entry, problems)),
            "debounce" => self.debounce = setting(entry, duration(entry, problems)),
            "max_delay" => self.max_delay = setting(entry, duration(entry, problems)),
            "max_items" => {
                let count = entry.integer(1, 1_000_000, problems);
                self.max_items = setting(entry, count.map(|(count, _)| count));
            }
            "on_reentry" => self.on_reentry = setting(entry, unique_values::read(entry, problems)),
            "like" => self.like = setting(entry, unique_values::read(entry, problems)),
            "gaps" => self.gaps = setting(entry, unique_values::read(entry, problems)),
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

/// Reads an exact length of time.
fn duration(entry: &Entry, problems: &mut Problems) -> Option<Duration> {
    let text = entry.text(problems)?;
    let parsed = length::parse(&text.value());
    if let Err(problem) = parsed {
        problems.add(
            text.span(),
            format!("invalid {}: {problem}: {:?}", entry.name, text.value()),
            "write a length of time such as \"5s\" or \"1m\", or \"PT5S\" in ISO 8601",
        );
    }
    parsed.ok()
}

fn limit(entry: &Entry, problems: &mut Problems) -> Limit {
    let length = entry.text(problems).and_then(|text| {
        let is_window = entry.name == "window";
        let parsed = if is_window {
            length::parse(&text.value()).map(|length| (0, length))
        } else {
            length::parse_calendar(&text.value())
        };
        let problem = match parsed {
            Ok((_, length)) if is_window && length.subsec_nanos() > 0 => "must be whole seconds",
            Ok(length) => return Some(length),
            Err(problem) => problem,
        };
        problems.add(
            text.span(),
            format!("invalid {}: {problem}: {:?}", entry.name, text.value()),
            "write a length of time such as \"15m\" or \"1d12h\", or \"PT15M\" in ISO 8601",
        );
        None
    });
    Limit { name: entry.name.clone(), span: entry.span, length }
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
