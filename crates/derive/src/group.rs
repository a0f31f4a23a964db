//! `group`, `limit` and `in_order`: the group of a job.

use proc_macro2::{TokenStream, TokenTree};
use quote::quote;

use crate::entries::{Entry, Value};
use crate::fields::Fields;
use crate::problems::Problems;
use crate::unique::document_of_fields;

/// The longest key of a group in bytes, as in the library.
const MAX_KEY_BYTES: usize = 512;

const HINT: &str = "write `group(field, ...)`, `group = \"key\"`, or `group` alone for all jobs of the kind";

/// How the group's key is made.
pub(crate) enum Group {
    /// By the kind alone.
    Kind,
    Key(String),
    /// By these fields of the type, and by the kind.
    Fields(Vec<syn::Ident>),
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
            Value::List(_) => fields(entry, problems).map(Self::Fields),
            Value::Number(_) | Value::Assigned => {
                problems.add(entry.place(), format!("`group` takes a string or fields: {}", entry.shown()), HINT);
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
                let document = document_of_fields(idents.iter().filter_map(|ident| fields.find(ident)));
                quote!(.group_by(#library::UniquePolicy::of_kind(#document)))
            }
        }
    }
}

/// Reads the names of fields.
fn fields(entry: &Entry, problems: &mut Problems) -> Option<Vec<syn::Ident>> {
    let mut idents = Vec::new();
    for (place, token) in entry.given.clone().into_iter().enumerate() {
        match token {
            TokenTree::Ident(ident) if place % 2 == 0 => idents.push(ident),
            TokenTree::Punct(punctuation) if place % 2 == 1 && punctuation.as_char() == ',' => {}
            other => {
                problems.add(other.span(), format!("expected the name of a field: `{other}`"), HINT);
                return None;
            }
        }
    }
    if idents.is_empty() {
        problems.add(entry.span, "empty list: `group()`", HINT);
        return None;
    }
    Some(idents)
}
