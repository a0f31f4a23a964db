//! `group`, `limit` and `in_order`: the group of a job.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::quote;
use syn::LitStr;

use crate::attributes::JobAttributes;
use crate::entries::{Entry, Value};
use crate::fields::{Fields, Named, selector};
use crate::problems::{Problems, closest};

/// The longest key of a group in bytes, as in the library.
const MAX_KEY_BYTES: usize = 512;

const HINT: &str = "write `group(field, ...)`, `group = \"key\"`, or `group` alone for all jobs of the kind";

/// How the group's key is made.
pub(crate) enum Group {
    /// By the kind alone.
    Kind,
    Key(LitStr),
    /// By these fields of the type, and by the kind.
    Fields(Vec<syn::Ident>),
}

impl Group {
    pub(crate) fn read(entry: &Entry, problems: &mut Problems) -> Option<Self> {
        match &entry.value {
            Value::Absent => Some(Self::Kind),
            Value::Assigned(_) => {
                let text = entry.text(problems)?;
                let length = text.value().len();
                if !(1..=MAX_KEY_BYTES).contains(&length) {
                    problems.add(
                        text.span(),
                        format!("invalid group: must be 1 to 512 bytes: {length}"),
                        "use a short text, such as \"customer:1\"",
                    );
                    return None;
                }
                Some(Self::Key(text))
            }
            Value::List(tokens) => fields(entry.span, tokens, problems).map(Self::Fields),
        }
    }

    /// The calls that set the group in the options of the kind.
    pub(crate) fn calls(&self, fields: &Fields, library: &TokenStream) -> TokenStream {
        let policy = quote!(#library::UniquePolicy::new());
        match self {
            Self::Kind => quote!(.group_by(#policy)),
            Self::Key(key) => quote!(.group(#key)),
            Self::Fields(idents) => {
                let named: Vec<_> = idents.iter().filter_map(|ident| fields.find(ident)).collect();
                let names = |is_optional| {
                    let chosen = named.iter().filter(move |named| named.may_be_absent == is_optional);
                    chosen.map(|named| selector(&named.name)).collect::<Vec<_>>()
                };
                let (required, optional) = (names(false), names(true));
                let required = (!required.is_empty()).then(|| quote!(.by_arg_fields([#(#required),*])));
                let optional = (!optional.is_empty()).then(|| quote!(.optional_arg_fields([#(#optional),*])));
                quote!(.group_by(#policy #required #optional))
            }
        }
    }
}

/// Reads the names of fields.
fn fields(span: Span, tokens: &TokenStream, problems: &mut Problems) -> Option<Vec<syn::Ident>> {
    let mut idents = Vec::new();
    for (place, token) in tokens.clone().into_iter().enumerate() {
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
        problems.add(span, "empty list: `group()`", HINT);
        return None;
    }
    Some(idents)
}

/// Checks that the options of a group fit each other and the type.
pub(crate) fn check(attributes: &JobAttributes, fields: &Fields, problems: &mut Problems) {
    if !attributes.has_group {
        for (name, span) in
            [("limit", attributes.limit.as_ref().map(|(_, span)| *span)), ("in_order", attributes.in_order)]
        {
            if let Some(span) = span {
                problems.add(span, format!("`{name}` needs a group"), "add `group(field)`, or give it to the insert");
            }
        }
    }
    if let (Some((limit, span)), Some(_)) = (attributes.limit, attributes.in_order)
        && limit > 1
    {
        problems.add(span, format!("`in_order` has limit 1: {limit}"), "remove `limit` or `in_order`");
    }
    check_one_at_a_time(attributes, problems);
    let Some(Group::Fields(idents)) = &attributes.group else { return };
    for ident in idents {
        if fields.find(ident).is_none() {
            let known: Vec<_> = fields.named.iter().map(|Named { ident, .. }| ident.as_str()).collect();
            let hint = match closest(&ident.to_string(), known.iter().copied()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => "name a field that is a member of the args".to_owned(),
            };
            problems.add(ident.span(), format!("unknown field in `group`: `{ident}`"), hint);
        }
    }
}

/// Checks that `one_at_a_time` has a policy, and no option that it sets by itself.
fn check_one_at_a_time(attributes: &JobAttributes, problems: &mut Problems) {
    let Some(span) = attributes.one_at_a_time else { return };
    let Some(unique) = &attributes.unique else {
        let hint = "add `unique(...)`: it says which jobs are the same";
        return problems.add(span, "`one_at_a_time` needs `unique`", hint);
    };
    let window = unique.limits.iter().find(|limit| limit.name == "window").map(|limit| ("window", limit.span));
    let of = |name, setting: Option<Span>| setting.map(|span| (name, span));
    let set = [
        window,
        of("group", attributes.has_group.then_some(span)),
        of("limit", attributes.limit.as_ref().map(|(_, span)| *span)),
        of("in_order", attributes.in_order),
        of("scope", unique.scope.as_ref().map(|setting| setting.span)),
        of("states", unique.states.as_ref().map(|setting| setting.span)),
        of("until", unique.until.as_ref().map(|setting| setting.span)),
        of("on_conflict", unique.on_conflict.as_ref().map(|setting| setting.span)),
        of("update", unique.update.as_ref().map(|setting| setting.span)),
        of("debounce", unique.debounce.as_ref().map(|setting| setting.span)),
        of("on_reentry", unique.on_reentry.as_ref().map(|setting| setting.span)),
    ];
    for (name, span) in set.into_iter().flatten() {
        problems.add(
            span,
            format!("`one_at_a_time` takes no `{name}`"),
            "remove it: the claim lasts while the job is queued, and the group is that of the key",
        );
    }
}
