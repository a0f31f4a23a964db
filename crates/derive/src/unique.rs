//! `unique` and `unique(...)` on the type: the document of the policy, and where its members stand.
//!
//! The reader of `uniqueue-policy` reads the document here, as the library reads it when the program starts.
//! [`crate::consistency`] checks what no document says: the fields of the type.

use proc_macro2::Span;
use uniqueue_policy::{Given, OnConflict, Policy, Preset, Problem, Update};

use crate::entries::{self, Entry, Value};
use crate::fields::{Fields, selector};
use crate::options::{Form, Options, Set, known, report_length};
use crate::problems::{Problems, closest, listed};

pub(crate) const OPTIONS: [(&str, Form); 19] = [
    ("args", Form::FlagOrMembers),
    ("kind", Form::Flag),
    ("queue", Form::Flag),
    ("meta", Form::Members),
    ("exclude_kind", Form::Flag),
    ("scope", Form::Text),
    ("states", Form::Texts),
    ("period", Form::Text),
    ("ttl", Form::Text),
    ("window", Form::Text),
    ("until", Form::Text),
    ("on_conflict", Form::Text),
    ("update", Form::Text),
    ("debounce", Form::Text),
    ("max_delay", Form::Text),
    ("max_items", Form::Number(1, Update::MOST_ITEMS as i64)),
    ("on_reentry", Form::Text),
    ("like", Form::Text),
    ("gaps", Form::Text),
];

/// The unique options of a type.
pub(crate) struct Unique {
    /// The place of the word `unique`.
    pub(crate) span: Span,
    /// Whether every option was valid. Otherwise a missing option may be an invalid one.
    pub(crate) is_valid: bool,
    pub(crate) options: Options,
}

impl Unique {
    /// A policy without options.
    pub(crate) fn empty(span: Span) -> Self {
        Self { span, is_valid: true, options: Options::default() }
    }

    pub(crate) fn read(entry: &Entry, problems: &mut Problems) -> Self {
        let mut unique = Self::empty(entry.span);
        let problems_before = problems.count();
        match &entry.value {
            Value::Absent => unique.options.0.push(("args", entry.span, Set::Flag)),
            Value::Assigned(_) => problems.add(
                entry.span,
                "`unique` takes no value",
                "write `unique` for all args, or `unique(...)` with options",
            ),
            Value::List(tokens) => {
                let entries = entries::of_tokens(tokens.clone(), problems);
                unique.options = Options::read(entries, &OPTIONS, report_unknown, problems, |_, _| {});
            }
        }
        if let Some(Set::Text((given, span))) =
            unique.options.find("gaps").filter(|_| unique.options.text("gaps") != Some("allowed"))
        {
            report_word("gaps", given, *span, &["allowed"], problems);
        }
        unique.is_valid = problems.count() == problems_before;
        unique
    }

    /// Reports what the reader of policies finds. Rules between options count only where each option is valid.
    pub(crate) fn check(&self, fields: &Fields, problems: &mut Problems) {
        let found = self.policy(fields).1;
        for problem in found.iter().filter(|problem| self.is_valid || problem.item.is_some()) {
            self.report(problem, problems);
        }
    }

    /// The policy as the library will read it.
    pub(crate) fn policy(&self, fields: &Fields) -> (Policy, Vec<Problem>) {
        let marked = Selections::marked(fields);
        Policy::read(self.document(&marked), OnConflict::Ignore)
    }

    /// The document in JSON.
    pub(crate) fn json(&self, fields: &Fields) -> String {
        json(&self.document(&Selections::marked(fields)))
    }

