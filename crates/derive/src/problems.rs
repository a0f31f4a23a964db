//! All errors of one compilation.

use std::fmt::Display;

use proc_macro2::{Span, TokenStream};

/// Errors with their places in the source, in the order in which they were found.
#[derive(Default)]
pub(crate) struct Problems(Vec<syn::Error>);

impl Problems {
    /// Adds an error at a place, with a hint.
    pub(crate) fn add(&mut self, span: Span, message: impl Display, hint: impl Display) {
        let text = format!("{message}\nhint: {hint}");
        self.0.push(syn::Error::new(span, text));
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns a `compile_error!` for each error.
    pub(crate) fn to_compile_errors(&self) -> TokenStream {
        self.0.iter().map(syn::Error::to_compile_error).collect()
    }
}

/// Lists names in backquotes, such as `a`, `b` or `c`.
pub(crate) fn listed<'a>(names: impl IntoIterator<Item = &'a str>, last: &str) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    match names.split_last() {
        None => String::new(),
        Some((only, [])) => only.clone(),
        Some((end, rest)) => format!("{} {last} {end}", rest.join(", ")),
    }
}

/// The hint for a name that is not among `names`: the one that may be meant, and all of them.
pub(crate) fn suggestion<'a>(given: &str, names: impl IntoIterator<Item = &'a str, IntoIter: Clone>) -> String {
    let names = names.into_iter();
    let meant = closest(given, names.clone()).map(|meant| format!("did you mean `{meant}`? ")).unwrap_or_default();
    let names = listed(names, "and");
    if names.is_empty() { "there are none".to_owned() } else { format!("{meant}valid: {names}") }
}

/// Returns the name closest to a misspelt one, if it is similar enough.
fn closest<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let given = given.to_lowercase().replace('-', "_");
    names
        .into_iter()
        .map(|name| (distance(&given, name), name))
        .filter(|(distance, name)| *distance <= name.len().div_ceil(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Returns the Levenshtein distance in characters.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (j, to) in b.iter().enumerate() {
            let above = row[j + 1];
            let best = (diagonal + usize::from(from != *to)).min(above + 1).min(left + 1);
            row[j] = left;
            left = best;
            diagonal = above;
        }
        row[b.len()] = left;
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_edits() {
        for (a, b, edits) in [("", "", 0), ("", "abc", 3), ("kitten", "sitting", 3), ("ab", "ba", 2)] {
            assert_eq!(distance(a, b), edits, "{a} {b}");
            assert_eq!(distance(b, a), edits, "{b} {a}");
        }
    }

    #[test]
    fn closest_finds_similar_names_only() {
        let names = ["kind", "queue", "priority", "max_attempts"];
        assert_eq!(closest("knid", names), Some("kind"));
        assert_eq!(closest("max-attempts", names), Some("max_attempts"));
        assert_eq!(closest("timeout", names), None);
    }

    #[test]
    fn lists_read_as_sentences() {
        assert_eq!(listed(["a"], "or"), "`a`");
        assert_eq!(listed(["a", "b", "c"], "or"), "`a`, `b` or `c`");
    }
}
