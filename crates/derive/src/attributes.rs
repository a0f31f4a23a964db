//! `#[job(...)]` on the type.

use syn::{Ident, LitStr, Path};

use crate::entries::{self, Entry, Value};
use crate::group::Group;
use crate::options::{Form, Options};
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
        let entries = entries::of_attributes("job", &input.attrs, problems);
        let is_of_unique = |name: &str| name != "args" && unique::options().iter().any(|(option, _)| *option == name);
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
