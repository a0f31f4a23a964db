//! The names that serde gives to fields, and what else decides their JSON: read from the `#[serde(...)]` attributes.
//!
//! Unique keys are made from the JSON, so a field is selected by its name there. Invalid attributes are
//! ignored, because serde's own derive reports them.

use proc_macro2::Span;
use syn::Attribute;
use syn::ext::IdentExt;

use crate::options::{self, Entry, Value};
use crate::problems::Problems;

/// The parts of the attributes `#[serde(...)]` of a type or a field that affect its JSON.
#[derive(Default)]
pub(crate) struct Serde {
    /// The style of a type, or the name of a field.
    rename: Option<String>,
    /// The attribute with which the JSON of a type has none of its fields' names (`transparent`, `into`), or no member for a
    /// field (`skip`, `skip_serializing`, `flatten`).
    pub(crate) hidden: Option<(String, Span)>,
    /// Whether `tag` of a type adds a member that is not a field.
    pub(crate) is_tagged: bool,
    /// Whether the JSON may lack a field's member: `skip_serializing_if`.
    pub(crate) may_be_absent: bool,
    /// Whether a field's type alone does not say what the JSON is: `with` or `serialize_with`.
    pub(crate) is_made_otherwise: bool,
}

impl Serde {
    pub(crate) fn of_type(attributes: &[Attribute]) -> Self {
        Self::read(attributes, "rename_all", &["transparent", "into"])
    }

    pub(crate) fn of_field(attributes: &[Attribute]) -> Self {
        Self::read(attributes, "rename", &["skip", "skip_serializing", "flatten"])
    }

    fn read(attributes: &[Attribute], rename: &str, hiding: &[&str]) -> Self {
        let mut serde = Self::default();
        // The problems are dropped, because serde reports mistakes in its own attributes.
        for entry in options::of_attributes("serde", attributes, &mut Problems::default()) {
            match entry.name.as_str() {
                name if name == rename => serde.rename = serialized(&entry),
                name if hiding.contains(&name) => serde.hidden = Some((entry.name, entry.span)),
                "tag" => serde.is_tagged = true,
                "skip_serializing_if" => serde.may_be_absent = true,
                "with" | "serialize_with" => serde.is_made_otherwise = true,
                _ => {}
            }
        }
        serde
    }

    /// The name in the JSON of a field of this type.
    pub(crate) fn name_of(&self, ident: &syn::Ident, field: &Self) -> String {
        let name = ident.unraw().to_string();
        match (&field.rename, &self.rename) {
            (Some(name), _) => name.clone(),
            (None, Some(style)) => rename(&name, style),
            (None, None) => name,
        }
    }
}

/// The text of `name = "text"` or of `name(serialize = "text", ...)`.
fn serialized(entry: &Entry) -> Option<String> {
    match &entry.value {
        Value::Text((text, _)) => Some(text.clone()),
        Value::List(_) => options::of_tokens(entry.given.clone(), &mut Problems::default())
            .iter()
            .find(|inner| inner.name == "serialize")
            .and_then(serialized),
        _ => None,
    }
}

/// Renames as serde's `RenameRule::apply_to_field` does, from snake case.
fn rename(field: &str, style: &str) -> String {
    match style {
        "UPPERCASE" | "SCREAMING_SNAKE_CASE" => field.to_ascii_uppercase(),
        "PascalCase" => pascal(field),
        "camelCase" => with_first(&pascal(field), |first| first.to_ascii_lowercase()),
        "kebab-case" => field.replace('_', "-"),
        "SCREAMING-KEBAB-CASE" => field.to_ascii_uppercase().replace('_', "-"),
        // lowercase and snake_case change nothing, and serde reports unknown styles.
        _ => field.to_owned(),
    }
}

fn pascal(field: &str) -> String {
    field.split('_').map(|word| with_first(word, |first| first.to_ascii_uppercase())).collect()
}

/// A word with another first letter.
fn with_first(word: &str, change: fn(char) -> char) -> String {
    let mut letters = word.chars();
    letters.next().map(change).into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_style_of_serde_is_applied() {
        for (style, outcome, very_tasty, a, z42) in [
            ("lowercase", "outcome", "very_tasty", "a", "z42"),
            ("UPPERCASE", "OUTCOME", "VERY_TASTY", "A", "Z42"),
            ("PascalCase", "Outcome", "VeryTasty", "A", "Z42"),
            ("camelCase", "outcome", "veryTasty", "a", "z42"),
            ("snake_case", "outcome", "very_tasty", "a", "z42"),
            ("SCREAMING_SNAKE_CASE", "OUTCOME", "VERY_TASTY", "A", "Z42"),
            ("kebab-case", "outcome", "very-tasty", "a", "z42"),
            ("SCREAMING-KEBAB-CASE", "OUTCOME", "VERY-TASTY", "A", "Z42"),
        ] {
            // The table of serde_derive's own test.
            assert_eq!(rename("outcome", style), outcome);
            assert_eq!(rename("very_tasty", style), very_tasty);
            assert_eq!(rename("a", style), a);
            assert_eq!(rename("z42", style), z42);
        }
    }

    #[test]
    fn odd_underscores_are_renamed_as_serde_does() {
        assert_eq!(rename("_lead__twice_", "camelCase"), "leadTwice");
        assert_eq!(rename("_lead__twice_", "kebab-case"), "-lead--twice-");
    }
}
