//! `#[job(...)]` on the type, and the group of its jobs.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Ident, LitStr, Path, Token};

use crate::fields::Fields;
use crate::options::{self, Entry, Form, Options, Value};
use crate::problems::Problems;
use crate::unique::{self, Unique};

const OPTIONS: [(&str, Form); 12] = [
    ("kind", Form::Name),
    ("queue", Form::Name),
    ("priority", Form::Number(i16::MIN as i64, i16::MAX as i64)),
    ("max_attempts", Form::Number(1, i16::MAX as i64)),
    ("expires_in", Form::Length),
    ("unique", Form::Own),
    ("group", Form::Own),
    ("limit", Form::Number(1, i16::MAX as i64)),
    ("in_order", Form::Flag),
    ("one_at_a_time", Form::Flag),
    ("place", Form::Name),
    ("crate", Form::Text),
];

/// The options of a job type.
#[derive(Default)]
pub(crate) struct JobAttributes {
    pub(crate) options: Options,
    pub(crate) unique: Option<Unique>,
    /// Where the group is valid.
    pub(crate) group: Option<Group>,
    pub(crate) library: Option<Path>,
}

impl JobAttributes {
    pub(crate) fn read(input: &syn::DeriveInput, problems: &mut Problems) -> Self {
        let entries = options::of_attributes("job", &input.attrs, problems);
        let is_of_unique = |name: &str| name != "args" && unique::table().iter().any(|(option, _)| *option == name);
        let elsewhere = |name: &str| is_of_unique(name).then(|| format!("`{name}` goes inside `unique(...)`"));
        let options = Options::read(entries, ("", &OPTIONS), elsewhere, problems);
        let unique = options.find("unique").map(|entry| Unique::read(entry, problems));
        let group = options.find("group").and_then(|entry| Group::read(entry, problems));
        let library = options.find("crate").and_then(|entry| path(entry, problems));
        if !options.has(&["kind"]) {
            let hint = format!(
                "add `#[job(kind = \"{}\")]`, and never change it while such jobs are stored",
                snake_case(&input.ident)
            );
            problems.add(input.ident.span(), format!("missing `kind`: `{}`", input.ident), hint);
        }
        Self { options, unique, group, library }
    }
}

fn path(entry: &Entry, problems: &mut Problems) -> Option<Path> {
    let Value::Text((text, span)) = &entry.value else { return None };
    let path = LitStr::new(text, *span).parse_with(Path::parse_mod_style);
    if path.is_err() {
        let hint = "write the path of the uniqueue crate, such as `crate = \"::uniqueue\"`";
        problems.add(*span, format!("invalid path: {text:?}"), hint);
    }
    path.ok()
}

/// Converts `SendEmail` to `send_email`, and `HTTPCheck` to `http_check`.
fn snake_case(ident: &Ident) -> String {
    let name = ident.to_string();
    let letters: Vec<char> = name.strip_prefix("r#").unwrap_or(&name).chars().collect();
    let mut snake = String::new();
    for (index, letter) in letters.iter().enumerate() {
        let after_lower = index > 0 && !letters[index - 1].is_uppercase();
        let before_lower = letters.get(index + 1).is_some_and(|next| next.is_lowercase());
        let starts_word = letter.is_uppercase() && (after_lower || before_lower);
        if starts_word && index > 0 && letters[index - 1] != '_' {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

/// The longest key of a group in bytes, as in the library.
const MAX_KEY_BYTES: usize = 512;

const GROUP_HINT: &str = "write `group(field, ...)`, `group = \"key\"`, or `group` alone for all jobs of the kind";

/// How the group's key is made.
pub(crate) enum Group {
    /// By the kind alone.
    Kind,
    Key(String),
    /// By these fields of the type, and by the kind.
    Fields(Vec<Ident>),
}

impl Group {
    pub(crate) fn read(entry: &Entry, problems: &mut Problems) -> Option<Self> {
        match &entry.value {
            Value::Absent => Some(Self::Kind),
            Value::Text((text, _)) if (1..=MAX_KEY_BYTES).contains(&text.len()) => Some(Self::Key(text.clone())),
            Value::Text((text, span)) => {
                let message = format!("invalid group: must be 1 to 512 bytes: {}", text.len());
                problems.add(*span, message, "use a short text, such as \"customer:1\"");
                None
            }
            Value::List(_) => group_fields(entry, problems).map(Self::Fields),
            Value::Number(_) | Value::Assigned => {
                problems.add(entry.place(), format!("`group` takes a string or fields: {}", entry.shown()), GROUP_HINT);
                None
            }
        }
    }

    /// The calls that set the group in the options of the kind.
    pub(crate) fn calls(&self, fields: &Fields, library: &TokenStream) -> TokenStream {
        match self {
            Self::Kind => quote!(.group_by(#library::UniquePolicy::new())),
            Self::Key(key) => quote!(.group(#key)),
            Self::Fields(idents) => {
                let policy = unique::of_fields(idents.iter().filter_map(|ident| fields.find(ident)), library);
                quote!(.group_by(#policy))
            }
        }
    }
}

/// Reads the names of fields.
fn group_fields(entry: &Entry, problems: &mut Problems) -> Option<Vec<Ident>> {
    match Punctuated::<Ident, Token![,]>::parse_terminated.parse2(entry.given.clone()) {
        Ok(idents) if idents.is_empty() => problems.add(entry.span, "empty list: `group()`", GROUP_HINT),
        Ok(idents) => return Some(idents.into_iter().collect()),
        Err(error) => {
            problems.add(error.span(), format!("expected the names of fields: {}", entry.shown()), GROUP_HINT);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proc_macro2::Span;

    use super::*;

    #[test]
    fn suggested_kinds_are_in_snake_case() {
        for (ident, kind) in [
            ("SendEmail", "send_email"),
            ("HTTPCheck", "http_check"),
            ("CheckHTTP", "check_http"),
            ("Oauth2Refresh", "oauth2_refresh"),
            ("already_snake", "already_snake"),
            ("A", "a"),
        ] {
            assert_eq!(snake_case(&Ident::new(ident, Span::call_site())), kind);
        }
    }
}
