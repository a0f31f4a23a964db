// The examples need the library, which runs them in its own tests.
#![cfg_attr(not(doctest), doc = include_str!("../README.md"))]

mod attributes;
mod consistency;
mod expand;
mod fields;
mod options;
mod problems;
mod serde_names;
mod unique;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

#[cfg_attr(not(doctest), doc = include_str!("job.md"))]
#[proc_macro_derive(Job, attributes(job))]
pub fn derive_job(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand::job(&input).into()
}
