//! The options of an attribute, each read by the form of its value.

use proc_macro2::Span;

use crate::entries::{Entry, Seen, Value};
use crate::problems::{Problems, closest, listed};

/// The longest name of a kind or a queue in bytes, as in the library's `ident`.
const MAX_NAME_BYTES: usize = 128;

/// What an option takes.
#[derive(Clone, Copy)]
pub(crate) enum Form {
    /// Nothing.
    Flag,
    Text,
    /// The name of a kind or a queue, by the rules of the library's check at run time.
    Name,
    /// A length of time without months and years.
    Length,
    Texts,
    /// Names of members: literal, or a JSON Pointer when they start with a slash.
    Members,
    /// Nothing, or names of members.
    FlagOrMembers,
    Number(i64, i64),
    /// Whatever its own reader says.
    Own,
}

/// A text in the source.
pub(crate) type Text = (String, Span);

/// The value of an option.
pub(crate) enum Set {
    /// The option stands alone.
    Flag,
    Text(Text),
    Texts(Vec<Text>),
    Number(i64, Span),
    /// It was reported.
    Invalid,
}

/// The options that are set, each with the place of its name.
#[derive(Default)]
pub(crate) struct Options(pub(crate) Vec<(&'static str, Span, Set)>);

impl Options {
    /// Reads entries by a table of options. `own` reads those of [`Form::Own`].
    pub(crate) fn read(
        entries: Vec<Entry>,
        table: &[(&'static str, Form)],
        unknown: fn(&Entry, &mut Problems),
        problems: &mut Problems,
        mut own: impl FnMut(&Entry, &mut Problems),
    ) -> Self {
        let (mut options, mut seen) = (Self::default(), Seen::default());
        for entry in entries {
            match table.iter().find(|(name, _)| *name == entry.name) {
                None => unknown(&entry, problems),
                Some(_) if !seen.is_first(&entry, problems) => {}
                Some((_, Form::Own)) => own(&entry, problems),
                Some((name, form)) => options.0.push((name, entry.span, form.read(&entry, problems))),
            }
        }
        options
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Set> {
        self.0.iter().find(|(option, ..)| *option == name).map(|(.., set)| set)
    }

    /// The place of an option's name.
    pub(crate) fn span_of(&self, name: &str) -> Option<Span> {
        self.0.iter().find(|(option, ..)| *option == name).map(|(_, span, _)| *span)
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        if let Set::Text((text, _)) = self.find(name)? { Some(text) } else { None }
    }

    pub(crate) fn number(&self, name: &str) -> Option<(i64, Span)> {
        if let Set::Number(number, span) = self.find(name)? { Some((*number, *span)) } else { None }
    }

    /// Whether one of these options is set.
    pub(crate) fn has(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.find(name).is_some())
    }
}

impl Form {
    fn read(self, entry: &Entry, problems: &mut Problems) -> Set {
        let flag = |problems: &mut Problems| entry.flag(problems).then_some(Set::Flag);
        let text = |problems: &mut Problems| entry.text(problems).map(|text| (text.value(), text.span()));
        let texts = |problems: &mut Problems| {
            let texts = entry.texts(problems)?;
            Some(texts.iter().map(|text| (text.value(), text.span())).collect::<Vec<_>>())
        };
        let set = match self {
            Self::Flag => flag(problems),
            Self::FlagOrMembers if !matches!(entry.value, Value::List(_)) => flag(problems),
            Self::Texts => texts(problems).map(Set::Texts),
            Self::Members | Self::FlagOrMembers => {
                texts(problems).map(|texts| Set::Texts(members(texts, &entry.name, problems)))
            }
            Self::Number(min, max) => entry.integer(min, max, problems).map(|(number, span)| Set::Number(number, span)),
            Self::Name => text(problems).filter(|text| is_name(&entry.name, text, problems)).map(Set::Text),
            Self::Length => text(problems).filter(|text| is_length(&entry.name, text, problems)).map(Set::Text),
            Self::Text | Self::Own => text(problems).map(Set::Text),
        };
        set.unwrap_or(Set::Invalid)
    }
}

/// Names of members without those that are empty, which are reported.
fn members(mut names: Vec<Text>, option: &str, problems: &mut Problems) -> Vec<Text> {
    names.retain(|(name, span)| {
        if name.is_empty() {
            let hint = "write the name of a member, or a JSON Pointer such as \"/address/zip\"";
            problems.add(*span, format!("empty name in `{option}`: \"\""), hint);
        }
        !name.is_empty()
    });
    names
}

fn is_name(option: &str, (name, span): &Text, problems: &mut Problems) -> bool {
    let problem = if name.is_empty() {
        "must not be empty"
    } else if name.len() > MAX_NAME_BYTES {
        "must not be longer than 128 bytes"
    } else if name.chars().any(char::is_control) {
        "must not hold control characters"
    } else {
        return true;
    };
    let hint = "use 1 to 128 bytes of text, such as \"email.send\"";
    problems.add(*span, format!("invalid {option}: {problem}: {name:?}"), hint);
    false
}

fn is_length(option: &str, (text, span): &Text, problems: &mut Problems) -> bool {
    let report =
        |invalid: uniqueue_policy::InvalidLength| report_length(option, invalid.problem, text, *span, problems);
    uniqueue_policy::exact(text).map_err(report).is_ok()
}

pub(crate) fn report_length(option: &str, reason: &str, given: &str, span: Span, problems: &mut Problems) {
    let hint = "write a length of time such as \"15m\", \"1d12h\" or \"PT15M\"";
    problems.add(span, format!("invalid {option}: {reason}: {given:?}"), hint);
}

/// The hint for an option that does not exist.
pub(crate) fn known(given: &str, table: &[(&'static str, Form)]) -> String {
    let names = || table.iter().map(|(name, _)| *name);
    match closest(given, names()) {
        Some(meant) => format!("did you mean `{meant}`? The options are {}", listed(names(), "and")),
        None => format!("the options are {}", listed(names(), "and")),
    }
}
