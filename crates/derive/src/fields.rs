//! The fields of the type: those marked `#[job(unique)]`, and their names in the JSON.

use proc_macro2::Span;
use syn::{Attribute, Data, DeriveInput, GenericArgument, PathArguments, Type};

use crate::options::{self, Form, Options, Value};
use crate::problems::Problems;
use crate::serde_names::Serde;

/// The fields of a type.
#[derive(Default)]
pub(crate) struct Fields {
    /// The fields that are members of the JSON.
    pub(crate) named: Vec<Named>,
    /// Every member that the JSON can have. `None` if the type does not determine them.
    pub(crate) members: Option<Vec<String>>,
}

/// A field that is a member of the JSON.
pub(crate) struct Named {
    pub(crate) ident: String,
    /// Its name in the JSON.
    pub(crate) name: String,
    /// The name as a selection of the library.
    pub(crate) selector: String,
    /// Whether the JSON may lack it. A `Serialize` written by hand may rename a field; if a required
    /// field were skipped then, all jobs of the kind would share one key.
    pub(crate) may_be_absent: bool,
    /// Whether its type becomes an array in the JSON, or null.
    pub(crate) is_list: bool,
    /// The place of the mark where it is marked unique.
    pub(crate) mark: Option<Span>,
}

impl Fields {
    /// The member of the JSON that a field is.
    pub(crate) fn find(&self, ident: &syn::Ident) -> Option<&Named> {
        self.named.iter().find(|named| *ident == named.ident)
    }

    /// The fields marked unique.
    pub(crate) fn marked(&self) -> impl Iterator<Item = &Named> {
        self.named.iter().filter(|named| named.mark.is_some())
    }

    pub(crate) fn read(input: &DeriveInput, problems: &mut Problems) -> Self {
        match &input.data {
            Data::Struct(data) => match &data.fields {
                syn::Fields::Named(fields) => return named(&input.attrs, &fields.named, problems),
                syn::Fields::Unit => return Self { members: Some(Vec::new()), ..Self::default() },
                syn::Fields::Unnamed(fields) => refuse(
                    fields.unnamed.iter().flat_map(|field| &field.attrs),
                    "a field of a tuple struct has no name in the args",
                    "use a struct with named fields, or mark the struct itself for all args",
                    problems,
                ),
            },
            Data::Enum(data) => refuse(
                data.variants.iter().flat_map(|variant| {
                    variant.attrs.iter().chain(variant.fields.iter().flat_map(|field| &field.attrs))
                }),
                "variants of an enum share no fields",
                "mark the enum itself for all args, or make each variant a job of its own kind",
                problems,
            ),
            // The type itself is an error.
            Data::Union(_) => {}
        }
        Self::default()
    }
}

fn named<'a>(
    attributes: &[Attribute],
    fields: impl IntoIterator<Item = &'a syn::Field>,
    problems: &mut Problems,
) -> Fields {
    let container = Serde::of_type(attributes);
    let mut found = Fields::default();
    let mut members = Vec::new();
    let mut members_are_known = container.hidden.is_none() && !container.is_tagged;
    for field in fields {
        let Some(ident) = &field.ident else { continue };
        let serde = Serde::of_field(&field.attrs);
        let name = container.name_of(ident, &serde);
        let mark = mark(&field.attrs, problems);
        members_are_known &= serde.hidden.as_ref().is_none_or(|(attribute, _)| attribute != "flatten");
        match (&serde.hidden, &container.hidden) {
            (Some((attribute, span)), _) if mark.is_some() => problems.add(
                *span,
                format!("field `{ident}` cannot be unique: `serde({attribute})` leaves no member `{name}` in the args"),
                format!("remove `#[job(unique)]` or `#[serde({attribute})]`"),
            ),
            (None, Some((attribute, span))) if mark.is_some() => problems.add(
                *span,
                format!(
                    "field `{ident}` cannot be unique: with `serde({attribute})` the args are those of another type"
                ),
                "mark the struct itself for all args, or name members by `unique(args(\"...\"))`",
            ),
            (Some(_), _) | (_, Some(_)) => {}
            (None, None) => {
                members.push(name.clone());
                found.named.push(Named {
                    ident: ident.to_string(),
                    selector: selector(&name),
                    name,
                    may_be_absent: serde.may_be_absent,
                    is_list: !serde.is_made_otherwise && is_list(&field.ty),
                    mark,
                });
            }
        }
    }
    found.members = members_are_known.then_some(members);
    found
}

/// Whether serde makes a JSON array of a type of the standard library, as its name says.
fn is_list(kind: &Type) -> bool {
    const LISTS: [&str; 6] = ["Vec", "VecDeque", "LinkedList", "HashSet", "BTreeSet", "BinaryHeap"];
    const WRAPPERS: [&str; 5] = ["Option", "Box", "Rc", "Arc", "Cow"];

    match kind {
        Type::Array(_) | Type::Slice(_) => true,
        Type::Tuple(tuple) => tuple.elems.len() > 1,
        Type::Paren(inner) => is_list(&inner.elem),
        Type::Path(path) => path.path.segments.last().is_some_and(|last| {
            if LISTS.iter().any(|list| last.ident == list) {
                return true;
            }
            let PathArguments::AngleBracketed(given) = &last.arguments else { return false };
            let is_wrapper = WRAPPERS.iter().any(|wrapper| last.ident == wrapper);
            is_wrapper && given.args.iter().any(|given| matches!(given, GenericArgument::Type(inner) if is_list(inner)))
        }),
        _ => false,
    }
}

/// The place of `#[job(unique)]` on a field.
fn mark(attributes: &[Attribute], problems: &mut Problems) -> Option<Span> {
    let entries = options::of_attributes("job", attributes, problems);
    let hint = |_: &str| Some("a field takes `unique` alone; all other options go on the type".to_owned());
    let options = Options::read(entries, (" of a field", &[("unique", Form::Own)]), hint, problems);
    let mark = options.find("unique")?;
    if !matches!(mark.value, Value::Absent) {
        problems.add(
            mark.span,
            format!("`unique` takes no options on a field: {}", mark.shown()),
            "mark the field `#[job(unique)]`, and write the options on the type: `#[job(unique(...))]`",
        );
    }
    // With options the field counts as marked, too.
    Some(mark.span)
}

/// Writes a field's name as a selection of the library. A name that starts with a slash would be read
/// as a JSON Pointer, so it becomes a pointer to the member.
fn selector(name: &str) -> String {
    if name.starts_with('/') { format!("/{}", name.replace('~', "~0").replace('/', "~1")) } else { name.to_owned() }
}

fn refuse<'a>(attributes: impl Iterator<Item = &'a Attribute>, reason: &str, hint: &str, problems: &mut Problems) {
    for attribute in attributes {
        for entry in options::of_attributes("job", std::slice::from_ref(attribute), problems) {
            problems.add(entry.span, format!("`{}` cannot stand here: {reason}", entry.name), hint);
        }
    }
}
