//! `#[job(...)]` on the type.

use std::time::Duration;

use proc_macro2::Span;
use syn::{Ident, LitStr, Path};

use crate::entries::{self, Entry, Seen};
use crate::group::Group;
use crate::problems::{Problems, closest, listed};
use crate::unique::{self, Unique};

/// The longest kind or queue name in bytes, as in the library's `ident`.
const MAX_NAME_BYTES: usize = 128;

const OPTIONS: [&str; 12] = [
    "kind",
    "queue",
    "priority",
    "max_attempts",
    "expires_in",
    "unique",
    "group",
    "limit",
    "in_order",
    "one_at_a_time",
    "place",
    "crate",
];

/// The valid options of a job type.
#[derive(Default)]
pub(crate) struct JobAttributes {
    pub(crate) kind: Option<LitStr>,
    pub(crate) queue: Option<LitStr>,
    pub(crate) priority: Option<(i16, Span)>,
    pub(crate) max_attempts: Option<(u16, Span)>,
    pub(crate) expires_in: Option<Duration>,
    pub(crate) unique: Option<Unique>,
    pub(crate) group: Option<Group>,
    /// Whether a group is given, valid or not.
    pub(crate) has_group: bool,
    pub(crate) limit: Option<(u16, Span)>,
    /// The place of the option.
    pub(crate) in_order: Option<Span>,
    /// The place of the option.
    pub(crate) one_at_a_time: Option<Span>,
    pub(crate) place: Option<LitStr>,
    pub(crate) library: Option<Path>,
}

impl JobAttributes {
    pub(crate) fn read(input: &syn::DeriveInput, problems: &mut Problems) -> Self {
        let mut options = Self::default();
        let mut seen = Seen::default();
        let mut kind_is_given = false;
        for entry in entries::of_attributes("job", &input.attrs, problems) {
            kind_is_given |= entry.name == "kind";
            if !OPTIONS.contains(&entry.name.as_str()) {
                report_unknown(&entry, problems);
            } else if seen.is_first(&entry, problems) {
                options.set(&entry, problems);
            }
        }
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
        options
    }

    fn set(&mut self, entry: &Entry, problems: &mut Problems) {
        match entry.name.as_str() {
            "kind" => self.kind = name(entry, problems),
            "queue" => self.queue = name(entry, problems),
            "priority" => self.priority = entry.integer(i16::MIN, i16::MAX, problems),
            "max_attempts" => {
                self.max_attempts =
                    entry.integer(1, i16::MAX, problems).map(|(attempts, span)| (attempts.unsigned_abs(), span));
            }
            "expires_in" => self.expires_in = unique::exact_length(entry, problems),
            "group" => {
                self.has_group = true;
                self.group = Group::read(entry, problems);
            }
            "limit" => {
                self.limit = entry.integer(1, i16::MAX, problems).map(|(limit, span)| (limit.unsigned_abs(), span));
            }
            "in_order" => self.in_order = entry.flag(problems).then_some(entry.span),
            "one_at_a_time" => self.one_at_a_time = entry.flag(problems).then_some(entry.span),
            "unique" => self.unique = Some(Unique::read(entry, problems)),
            "place" => self.place = name(entry, problems),
            "crate" => self.library = path(entry, problems),
            _ => {}
        }
    }
}

/// Reads a kind or a queue, by the rules of the library's check at run time.
fn name(entry: &Entry, problems: &mut Problems) -> Option<LitStr> {
    let text = entry.text(problems)?;
    let value = text.value();
    let problem = if value.is_empty() {
        "must not be empty"
    } else if value.len() > MAX_NAME_BYTES {
        "must not be longer than 128 bytes"
    } else if value.chars().any(char::is_control) {
        "must not hold control characters"
    } else {
        return Some(text);
    };
    problems.add(
        text.span(),
        format!("invalid {}: {problem}: {value:?}", entry.name),
        "use 1 to 128 bytes of text, such as \"email.send\"",
    );
    None
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
    let hint = if entry.name != "args" && unique::OPTIONS.contains(&entry.name.as_str()) {
        format!("`{}` goes inside `unique(...)`", entry.name)
    } else if let Some(meant) = closest(&entry.name, OPTIONS) {
        format!("did you mean `{meant}`? The options are {}", listed(OPTIONS, "and"))
    } else {
        format!("the options are {}", listed(OPTIONS, "and"))
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
