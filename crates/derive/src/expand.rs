//! The generated `impl Job`.

use proc_macro2::{Literal, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, GenericParam, Ident};

use crate::attributes::JobAttributes;
use crate::consistency;
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
    if let Some(mark) = fields.marked().find_map(|marked| marked.mark) {
        attributes.unique.get_or_insert_with(|| Unique::empty(mark));
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
        let hint = match parameter {
            GenericParam::Lifetime(_) => {
                "own the data, as in `String` for `&str`: a worker reads the args back from the database"
            }
            GenericParam::Type(_) => "make a type for each job: one kind names one type of args",
            GenericParam::Const(_) => "make it a field: one kind names one type of args",
        };
        problems.add(parameter.span(), format!("a job cannot be generic: `{}`", quote!(#parameter)), hint);
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
    let warning = warning.map(|(span, note)| deprecation(span, &note));
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
    if let Some(queue) = set.text("queue") {
        calls.extend(quote!(.queue_of_kind(#queue)));
    }
    for (option, method) in [("priority", "priority"), ("max_attempts", "max_attempts"), ("limit", "group_limit")] {
        if let Some(number) = set.number(option) {
            let (method, number) = (format_ident!("{method}"), Literal::i64_unsuffixed(number));
            calls.extend(quote!(.#method(#number)));
        }
    }
    if let Some(expires_in) = set.text("expires_in").and_then(|text| uniqueue_policy::exact(text).ok()) {
        let (seconds, nanoseconds) = (expires_in.as_secs(), expires_in.subsec_nanos());
        calls.extend(quote!(.expires_in(::core::time::Duration::new(#seconds, #nanoseconds))));
    }
    if let Some(unique) = &attributes.unique {
        let policy = unique.expression(fields, library);
        calls.extend(match set.has(&["one_at_a_time"]) {
            true => quote!(.one_at_a_time(#policy)),
            false => quote!(.unique(#policy)),
        });
    }
    if let Some(group) = &attributes.group {
        calls.extend(group.calls(fields, library));
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
fn deprecation(span: Span, note: &str) -> TokenStream {
    let used = quote_spanned!(span=> UNIQUE_POLICY);
    quote! {
        const _: () = {
            #[deprecated(note = #note)]
            const UNIQUE_POLICY: () = ();
            #used
        };
    }
}
