//! The generated `impl Job`.

use std::fmt::Debug;

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Data, DeriveInput, GenericParam, Ident};
use uniqueue_policy::{Length, Preset, UpdateArgs};

use crate::attributes::JobAttributes;
use crate::consistency::{self, Warning};
use crate::entries::Setting;
use crate::fields::{Fields, selector};
use crate::group_check;
use crate::place_check;
use crate::problems::Problems;
use crate::unique::{Args, Unique};

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
    if let Some(unique) = &attributes.unique {
        consistency::check(unique, &fields, &mut problems);
    }
    group_check::check(&attributes, &fields, &mut problems);
    place_check::check(&attributes, &fields, &mut problems);
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
    let kind = match &attributes.kind {
        Some(kind) => quote!(#kind),
        None => quote!(""),
    };
    let options = options(attributes, fields, &library);
    let warning = attributes.unique.as_ref().and_then(consistency::warning);
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
    if let Some(queue) = &attributes.queue {
        calls.extend(quote!(.queue_of_kind(#queue)));
    }
    if let Some((priority, _)) = attributes.priority {
        calls.extend(quote!(.priority(#priority)));
    }
    if let Some((max_attempts, _)) = attributes.max_attempts {
        calls.extend(quote!(.max_attempts(#max_attempts)));
    }
    if let Some(expires_in) = attributes.expires_in {
        let expires_in = length(expires_in.into(), library);
        calls.extend(quote!(.expires_in(#expires_in)));
    }
    if let Some(unique) = &attributes.unique {
        let policy = policy(unique, fields, library);
        calls.extend(match attributes.one_at_a_time {
            Some(_) => quote!(.one_at_a_time(#policy)),
            None => quote!(.unique(#policy)),
        });
    }
    if let Some(group) = &attributes.group {
        calls.extend(group.calls(fields, library));
    }
    if let Some((limit, _)) = attributes.limit {
        calls.extend(quote!(.group_limit(#limit)));
    }
    if attributes.in_order.is_some() {
        calls.extend(quote!(.in_order()));
    }
    if let Some(place) = &attributes.place {
        let way = match place.value().as_str() {
            "unique_key" => quote!(UniqueKey),
            "group" => quote!(Group),
            "id" => quote!(Id),
            _ => quote!(arg(#place)),
        };
        calls.extend(quote!(.place(#library::PlaceBy::#way)));
    }
    // Without options the trait's default applies.
    (!calls.is_empty()).then(|| {
        quote! {
            fn options() -> #library::InsertOptions {
                #library::InsertOptions::new() #calls
            }
        }
    })
}

fn policy(unique: &Unique, fields: &Fields, library: &TokenStream) -> TokenStream {
    let mut limits = unique.limits.iter();
    let mut policy = match value(&unique.like) {
        None => quote!(#library::UniquePolicy::new()),
        Some(Preset::River) => quote!(#library::UniquePolicy::river()),
        Some(Preset::Ojs) => quote!(#library::UniquePolicy::ojs()),
        Some(Preset::Zizq) => quote!(#library::UniquePolicy::zizq()),
        Some(Preset::Faktory) => {
            let ttl = limits.next().and_then(|limit| limit.length).map(|length| self::length(length, library));
            quote!(#library::UniquePolicy::faktory(#ttl))
        }
    };
    match value(&unique.args) {
        Some(Args::All) => policy.extend(quote!(.by_args())),
        Some(Args::Selected(names)) => policy.extend(quote!(.by_arg_fields([#(#names),*]))),
        None => policy.extend(marked_fields(fields)),
    }
    if let Some(names) = value(&unique.meta) {
        policy.extend(quote!(.by_meta([#(#names),*])));
    }
    if unique.queue.is_some() {
        policy.extend(quote!(.by_queue()));
    }
    if unique.exclude_kind.is_some() {
        policy.extend(quote!(.exclude_kind()));
    }
    if let Some(states) = value(&unique.states) {
        let states = states.iter().map(|state| variant(&state));
        policy.extend(quote!(.states([#(#library::JobState::#states),*])));
    }
    for limit in limits {
        let method = Ident::new(&limit.name, Span::call_site());
        let length = limit.length.map(|length| self::length(length, library));
        policy.extend(quote!(.#method(#length)));
    }
    policy.extend(call("scope", "UniqueScope", &unique.scope, library));
    policy.extend(call("until", "Until", &unique.until, library));
    policy.extend(call("on_conflict", "OnConflict", &unique.on_conflict, library));
    policy.extend(update(unique, library));
    policy.extend(call("on_reentry", "OnReentry", &unique.on_reentry, library));
    policy
}

/// Writes `.update(...)` where an option asks for one.
fn update(unique: &Unique, library: &TokenStream) -> Option<TokenStream> {
    if unique.update.is_none() && unique.max_delay.is_none() {
        return None;
    }
    let args = variant(value(&unique.update).unwrap_or(&UpdateArgs::Latest));
    let mut update = quote!(#library::Update::of(#library::UpdateArgs::#args));
    let [delay, max_delay] =
        [&unique.debounce, &unique.max_delay].map(|it| value(it).map(|it| length((*it).into(), library)));
    update.extend(match (delay, max_delay) {
        (Some(delay), Some(max_delay)) => quote!(.debounce(#delay, #max_delay)),
        (_, max_delay) => max_delay.map(|max_delay| quote!(.push(#max_delay))).unwrap_or_default(),
    });
    if let Some(max_items) = value(&unique.max_items) {
        update.extend(quote!(.max_items(#max_items)));
    }
    Some(quote!(.update(#update)))
}

/// Selects the marked fields. Only those that may be absent from the JSON are optional.
fn marked_fields(fields: &Fields) -> TokenStream {
    let (optional, required): (Vec<_>, Vec<_>) = fields.unique.iter().partition(|marked| marked.may_be_absent);
    let mut calls = TokenStream::new();
    for (method, marked) in [("by_arg_fields", required), ("optional_arg_fields", optional)] {
        if !marked.is_empty() {
            let method = Ident::new(method, Span::call_site());
            let names = marked.iter().map(|marked| selector(&marked.name));
            calls.extend(quote!(.#method([#(#names),*])));
        }
    }
    calls
}

/// Writes `.method(::uniqueue::Type::Variant)` for an option that is set.
fn call<T: Debug>(
    method: &str,
    enumeration: &str,
    setting: &Option<Setting<T>>,
    library: &TokenStream,
) -> Option<TokenStream> {
    let variant = variant(value(setting)?);
    let method = Ident::new(method, Span::call_site());
    let enumeration = Ident::new(enumeration, Span::call_site());
    Some(quote!(.#method(#library::#enumeration::#variant)))
}

/// The library's variant with the same name.
fn variant(value: &impl Debug) -> Ident {
    Ident::new(&format!("{value:?}"), Span::call_site())
}

fn length(length: Length, library: &TokenStream) -> TokenStream {
    let (months, time) = length.parts();
    let (seconds, nanoseconds) = (time.as_secs(), time.subsec_nanos());
    let time = quote!(::core::time::Duration::new(#seconds, #nanoseconds));
    if months == 0 { time } else { quote!(#library::period::Length::months(#months).plus(#time)) }
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

fn value<T>(setting: &Option<Setting<T>>) -> Option<&T> {
    setting.as_ref().and_then(|setting| setting.value.as_ref())
}
