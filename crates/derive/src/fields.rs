//! The fields of the type: those marked `#[job(unique)]`, and their names in the JSON.

use proc_macro2::Span;
use syn::{Attribute, Data, DeriveInput, GenericArgument, PathArguments, Type};

use crate::entries::{self, Seen, Value};
use crate::problems::Problems;
use crate::serde_names::{Container, Field};

/// The fields of a type.
#[derive(Default)]
pub(crate) struct Fields {
    /// The fields marked unique.
    pub(crate) unique: Vec<Marked>,
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
    /// Whether the JSON may lack it.
    pub(crate) may_be_absent: bool,
    /// Whether its type becomes an array in the JSON, or null.
    pub(crate) is_list: bool,
}

/// A field marked unique.
pub(crate) struct Marked {
    /// Its name in the JSON.
    pub(crate) name: String,
    /// The place of the mark.
    pub(crate) span: Span,
    /// Whether the JSON may lack it. A `Serialize` written by hand may rename a field; if a required
    /// field were skipped then, all jobs of the kind would share one key.
    pub(crate) may_be_absent: bool,
}

impl Fields {
    /// The member of the JSON that a field is.
    pub(crate) fn find(&self, ident: &syn::Ident) -> Option<&Named> {
        self.named.iter().find(|named| *ident == named.ident)
    }

    pub(crate) fn read(input: &DeriveInput, problems: &mut Problems) -> Self {
        match &input.data {
            Data::Struct(data) => match &data.fields {
                syn::Fields::Named(fields) => named(&input.attrs, &fields.named, problems),
                syn::Fields::Unnamed(fields) => {
                    for field in &fields.unnamed {
                        refuse(
                            &field.attrs,
                            "a field of a tuple struct has no name in the args",
                            "use a struct with named fields, or mark the struct itself for all args",
                            problems,
                        );
                    }
                    Self::default()
                }
                syn::Fields::Unit => Self { members: Some(Vec::new()), ..Self::default() },
            },
            Data::Enum(data) => {
                for variant in &data.variants {
                    let fields = variant.fields.iter().flat_map(|field| &field.attrs);
                    for attribute in variant.attrs.iter().chain(fields) {
                        refuse(
                            std::slice::from_ref(attribute),
                            "variants of an enum share no fields",
                            "mark the enum itself for all args, or make each variant a job of its own kind",
                            problems,
                        );
                    }
                }
                Self::default()
            }
            // The type itself is an error.
            Data::Union(_) => Self::default(),
        }
    }
}

fn named<'a>(
    attributes: &[Attribute],
    fields: impl IntoIterator<Item = &'a syn::Field>,
    problems: &mut Problems,
) -> Fields {
    let container = Container::read(attributes);
    let mut found = Fields::default();
    let mut members = Vec::new();
    let mut members_are_known = container.hides_fields.is_none() && !container.is_tagged;
    for field in fields {
        let Some(ident) = &field.ident else { continue };
        let serde = Field::read(&field.attrs);
        let name = serde.name(ident, &container);
        match serde.hidden {
            None => {
                members.push(name.clone());
                if container.hides_fields.is_none() {
                    let (ident, may_be_absent) = (ident.to_string(), serde.may_be_absent);
                    let is_list = !serde.is_made_otherwise && is_list(&field.ty);
                    found.named.push(Named { ident, name: name.clone(), may_be_absent, is_list });
                }
            }
            Some(("flatten", _)) => members_are_known = false,
            Some(_) => {}
        }
        let Some(mark) = mark(&field.attrs, problems) else {
            continue;
        };
        if let Some((attribute, span)) = serde.hidden {
            problems.add(
                span,
                format!(
                    "field `{ident}` cannot be unique: \
                     `serde({attribute})` leaves no member `{name}` in the args"
                ),
                format!("remove `#[job(unique)]` or `#[serde({attribute})]`"),
            );
        } else if let Some((attribute, span)) = container.hides_fields {
            problems.add(
                span,
                format!(
                    "field `{ident}` cannot be unique: \
                     with `serde({attribute})` the args are those of another type"
                ),
                "mark the struct itself for all args, or name members by `unique(args(\"...\"))`",
            );
        } else {
            found.unique.push(Marked { name, span: mark, may_be_absent: serde.may_be_absent });
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
    let mut seen = Seen::default();
    let mut mark = None;
    for entry in entries::of_attributes("job", attributes, problems) {
        if entry.name != "unique" {
            problems.add(
                entry.span,
                format!("unknown option of a field: `{}`", entry.name),
                "a field takes `unique` alone; all other options go on the type",
            );
        } else if !matches!(entry.value, Value::Absent) {
            problems.add(
                entry.span,
                "`unique` takes no options on a field",
                "mark the field `#[job(unique)]`, and \
                 write the options on the type: `#[job(unique(...))]`",
            );
            // The field counts as marked anyway.
            mark = Some(entry.span);
        } else if seen.is_first(&entry, problems) {
            mark = Some(entry.span);
        }
    }
    mark
}

/// Writes a field's name as a selection of the library. A name that starts with a slash would be read
/// as a JSON Pointer, so it becomes a pointer to the member.
pub(crate) fn selector(name: &str) -> String {
    if name.starts_with('/') { format!("/{}", name.replace('~', "~0").replace('/', "~1")) } else { name.to_owned() }
}

fn refuse(attributes: &[Attribute], reason: &str, hint: &str, problems: &mut Problems) {
    for entry in entries::of_attributes("job", attributes, problems) {
        let message = format!("`{}` cannot stand here: {reason}", entry.name);
        problems.add(entry.span, message, hint);
    }
}