    fn document<'a>(&'a self, marked: &'a Selections) -> Vec<(&'static str, Given<'a>)> {
        let mut document = marked.members();
        let mut keys: Vec<&str> = document.first().map(|_| "args").into_iter().collect();
        for (option, _, set) in &self.options.0 {
            let given = match set {
                Set::Text((text, _)) => Given::Text(text),
                Set::Texts(texts) => Given::Texts(texts.iter().map(|(text, _)| text.as_str()).collect()),
                Set::Number(number, _) => Given::Number(*number as f64),
                Set::Flag => Given::Flag(true),
                Set::Invalid => continue,
            };
            match (*option, &given) {
                ("args", Given::Flag(_)) | ("queue", _) => keys.push(option),
                ("kind" | "gaps", _) => {}
                ("args" | "meta", _) => {
                    keys.push(option);
                    document.push((if *option == "args" { "args_keys" } else { "meta_keys" }, given));
                }
                ("exclude_kind", _) => document.push(("exclude_type", given)),
                _ => document.push((option, given)),
            }
        }
        // A preset's own parts stay in the key.
        if !keys.is_empty() {
            let preset = self.options.text("like").and_then(|word| word.parse().ok()).map_or(&[][..], Preset::keys);
            keys.extend(preset.iter().filter(|key| **key != "type"));
            document.push(("keys", Given::Texts(keys)));
        }
        document
    }

    /// Reports a problem at the text at fault, or else at the option.
    fn report(&self, problem: &Problem, problems: &mut Problems) {
        let name = match problem.member {
            "args_keys" | "optional_args_keys" | "keys" => "args",
            "meta_keys" => "meta",
            "exclude_type" => "exclude_kind",
            member => member,
        };
        // The states are at fault rather than the event that ends the claim.
        let place = if name == "until" && self.options.has(&["states"]) { "states" } else { name };
        let span = self.options.span_of(place).unwrap_or(self.span);
        let Some(item) = &problem.item else {
            let hint = match (name, problem.hint) {
                ("update", "") => "select the args of the key with `args(\"...\")`, or mark fields `#[job(unique)]`",
                ("scope", _) => "a scope is a set of states with a name: keep one of the two",
                ("like", _) => "add a length such as `ttl = \"10m\"`",
                ("exclude_kind", _) => {
                    "remove it, or make the key of something else: `args`, `queue` or `meta(\"...\")`"
                }
                (_, hint) => hint,
            };
            return problems.add(span, format!("invalid unique policy: {name}: {problem}"), hint);
        };
        let span = match self.options.find(name) {
            Some(Set::Text((_, span))) => *span,
            Some(Set::Texts(texts)) => texts.iter().find(|(text, _)| text == item).map_or(span, |(_, span)| *span),
            _ => span,
        };
        if !problem.words.is_empty() {
            report_word(if name == "states" { "state" } else { name }, item, span, problem.words, problems);
        } else if problem.member.ends_with("_keys") {
            let hint = "in a JSON Pointer `~` is written `~0`, and `/` in a name `~1`";
            problems.add(span, format!("invalid JSON Pointer: {item:?}"), hint);
        } else {
            report_length(name, problem.reason.as_str(), item, span, problems);
        }
    }
}

/// Fields as selections. Only those that may be absent from the JSON are optional.
struct Selections([(&'static str, Vec<String>); 2]);

impl Selections {
    fn of<'f>(fields: impl Iterator<Item = (&'f str, bool)>) -> Self {
        let (optional, required): (Vec<_>, Vec<_>) = fields.partition(|(_, may_be_absent)| *may_be_absent);
        let names = |fields: Vec<(&str, bool)>| fields.into_iter().map(|(name, _)| selector(name)).collect();
        Self([("args_keys", names(required)), ("optional_args_keys", names(optional))])
    }

    fn marked(fields: &Fields) -> Self {
        Self::of(fields.unique.iter().map(|marked| (marked.name.as_str(), marked.may_be_absent)))
    }

    fn members(&self) -> Vec<(&'static str, Given<'_>)> {
        let named = self.0.iter().filter(|(_, names)| !names.is_empty());
        named.map(|(member, names)| (*member, Given::Texts(names.iter().map(String::as_str).collect()))).collect()
    }
}

/// The document of a policy by the kind and these fields, each with whether the JSON may lack it.
pub(crate) fn document_of_fields<'f>(fields: impl Iterator<Item = (&'f str, bool)>) -> String {
    let selections = Selections::of(fields);
    let keys = ("keys", Given::Texts(vec!["type", "args"]));
    json(&selections.members().into_iter().chain([keys]).collect::<Vec<_>>())
}

/// A document as JSON.
fn json(document: &[(&str, Given<'_>)]) -> String {
    let text = |text: &str| {
        let escaped = text.chars().map(|letter| match letter {
            '"' | '\\' => format!("\\{letter}"),
            letter if letter.is_control() => format!("\\u{:04x}", u32::from(letter)),
            letter => letter.to_string(),
        });
        format!("\"{}\"", escaped.collect::<String>())
    };
    let members = document.iter().map(|(name, given)| {
        let value = match given {
            Given::Text(given) => text(given),
            Given::Texts(given) => format!("[{}]", given.iter().map(|given| text(given)).collect::<Vec<_>>().join(",")),
            Given::Number(number) => number.to_string(),
            Given::Flag(flag) => flag.to_string(),
            Given::Null | Given::Other => "null".to_owned(),
        };
        format!("\"{name}\":{value}")
    });
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

fn report_word(what: &str, given: &str, span: Span, words: &[&str], problems: &mut Problems) {
    let meant = known_elsewhere_as(given).filter(|meant| words.contains(meant));
    let meant = meant.or_else(|| closest(given, words.iter().copied()));
    let meant = meant.map(|meant| format!("did you mean \"{meant}\"? "));
    let hint = format!("{}valid: {}", meant.unwrap_or_default(), listed(words.iter().copied(), "and"));
    problems.add(span, format!("unknown {what}: {given:?}"), hint);
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

fn report_unknown(entry: &Entry, problems: &mut Problems) {
    let hint = if ["priority", "max_attempts", "crate"].contains(&entry.name.as_str()) {
        format!("`{}` goes outside `unique(...)`", entry.name)
    } else {
        known(&entry.name, &OPTIONS)
    };
    problems.add(entry.span, format!("unknown option of `unique`: `{}`", entry.name), hint);
}
