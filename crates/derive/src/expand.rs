//! The generated `impl Job`.

use proc_macro2::{Literal, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Data, DeriveInput, GenericParam, Ident};

use crate::attributes::JobAttributes;
use crate::consistency::{self, Warning};
use crate::fields::Fields;
use crate::problems::Problems;
use crate::unique::Unique;

/// Returns the implementation, or all errors.
pub(crate) fn job(input: &DeriveInput) -> TokenStream {
    let mut problems = Problems::default();
    check_shape(input, &mut problems);
    let has_a_job_shape = problems.count() == 0;
    let mut attributes = JobAttributes::read(input, &mut problems);
    let fields = Fields::read(input, &mut problems);
    if let Some(marked) = fields.unique.first() {
        attributes.unique.get_or_insert_with(|| Unique::empty(marked.span));
    }
    consistency::check(&attributes, &fields, &mut problems);
    if problems.count() == 0 {
        return implementation(&input.ident, &attributes, &fields);
    }
    let errors = problems.to_compile_errors();
    // An empty implementation spares the code that uses the type from further errors.
    let stand_in = has_a_job_shape.then(|| {
        let attributes = JobAttributes { library: attributes.library, ..JobAttributes::default() };
        implementation(&input.ident, &attributes, &Fields::default())
    });
    quote!(#errors #stand_in)
}

fn check_shape(input: &DeriveInput, problems: &mut Problems) {
    if let Data::Union(data) = &input.data {
        problems.add(
            data.union_token.span,
            format!("a union cannot be a job: `{}`", input.ident),
            "use a struct: the args are serialized with serde",
        );
    }
    for parameter in &input.generics.params {
        let (span, what, hint) = match parameter {
            GenericParam::Lifetime(given) => (
                given.lifetime.span(),
                format!("lifetime `{}`", given.lifetime),
                "own the data, as in `String` for `&str`: a worker reads the args back from the database",
            ),
            GenericParam::Type(given) => (
                given.ident.span(),
                format!("type parameter `{}`", given.ident),
                "make a type for each job: one kind names one type of args",
            ),
            GenericParam::Const(given) => (
                given.ident.span(),
                format!("const parameter `{}`", given.ident),
                "make it a field: one kind names one type of args",
            ),
        };
        problems.add(span, format!("a job cannot be generic: {what}"), hint);
    }
}

fn implementation(ident: &Ident, attributes: &JobAttributes, fields: &Fields) -> TokenStream {
    let library = match &attributes.library {
        Some(path) => quote!(#path),
        None => quote!(::uniqueue),
    };
    let kind = attributes.options.text("kind").unwrap_or_default();
    let options = options(attributes, fields, &library);
    let warning = attributes.unique.as_ref().and_then(|unique| consistency::warning(unique, fields));
    let warning = warning.as_ref().map(deprecation);
    quote! {
        #[automatically_derived]
        impl #library::Job for #ident {
            const KIND: &'static str = #kind;
            #options
        }
        #warning
    }
}

fn options(attributes: &JobAttributes, fields: &Fields, library: &TokenStream) -> Option<TokenStream> {
    let mut calls = TokenStream::new();
    let set = &attributes.options;
    let number = |name| set.number(name).map(|(number, _)| Literal::i64_unsuffixed(number));
    if let Some(queue) = set.text("queue") {
        calls.extend(quote!(.queue_of_kind(#queue)));
    }
    if let Some(priority) = number("priority") {
        calls.extend(quote!(.priority(#priority)));
    }
    if let Some(max_attempts) = number("max_attempts") {
        calls.extend(quote!(.max_attempts(#max_attempts)));
    }
    if let Some(expires_in) = set.text("expires_in").and_then(|text| uniqueue_policy::exact(text).ok()) {
        let (seconds, nanoseconds) = (expires_in.as_secs(), expires_in.subsec_nanos());
        calls.extend(quote!(.expires_in(::core::time::Duration::new(#seconds, #nanoseconds))));
    }
    if let Some(unique) = &attributes.unique {
        let document = unique.json(fields);
        let policy = quote!(#library::UniquePolicy::of_kind(#document));
        calls.extend(match set.has(&["one_at_a_time"]) {
            true => quote!(.one_at_a_time(#policy)),
            false => quote!(.unique(#policy)),
        });
    }
    if let Some(group) = &attributes.group {
        calls.extend(group.calls(fields, library));
    }
    if let Some(limit) = number("limit") {
        calls.extend(quote!(.group_limit(#limit)));
    }
    if set.has(&["in_order"]) {
        calls.extend(quote!(.in_order()));
    }
    if let Some(place) = set.text("place") {
        let way = match place {
            "unique_key" => quote!(UniqueKey),
            "group" => quote!(Group),
            "id" => quote!(Id),
            _ => quote!(arg(#place)),
        };
        calls.extend(quote!(.place(#library::PlaceBy::#way)));
    }
    // Without options the trait's default applies. With options they are made once, and a clone shares the policy's parts.
    (!calls.is_empty()).then(|| {
        quote! {
            fn options() -> #library::InsertOptions {
                static OPTIONS: ::std::sync::LazyLock<#library::InsertOptions> =
                    ::std::sync::LazyLock::new(|| #library::InsertOptions::new() #calls);
                ::std::clone::Clone::clone(&*OPTIONS)
            }
        }
    })
}

/// Writes a warning as the use of a deprecated constant, since stable Rust has no other way.
fn deprecation(warning: &Warning) -> TokenStream {
    let note = &warning.note;
    let used = quote_spanned!(warning.span=> UNIQUE_POLICY);
    quote! {
        const _: () = {
            #[deprecated(note = #note)]
            const UNIQUE_POLICY: () = ();
            #used
        };
    }
}
