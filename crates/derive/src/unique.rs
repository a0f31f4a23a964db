//! `unique` and `unique(...)` on the type: the document of the policy, and where its members stand.
//!
//! The reader of `uniqueue-policy` reads the document here, as the library reads it when the program starts.
//! [`crate::consistency`] checks what no document says: the fields of the type.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use uniqueue_policy::{Given, OnConflict, Policy, Preset, Problem};

use crate::fields::{Fields, Named};
use crate::options::{self, Entry, Form, Options, Value, report_length};
use crate::problems::{Problems, suggestion};

/// The options that the document spells otherwise, or has not. The others are members of it by the same name.
const OPTIONS: [(&str, Form); 6] = [
    ("args", Form::FlagOrMembers),
    ("kind", Form::Flag),
    ("queue", Form::Flag),
    ("meta", Form::Members),
    ("exclude_kind", Form::Flag),
    ("gaps", Form::Text),
];

/// All options of `unique(...)`.
pub(crate) fn table() -> Vec<(&'static str, Form)> {
    OPTIONS.into_iter().chain(Policy::members_of_terms().map(|name| (name, Form::Own))).collect()
}

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
            Value::Absent => {
                let all = Entry { name: "args".to_owned(), value: Value::Absent, given: TokenStream::new(), ..*entry };
                unique.options.0.push(all);
            }
            Value::List(_) => {
                let entries = options::of_tokens(entry.given.clone(), problems);
                unique.options = Options::read(entries, (" of `unique`", &table()), elsewhere, problems);
            }
            _ => problems.add(
                entry.span,
                format!("`unique` takes no value: `{}`", entry.given),
                "write `unique` for all args, or `unique(...)` with options",
            ),
        }
        if let Some(Value::Text((given, span))) = unique.options.find("gaps").map(|gaps| &gaps.value)
            && given != "allowed"
        {
            report_word("gaps", given, *span, &["allowed"], problems);
        }
        unique.is_valid = problems.count() == problems_before;
        unique
    }

    /// Reports what the reader of policies finds. Rules between options count only where each option is valid.
    pub(crate) fn check(&self, fields: &Fields, problems: &mut Problems) {
        for problem in self.policy(fields).1 {
            if self.is_valid || problem.item.is_some() || is_of_form(&problem) {
                self.report(problem, problems);
            }
        }
    }

    /// The policy as the library will read it.
    pub(crate) fn policy(&self, fields: &Fields) -> (Policy, Vec<Problem>) {
        Policy::read(self.document(fields), OnConflict::Ignore)
    }

    /// The expression that makes the policy.
    pub(crate) fn expression(&self, fields: &Fields, library: &TokenStream) -> TokenStream {
        expression(&self.document(fields), library)
    }

    fn document<'a>(&'a self, fields: &'a Fields) -> Vec<(&'a str, Given<'a>)> {
        let mut document = selected(fields.marked());
        let mut keys: Vec<&str> = document.first().map(|_| "args").into_iter().collect();
        for Entry { name, value, .. } in &self.options.0 {
            let value = match value {
                Value::Absent => Given::Flag(true),
                Value::Text((text, _)) => Given::Text(text),
                Value::Number(number) => Given::Number(*number as f64),
                Value::List(Some(texts)) => Given::Texts(texts.iter().map(|(text, _)| text.as_str()).collect()),
                Value::Assigned | Value::List(None) => Given::Other,
            };
            match (name.as_str(), &value) {
                ("args", Given::Flag(_)) | ("queue", _) => keys.push(name),
                ("args" | "meta", Given::Texts(_)) => {
                    keys.push(name);
                    document.push((if name == "args" { "args_keys" } else { "meta_keys" }, value));
                }
                ("exclude_kind", _) => document.push(("exclude_type", Given::Flag(true))),
                (own, _) if OPTIONS.iter().any(|(name, _)| *name == own) => {}
                _ => document.push((name, value)),
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
    fn report(&self, mut problem: Problem, problems: &mut Problems) {
        let name = match problem.member {
            "args_keys" | "optional_args_keys" | "keys" => "args",
            "meta_keys" => "meta",
            "exclude_type" => "exclude_kind",
            member => member,
        };
        let option = self.options.find(name);
        if let (Some(option), true) = (option, is_of_form(&problem)) {
            problem.values = Vec::new();
            let form = match name {
                "states" => Form::Members,
                "max_items" => Form::Number(1, i64::MAX),
                _ => Form::Text,
            };
            return problems.add(
                option.place(),
                format!("invalid {name}: {problem}: {}", option.shown()),
                form.in_words(name).1,
            );
        }
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
            // The states are at fault rather than the event that ends the claim.
            let place = if name == "until" && self.options.has(&["states"]) { "states" } else { name };
            let span = self.options.span_of(place).unwrap_or(self.span);
            return problems.add(span, format!("invalid unique policy: {name}: {problem}"), hint);
        };
        let texts = match option.map(|option| &option.value) {
            Some(Value::Text(text)) => std::slice::from_ref(text),
            Some(Value::List(Some(texts))) => texts,
            _ => &[],
        };
        let span = texts.iter().find(|(text, _)| text == item).map_or(self.span, |(_, span)| *span);
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

/// Whether it is a value of another form than the member takes, which the reader leaves to its caller to show.
fn is_of_form(problem: &Problem) -> bool {
    problem.values.iter().any(|(_, text)| text.is_empty())
}

/// The members of a document that select these fields. Only those that may be absent from the JSON are optional.
fn selected<'f>(fields: impl Iterator<Item = &'f Named>) -> Vec<(&'f str, Given<'f>)> {
    let (optional, required): (Vec<_>, Vec<_>) = fields.partition(|field| field.may_be_absent);
    let members = [("args_keys", required), ("optional_args_keys", optional)];
    let named = members.into_iter().filter(|(_, fields)| !fields.is_empty());
    named
        .map(|(member, fields)| (member, Given::Texts(fields.iter().map(|field| &*field.selector).collect())))
        .collect()
}

/// The expression that makes a policy by the kind and these fields.
pub(crate) fn of_fields<'f>(fields: impl Iterator<Item = &'f Named>, library: &TokenStream) -> TokenStream {
    let mut document = selected(fields);
    document.push(("keys", Given::Texts(vec!["type", "args"])));
    expression(&document, library)
}

/// The expression that makes the policy of a document.
fn expression(document: &[(&str, Given<'_>)], library: &TokenStream) -> TokenStream {
    let members = document.iter().map(|(name, given)| {
        let given = match given {
            Given::Text(text) => quote!(Text(#text)),
            Given::Texts(texts) => quote!(Texts(::std::vec![#(#texts),*])),
            Given::Number(number) => quote!(Number(#number)),
            Given::Flag(flag) => quote!(Flag(#flag)),
            Given::Null | Given::Other => quote!(Null),
        };
        quote!((#name, #library::Given::#given))
    });
    quote!(#library::UniquePolicy::of_kind([#(#members),*]))
}

fn report_word(what: &str, given: &str, span: Span, words: &[&str], problems: &mut Problems) {
    let meant = known_elsewhere_as(given).unwrap_or(given);
    problems.add(span, format!("unknown {what}: {given:?}"), suggestion(meant, words.iter().copied()));
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

fn elsewhere(name: &str) -> Option<String> {
    ["priority", "max_attempts", "crate"].contains(&name).then(|| format!("`{name}` goes outside `unique(...)`"))
}
