//! Compares the errors and warnings of `#[derive(Job)]` with those in `ui`. Types without a mistake are in
//! `tests/unique/derive`.
//!
//! The macro is expanded in this process, and its messages are drawn as rustc draws them. With rustc itself the test took
//! minutes, because all dependencies of the library are checked anew for it. The documentation's `compile_fail` examples
//! show that rustc reports an error and a warning.

#![allow(missing_docs, clippy::unwrap_used)]

#[path = "../src/attributes.rs"]
mod attributes;
#[path = "../src/consistency.rs"]
mod consistency;
#[path = "../src/expand.rs"]
mod expand;
#[path = "../src/fields.rs"]
mod fields;
#[path = "../src/options.rs"]
mod options;
#[path = "../src/problems.rs"]
mod problems;
#[path = "../src/serde_names.rs"]
mod serde_names;
#[path = "../src/unique.rs"]
mod unique;

use std::fmt::Write as _;
use std::path::Path;

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::{DeriveInput, LitStr};

/// A message, and the place to which it points.
struct Message {
    level: &'static str,
    text: String,
    span: Span,
}

#[test]
fn messages_point_at_the_culprit_and_name_the_remedy() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("ui");
    let mut sources: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    sources.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    sources.sort();
    assert!(sources.len() > 9, "{sources:?}");
    for path in sources {
        let source = std::fs::read_to_string(&path).unwrap();
        let name = format!("tests/ui/{}", path.file_name().unwrap().display());
        let drawn: Vec<_> = messages_of(&source).iter().map(|message| draw(message, &name, &source)).collect();
        let drawn = drawn.join("\n");
        let golden = path.with_extension("stderr");
        if std::env::var_os("GOLDEN").is_some_and(|value| value == "overwrite") {
            std::fs::write(&golden, &drawn).unwrap();
        }
        let expected = std::fs::read_to_string(&golden).unwrap();
        assert!(drawn == expected, "{name}: GOLDEN=overwrite writes the messages anew. They are:\n{drawn}");
    }
}

#[test]
fn a_type_with_a_mistake_still_is_a_job() {
    for (is_job, input) in
        [(true, "struct A;"), (true, r#"#[job(knid = "a")] struct A;"#), (false, r#"#[job(kind = "a")] struct A<T>;"#)]
    {
        let expanded = expand::job(&syn::parse_str(input).unwrap()).to_string();
        assert!(expanded.contains("compile_error"), "{expanded}");
        assert_eq!(expanded.contains(":: Job for A {"), is_job, "{expanded}");
    }
}

/// Expands every type of a source, as `derive(Job)` before it does. Returns the messages in the order of the types.
fn messages_of(source: &str) -> Vec<Message> {
    let mut messages = Vec::new();
    for item in syn::parse_file(source).unwrap().items {
        let input: DeriveInput = syn::parse2(item.into_token_stream()).unwrap();
        collect(expand::job(&input), &mut messages);
    }
    messages
}

/// Finds `compile_error! { "…" }`, and constants that are deprecated with a note.
fn collect(tokens: TokenStream, messages: &mut Vec<Message>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut note = None;
    for (at, token) in tokens.iter().enumerate() {
        match (at.checked_sub(2).map(|before| &tokens[before]), token) {
            (Some(TokenTree::Ident(name)), TokenTree::Group(group)) if name == "compile_error" => {
                let text: LitStr = syn::parse2(group.stream()).unwrap();
                messages.push(Message { level: "error", text: text.value(), span: text.span() });
            }
            (_, TokenTree::Group(group)) if group.delimiter() == Delimiter::Bracket => {
                note = note_of(group.stream()).or(note);
            }
            (_, TokenTree::Ident(name)) if name == "UNIQUE_POLICY" && at + 1 == tokens.len() => {
                messages.extend(note.take().map(|text| Message { level: "warning", text, span: name.span() }));
            }
            (_, TokenTree::Group(group)) => collect(group.stream(), messages),
            _ => {}
        }
    }
}

/// The text of `deprecated(note = "…")`.
fn note_of(attribute: TokenStream) -> Option<String> {
    let deprecated: syn::MetaList = syn::parse2(attribute).ok()?;
    let note: syn::MetaNameValue = syn::parse2(deprecated.tokens).ok()?;
    let value = note.value;
    deprecated.path.is_ident("deprecated").then(|| syn::parse2::<LitStr>(quote!(#value)).unwrap().value())
}

fn draw(Message { level, text, span }: &Message, name: &str, source: &str) -> String {
    let (start, end) = (span.start(), span.end());
    let line = source.lines().nth(start.line - 1).unwrap();
    let (given, indent) = (start.line.to_string(), " ".repeat(start.line.to_string().len()));
    let marked = if end.line == start.line { end.column } else { line.chars().count() } - start.column;
    let text = text.replace('\n', &format!("\n{}", " ".repeat(level.len() + 2)));
    let mut drawn = format!("{level}: {text}\n");
    writeln!(drawn, "{indent}--> {name}:{given}:{}", start.column + 1).unwrap();
    writeln!(drawn, "{indent} |\n{given} | {line}").unwrap();
    writeln!(drawn, "{indent} | {}{}", " ".repeat(start.column), "^".repeat(marked)).unwrap();
    drawn
}
