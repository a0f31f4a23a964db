//! The options of an attribute: `name`, `name = value` and `name(list)`, with commas between.
//!
//! Each attribute takes the options of a table, with the form of each value. An attribute is first split at its commas,
//! and each option is read on its own. A mistake then affects one option, and one compilation shows all mistakes.
//! `parse_nested_meta` would stop at the first.

use std::collections::HashSet;

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Attribute, Ident, LitInt, LitStr, Meta, Token};

use crate::problems::{Problems, suggestion};

/// One option of an attribute.
pub(crate) struct Entry {
    pub(crate) name: String,
    /// The place of the name.
    pub(crate) span: Span,
    pub(crate) value: Value,
    /// The tokens behind `=`, or between the parentheses.
    pub(crate) given: TokenStream,
}

/// A text in the source.
pub(crate) type Text = (String, Span);

/// The part after an option's name.
pub(crate) enum Value {
    Absent,
    Text(Text),
    Number(i64),
    /// `name = ...` with anything else.
    Assigned,
    /// `name(...)`, with the texts in it where there is nothing else.
    List(Option<Vec<Text>>),
}

/// Returns the options of all attributes with a name, in source order.
pub(crate) fn of_attributes(name: &str, attributes: &[Attribute], problems: &mut Problems) -> Vec<Entry> {
    let mut entries = Vec::new();
    for attribute in attributes {
        let Some(path) = attribute.path().get_ident().filter(|path| *path == name) else {
            continue;
        };
        match &attribute.meta {
            Meta::List(list) => entries.extend(of_tokens(list.tokens.clone(), problems)),
            Meta::Path(_) | Meta::NameValue(_) => problems.add(
                path.span(),
                format!("expected options in parentheses: `{name}`"),
                format!("write `#[{name}(...)]`"),
            ),
        }
    }
    entries
}

/// Returns the options between two parentheses.
pub(crate) fn of_tokens(tokens: TokenStream, problems: &mut Problems) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut tokens = tokens.into_iter().peekable();
    while tokens.peek().is_some() {
        let mut part = tokens.by_ref().take_while(|token| !is_punctuation(token, ','));
        let first = part.next();
        let rest: Vec<TokenTree> = part.collect();
        match first {
            Some(TokenTree::Ident(name)) => entries.extend(entry(&name, &rest, problems)),
            Some(other) => problems.add(
                other.span(),
                format!("expected the name of an option: `{other}`"),
                "options are `name`, `name = value` or `name(...)`, with commas between",
            ),
            // Empty entries, as between two commas, are ignored.
            None => {}
        }
    }
    entries
}

fn entry(name: &Ident, rest: &[TokenTree], problems: &mut Problems) -> Option<Entry> {
    let (value, given) = match rest {
        [] => (Value::Absent, TokenStream::new()),
        [equals, value @ ..] if is_punctuation(equals, '=') => assigned(value),
        [TokenTree::Group(group)] if group.delimiter() == Delimiter::Parenthesis => {
            (Value::List(texts(group.stream())), group.stream())
        }
        [TokenTree::Group(group), unexpected, ..] if group.delimiter() == Delimiter::Parenthesis => {
            problems.add(
                unexpected.span(),
                format!("unexpected after `{name}(...)`: `{unexpected}`"),
                "separate options with commas",
            );
            return None;
        }
        [unexpected, ..] => {
            let is_colon = is_punctuation(unexpected, ':');
            let is_value = is_colon || matches!(unexpected, TokenTree::Literal(_));
            let hint =
                if is_value { format!("write `{name} = ...`") } else { "separate options with commas".to_owned() };
            problems.add(unexpected.span(), format!("unexpected after `{name}`: `{unexpected}`"), hint);
            if !is_value {
                return None;
            }
            // The value is used anyway, so that `kind "a"` does not also count as missing.
            assigned(&rest[usize::from(is_colon)..])
        }
    };
    Some(Entry { name: name.to_string(), span: name.span(), value, given })
}

fn assigned(value: &[TokenTree]) -> (Value, TokenStream) {
    let given: TokenStream = value.iter().cloned().collect();
    let number = || syn::parse2::<LitInt>(given.clone()).and_then(|number| number.base10_parse());
    let value = match syn::parse2::<LitStr>(given.clone()) {
        Ok(text) => Value::Text((text.value(), text.span())),
        Err(_) => number().map_or(Value::Assigned, Value::Number),
    };
    (value, given)
}

fn texts(list: TokenStream) -> Option<Vec<Text>> {
    let texts = Punctuated::<LitStr, Token![,]>::parse_terminated.parse2(list).ok()?;
    Some(texts.iter().map(|text| (text.value(), text.span())).collect())
}

fn is_punctuation(token: &TokenTree, wanted: char) -> bool {
    matches!(token, TokenTree::Punct(punctuation) if punctuation.as_char() == wanted)
}

impl Entry {
    /// The place of the value, or else of the name.
    pub(crate) fn place(&self) -> Span {
        let digits = |token: &TokenTree| !is_punctuation(token, '-');
        self.given.clone().into_iter().find(digits).map_or(self.span, |token| token.span())
    }

    /// The value as it stands in the source.
    pub(crate) fn shown(&self) -> String {
        match self.value {
            _ if self.given.is_empty() => "nothing is given".to_owned(),
            Value::Number(number) => format!("`{number}`"),
            _ => format!("`{}`", self.given),
        }
    }

    /// Reports texts of a list that are empty or repeated.
    pub(crate) fn check_texts(&self, problems: &mut Problems) {
        let Value::List(Some(texts)) = &self.value else { return };
        let (name, mut seen) = (&self.name, HashSet::new());
        for (text, span) in texts {
            if text.is_empty() {
                let hint = "write the name of a member, or a JSON Pointer such as \"/address/zip\"";
                problems.add(*span, format!("empty name in `{name}`: \"\""), hint);
            } else if !seen.insert(text) {
                problems.add(*span, format!("named twice in `{name}`: {text:?}"), "remove one of the two");
            }
        }
    }
}

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
        report_length(option, &invalid.reason, text, *span, problems);
    }
}

pub(crate) fn report_length(option: &str, reason: &str, given: &str, span: Span, problems: &mut Problems) {
    let hint = "write a length of time such as \"15m\", \"1d12h\" or \"PT15M\"";
    problems.add(span, format!("invalid {option}: {reason}: {given:?}"), hint);
}
