//! The options that an attribute takes, each with the form of its value.

use proc_macro2::Span;

use crate::entries::{Entry, Text, Value};
use crate::problems::{Problems, suggestion};

/// What an option takes.
#[derive(Clone, Copy)]
pub(crate) enum Form {
    /// Nothing.
    Flag,
    Text,
    /// The name of a kind or a queue.
    Name,
    /// A length of time without months and years.
    Length,
    /// Names of members: literal, or a JSON Pointer when they start with a slash.
    Members,
    /// Nothing, or names of members.
    FlagOrMembers,
    Number(i64, i64),
    /// Whatever its own reader says.
    Own,
}

/// The options that are set.
#[derive(Default)]
pub(crate) struct Options(pub(crate) Vec<Entry>);

impl Options {
    /// Reads the options `of` something by a table. `elsewhere` has the hint for those that belong to another place.
    pub(crate) fn read(
        entries: Vec<Entry>,
        (of, table): (&str, &[(&str, Form)]),
        elsewhere: impl Fn(&str) -> Option<String>,
        problems: &mut Problems,
    ) -> Self {
        let mut options = Self::default();
        for entry in entries {
            let name = &entry.name;
            match table.iter().find(|(known, _)| known == name) {
                None => {
                    let hint =
                        elsewhere(name).unwrap_or_else(|| suggestion(name, table.iter().map(|(known, _)| *known)));
                    problems.add(entry.span, format!("unknown option{of}: `{name}`"), hint);
                }
                Some(_) if options.has(&[name]) => {
                    problems.add(entry.span, format!("duplicate option: `{name}`"), "remove one of the two");
                }
                Some((_, form)) => {
                    form.check(&entry, problems);
                    options.0.push(entry);
                }
            }
        }
        options
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Entry> {
        self.0.iter().find(|entry| entry.name == name)
    }

    /// The place of an option's name.
    pub(crate) fn span_of(&self, name: &str) -> Option<Span> {
        Some(self.find(name)?.span)
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        if let Value::Text((text, _)) = &self.find(name)?.value { Some(text) } else { None }
    }

    pub(crate) fn number(&self, name: &str) -> Option<i64> {
        if let Value::Number(number) = self.find(name)?.value { Some(number) } else { None }
    }

    /// Whether one of these options is set.
    pub(crate) fn has(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.find(name).is_some())
    }
}

impl Form {
    /// Reports a value of another form.
    fn check(self, entry: &Entry, problems: &mut Problems) {
        entry.check_texts(problems);
        let fits = match (self, &entry.value) {
            (Self::Name, Value::Text(text)) => return check_name(&entry.name, text, problems),
            (Self::Length, Value::Text(text)) => return check_length(&entry.name, text, problems),
            (Self::Own, _) | (Self::Flag | Self::FlagOrMembers, Value::Absent) | (Self::Text, Value::Text(_)) => true,
            (Self::Members | Self::FlagOrMembers, Value::List(Some(texts))) => !texts.is_empty(),
            (Self::Number(min, max), Value::Number(number)) => (min..=max).contains(number),
            _ => false,
        };
        if !fits {
            let (what, hint) = self.in_words(&entry.name);
            problems.add(entry.place(), format!("`{}` takes {what}: {}", entry.name, entry.shown()), hint);
        }
    }

    /// What the option takes, and how it is written.
    pub(crate) fn in_words(self, name: &str) -> (String, String) {
        let (what, hint) = match self {
            Self::Flag => ("no value here", format!("write `{name}` alone")),
            Self::FlagOrMembers => {
                ("nothing or a list of strings", format!("write `{name}` alone, or `{name}(\"...\", \"...\")`"))
            }
            Self::Members => ("a list of strings", format!("write `{name}(\"...\", \"...\")`")),
            Self::Text | Self::Name | Self::Length | Self::Own => ("a string", format!("write `{name} = \"...\"`")),
            Self::Number(min, max) => {
                let what = format!("a number from {min} to {max}");
                return (what, format!("write a number, such as `{name} = {}`", min.max(1)));
            }
        };
        (what.to_owned(), hint)
    }
}

fn check_name(option: &str, (name, span): &Text, problems: &mut Problems) {
    if let Some(problem) = uniqueue_policy::name_problem(name) {
        let hint = "use 1 to 128 bytes of text, such as \"email.send\"";
        problems.add(*span, format!("invalid {option}: {problem}: {name:?}"), hint);
    }
}

fn check_length(option: &str, (text, span): &Text, problems: &mut Problems) {
    if let Err(invalid) = uniqueue_policy::exact(text) {
        report_length(option, invalid.problem, text, *span, problems);
    }
}

pub(crate) fn report_length(option: &str, reason: &str, given: &str, span: Span, problems: &mut Problems) {
    let hint = "write a length of time such as \"15m\", \"1d12h\" or \"PT15M\"";
    problems.add(span, format!("invalid {option}: {reason}: {given:?}"), hint);
}
