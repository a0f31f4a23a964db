//! The options of an attribute: `name`, `name = value` and `name(list)`, with commas between.
//!
//! An attribute is first split at its commas, and each option is read on its own. A mistake then affects
//! one option, and one compilation shows all mistakes. `parse_nested_meta` would stop at the first.

use std::collections::HashSet;

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Attribute, Ident, LitInt, LitStr, Meta, Token};

use crate::problems::Problems;

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
