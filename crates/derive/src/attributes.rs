//! `#[job(...)]` on the type.

use proc_macro2::Span;
use syn::{Ident, Path};

use crate::entries::{self, Entry};
use crate::group::Group;
use crate::options::{Form, Options, known};
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
    ("crate", Form::Own),
];

/// The options of a job type.
#[derive(Default)]
pub(crate) struct JobAttributes {
    pub(crate) options: Options,
    pub(crate) unique: Option<Unique>,
    pub(crate) group: Option<Group>,
    /// Where a group is given, valid or not.
    pub(crate) group_span: Option<Span>,
    pub(crate) library: Option<Path>,
}

impl JobAttributes {
    pub(crate) fn read(input: &syn::DeriveInput, problems: &mut Problems) -> Self {
        let entries = entries::of_attributes("job", &input.attrs, problems);
        let kind_is_given = entries.iter().any(|entry| entry.name == "kind");
        let mut attributes = Self::default();
        let own = |entry: &Entry, problems: &mut Problems| match entry.name.as_str() {
            "unique" => attributes.unique = Some(Unique::read(entry, problems)),
            "group" => {
                attributes.group_span = Some(entry.span);
                attributes.group = Group::read(entry, problems);
            }
            _ => attributes.library = path(entry, problems),
        };
        let options = Options::read(entries, &OPTIONS, report_unknown, problems, own);
        attributes.options = options;
        if !kind_is_given {
            let kind = snake_case(&input.ident);
            problems.add(
                input.ident.span(),
                format!("missing `kind`: `{}`", input.ident),
                format!(
                    "add `#[job(kind = \"{kind}\")]`, \
                     and never change it while such jobs are stored"
                ),
            );
        }
        attributes
    }
}

fn path(entry: &Entry, problems: &mut Problems) -> Option<Path> {
    let text = entry.text(problems)?;
    let path = text.parse_with(Path::parse_mod_style);
    if path.is_err() {
        problems.add(
            text.span(),
            format!("invalid path: {:?}", text.value()),
            "write the path of the uniqueue crate, such as `crate = \"::uniqueue\"`",
        );
    }
    path.ok()
}

fn report_unknown(entry: &Entry, problems: &mut Problems) {
    let is_of_unique = entry.name != "args" && unique::OPTIONS.iter().any(|(name, _)| *name == entry.name);
    let hint = match is_of_unique {
        true => format!("`{}` goes inside `unique(...)`", entry.name),
        false => known(&entry.name, &OPTIONS),
    };
    problems.add(entry.span, format!("unknown option: `{}`", entry.name), hint);
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
