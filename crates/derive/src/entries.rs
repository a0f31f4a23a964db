//! The entries of an attribute: `name`, `name = value` and `name(list)`, with commas between.
//!
//! An attribute is first split at its commas, and each entry is read on its own. A mistake then affects
//! one entry, and one compilation shows all mistakes. `parse_nested_meta` would stop at the first.

use std::collections::HashSet;

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Attribute, Ident, LitInt, LitStr, Meta, Token};

use crate::problems::Problems;

/// One entry of an attribute.
pub(crate) struct Entry {
    pub(crate) name: String,
    /// The place of the name.
    pub(crate) span: Span,
    pub(crate) value: Value,
}

/// The part after an entry's name.
pub(crate) enum Value {
    Absent,
    Assigned(TokenStream),
    List(TokenStream),
}

/// Returns the entries of all attributes with a name, in source order.
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

/// Returns the entries between two parentheses.
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
    let value = match rest {
        [] => Value::Absent,
        [equals, value @ ..] if is_punctuation(equals, '=') => Value::Assigned(value.iter().cloned().collect()),
        [TokenTree::Group(group)] if group.delimiter() == Delimiter::Parenthesis => Value::List(group.stream()),
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
            Value::Assigned(rest[usize::from(is_colon)..].iter().cloned().collect())
        }
    };
    Some(Entry { name: name.to_string(), span: name.span(), value })
}

fn is_punctuation(token: &TokenTree, wanted: char) -> bool {
    matches!(token, TokenTree::Punct(punctuation) if punctuation.as_char() == wanted)
}

impl Entry {
    /// Reads `name` alone, and returns whether it has no value.
    pub(crate) fn flag(&self, problems: &mut Problems) -> bool {
        if let Value::Absent = self.value {
            return true;
        }
        let name = &self.name;
        problems.add(self.span, format!("`{name}` takes no value here"), format!("write `{name}` alone"));
        false
    }

    /// The tokens behind `=`. Where there are none, it is reported that the option takes `what`.
    fn assigned(&self, what: &str, hint: &str, problems: &mut Problems) -> Option<&TokenStream> {
        match &self.value {
            Value::Assigned(tokens) if !tokens.is_empty() => Some(tokens),
            _ => {
                problems.add(self.span, format!("`{}` takes {what}", self.name), hint);
                None
            }
        }
    }

    /// Reads `name = "text"`.
    pub(crate) fn text(&self, problems: &mut Problems) -> Option<LitStr> {
        let name = &self.name;
        let hint = format!("write `{name} = \"...\"`");
        let tokens = self.assigned("a string", &hint, problems)?;
        let text = syn::parse2::<LitStr>(tokens.clone());
        text.map_err(|error| problems.add(error.span(), format!("`{name}` takes a string: `{tokens}`"), hint)).ok()
    }

    /// Reads `name = 1` or `name = -1` within the limits.
    pub(crate) fn integer(&self, min: i64, max: i64, problems: &mut Problems) -> Option<(i64, Span)> {
        let name = &self.name;
        let hint = format!("write `{name} = ...` with a number from {min} to {max}");
        let tokens = self.assigned("a number", &hint, problems)?;
        let signed =
            |input: ParseStream<'_>| Ok((input.parse::<Option<Token![-]>>()?.is_some(), input.parse::<LitInt>()?));
        let Ok((is_negative, digits)) = signed.parse2(tokens.clone()) else {
            let span = tokens.clone().into_iter().next().map_or(self.span, |token| token.span());
            problems.add(span, format!("`{name}` takes a number: `{tokens}`"), hint);
            return None;
        };
        let number = digits.base10_parse::<i64>().ok().map(|number| if is_negative { -number } else { number });
        let number = number.filter(|number| (min..=max).contains(number));
        if number.is_none() {
            let sign = if is_negative { "-" } else { "" };
            problems.add(digits.span(), format!("invalid {name}: {sign}{digits}"), hint);
        }
        number.map(|number| (number, digits.span()))
    }

    /// Reads `name("a", "b")` without repetitions.
    pub(crate) fn texts(&self, problems: &mut Problems) -> Option<Vec<LitStr>> {
        let name = &self.name;
        let hint = format!("write `{name}(\"...\", \"...\")`");
        let Value::List(tokens) = &self.value else {
            problems.add(self.span, format!("`{name}` takes a list of strings"), hint);
            return None;
        };
        let texts = Punctuated::<LitStr, Token![,]>::parse_terminated.parse2(tokens.clone());
        let texts = texts.map_err(|error| (error.span(), format!("`{name}` takes a list of strings: `{tokens}`")));
        let texts = texts.and_then(|texts| match texts.is_empty() {
            true => Err((self.span, format!("empty list: `{name}()`"))),
            false => Ok(texts),
        });
        let texts = texts.map_err(|(span, message)| problems.add(span, message, hint)).ok()?;
        let mut seen = HashSet::new();
        for text in &texts {
            if !seen.insert(text.value()) {
                let message = format!("named twice in `{name}`: {:?}", text.value());
                problems.add(text.span(), message, "remove one of the two");
            }
        }
        Some(texts.into_iter().collect())
    }
}

/// The options read so far, for finding repeated ones.
#[derive(Default)]
pub(crate) struct Seen(HashSet<String>);

impl Seen {
    /// Whether this is the first entry with its name. A second one is reported.
    pub(crate) fn is_first(&mut self, entry: &Entry, problems: &mut Problems) -> bool {
        let first = self.0.insert(entry.name.clone());
        if !first {
            let message = format!("duplicate option: `{}`", entry.name);
            problems.add(entry.span, message, "remove one of the two");
        }
        first
    }
}
