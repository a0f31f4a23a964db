//! The public API: every item that an application or an operator's program can name, in a golden file for each crate.
//!
//! `unreachable_pub` is denied, so each `pub` item of the sources can be reached from outside. This test lists these
//! items from the sources, since the compiler's own list needs a nightly toolchain.

use std::fs;
use std::path::Path;

use quote::{ToTokens, quote};
use syn::{Attribute, Fields, ImplItem, Item, TraitItem, Visibility};

/// Set to write the golden file anew: `GOLDEN=overwrite cargo test --test project api`.
const OVERWRITE: &str = "GOLDEN";

/// What a crate exports, a line each.
#[derive(Default)]
struct Listing(Vec<String>);

impl Listing {
    fn directory(&mut self, directory: &Path) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                self.directory(&path);
            } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs") {
                let file = syn::parse_file(&fs::read_to_string(&path).unwrap()).unwrap();
                self.items(&file.items, path.ends_with("src/lib.rs"));
            }
        }
    }

    fn items(&mut self, items: &[Item], is_root: bool) {
        for item in items {
            if !is_for_tests(attributes(item)) {
                self.item(item, is_root);
            }
        }
    }

    fn item(&mut self, item: &Item, is_root: bool) {
        match item {
            Item::Use(item) if is_root && is_public(&item.vis) => self.add("", "", &item.tree, "pub use "),
            Item::Mod(item) => {
                if is_root && is_public(&item.vis) {
                    self.add("", "", &item.ident, "pub mod ");
                }
                if let Some((_, items)) = &item.content {
                    self.items(items, false);
                }
            }
            Item::Const(item) if is_public(&item.vis) => self.add("", "", &typed(&item.ident, &item.ty), "const "),
            Item::Static(item) if is_public(&item.vis) => self.add("", "", &typed(&item.ident, &item.ty), "static "),
            Item::Type(item) if is_public(&item.vis) => {
                let (ident, generics, ty) = (&item.ident, &item.generics, &item.ty);
                self.add("", "", &quote!(#ident #generics = #ty), "type ");
            }
            Item::Fn(item) if is_public(&item.vis) => self.add("", hidden(&item.attrs), &item.sig, ""),
            Item::Struct(item) if is_public(&item.vis) => {
                let name = item.ident.to_string();
                self.add(&name, &notes(&item.attrs), &generic(&item.ident, &item.generics), "struct ");
                self.fields(&name, &item.fields, false);
            }
            Item::Enum(item) if is_public(&item.vis) => {
                let name = item.ident.to_string();
                self.add(&name, &notes(&item.attrs), &generic(&item.ident, &item.generics), "enum ");
                for variant in &item.variants {
                    let place = format!("{name}::{}", variant.ident);
                    self.add(&place, &notes(&variant.attrs), &variant.ident, "variant ");
                    self.fields(&place, &variant.fields, true);
                }
            }
            Item::Trait(item) if is_public(&item.vis) => {
                let name = item.ident.to_string();
                let (generics, bounds) = (&item.generics, &item.supertraits);
                let ident = &item.ident;
                self.add(&name, hidden(&item.attrs), &quote!(#ident #generics: #bounds), "trait ");
                for member in &item.items {
                    match member {
                        TraitItem::Fn(member) if member.default.is_some() => {
                            self.add(&name, " (provided)", &member.sig, "")
                        }
                        TraitItem::Fn(member) => self.add(&name, "", &member.sig, ""),
                        member => self.add(&name, "", member, ""),
                    }
                }
            }
            Item::Impl(item) => self.implementation(item),
            Item::Macro(item) => self.macro_rules(item),
            _ => {}
        }
    }

    fn fields(&mut self, place: &str, fields: &Fields, all_are_public: bool) {
        for (number, field) in fields.iter().enumerate() {
            if all_are_public || is_public(&field.vis) {
                let name = field.ident.as_ref().map_or_else(|| number.to_string(), ToString::to_string);
                self.add(place, "", &field.ty, &format!("field {name}: "));
            }
        }
    }

    fn implementation(&mut self, item: &syn::ItemImpl) {
        let type_name = text(&item.self_ty);
        if let Some((path, _)) = &item.trait_ {
            self.0.push(format!("impl{} {} for {type_name}", text(&item.generics), text(path)));
            return;
        }
        for member in &item.items {
            match member {
                ImplItem::Fn(member) if is_public(&member.vis) && !is_for_tests(&member.attrs) => {
                    self.add(&type_name, hidden(&member.attrs), &member.sig, "");
                }
                ImplItem::Const(member) if is_public(&member.vis) => {
                    self.add(&type_name, "", &typed(&member.ident, &member.ty), "const ");
                }
                ImplItem::Macro(member) => self.add(&type_name, "", &member.mac, "made by "),
                _ => {}
            }
        }
    }

    /// An exported macro, the public functions that a macro writes, and where it writes them.
    fn macro_rules(&mut self, item: &syn::ItemMacro) {
        let Some(name) = &item.ident else {
            // These write nothing that is public.
            let is_private = ["members", "statements", "thread_local"].iter().any(|name| item.mac.path.is_ident(name));
            if !is_private {
                self.add("", "", &item.mac, "made by ");
            }
            return;
        };
        if item.attrs.iter().any(|attribute| attribute.path().is_ident("macro_export")) {
            self.add("", hidden(&item.attrs), name, "macro ");
        }
        let body = item.mac.tokens.to_string();
        for function in body.split("pub fn ").skip(1).chain(body.split("pub const fn ").skip(1)) {
            let signature = function.split('{').next().unwrap_or_default();
            self.0.push(format!("{name}!: fn {}", tidy(signature)));
        }
    }

    fn add(&mut self, place: &str, note: &str, tokens: &impl ToTokens, before: &str) {
        let separator = if place.is_empty() { "" } else { ": " };
        self.0.push(format!("{place}{separator}{before}{}{note}", text(tokens)));
    }
}

fn typed(name: &syn::Ident, type_of: &syn::Type) -> impl ToTokens {
    quote!(#name: #type_of)
}

fn generic(name: &syn::Ident, generics: &syn::Generics) -> impl ToTokens {
    quote!(#name #generics)
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg") && ["(test)", "(doctest)"].iter().any(|test| text(attribute).contains(test))
    })
}

fn hidden(attributes: &[Attribute]) -> &'static str {
    let is_hidden = attributes.iter().any(|attribute| text(attribute).contains("doc(hidden)"));
    if is_hidden { " (hidden)" } else { "" }
}

/// Whether it may grow, and what it derives.
fn notes(attributes: &[Attribute]) -> String {
    let mut notes = String::new();
    for attribute in attributes {
        if attribute.path().is_ident("non_exhaustive") {
            notes.push_str(" (non-exhaustive)");
        } else if let Ok(derived) = attribute.meta.require_list().map(|list| list.tokens.to_string())
            && attribute.path().is_ident("derive")
        {
            notes.push_str(&format!(" derive({})", tidy(&derived)));
        }
    }
    notes + hidden(attributes)
}

fn text(tokens: &impl ToTokens) -> String {
    tidy(&tokens.to_token_stream().to_string())
}

/// Without most of the spaces that a token stream has between its tokens.
fn tidy(tokens: &str) -> String {
    let mut tokens = tokens.to_owned();
    while let Some(start) = tokens.find("# [doc = \"") {
        let end = tokens[start..].find("\"]").map_or(tokens.len(), |end| start + end + 2);
        tokens.replace_range(start..end, "");
    }
    let mut text = tokens.split_whitespace().collect::<Vec<_>>().join(" ");
    for (spaced, plain) in [
        (" ,", ","),
        (" :: ", "::"),
        (" <", "<"),
        ("< ", "<"),
        (" >", ">"),
        ("& ", "&"),
        (" (", "("),
        ("( ", "("),
        (" )", ")"),
        (" :", ":"),
        (" ;", ";"),
        ("# [", "#["),
        ("[ ", "["),
        (" ]", "]"),
        ("' ", "'"),
        (" !", "!"),
    ] {
        text = text.replace(spaced, plain);
    }
    text.replace("->", " -> ").replace("  ", " ").replace("&mut(", "&mut (")
}

#[test]
fn the_public_api_is_as_the_golden_file_says() {
    // The words of policies, which the library exports, are items of their own crate.
    compare(&["src", "crates/policy/src"], "api.txt");
}

#[test]
fn the_public_api_of_operators_is_as_the_golden_file_says() {
    compare(&["crates/admin/src"], "api-admin.txt");
}

fn compare(sources: &[&str], golden: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut listing = Listing::default();
    for sources in sources {
        listing.directory(&root.join(sources));
    }
    // Implementations for types of the inside are no part of it.
    let is_named = |name: &str| {
        let name: String =
            name.trim_start_matches('&').chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        ["struct ", "enum ", "trait "].iter().any(|what| {
            let start = format!("{name}: {what}{name}");
            listing.0.iter().any(|line| {
                line.strip_prefix(&start)
                    .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
            })
        })
    };
    let is_reachable = |line: &&String| match line.split_once(" for ") {
        Some((before, name)) if before.starts_with("impl ") => is_named(name),
        _ => true,
    };
    let mut lines: Vec<String> = listing.0.iter().filter(is_reachable).cloned().collect();
    lines.sort();
    lines.dedup();
    let found = lines.join("\n") + "\n";
    let path = root.join("tests/golden").join(golden);
    if std::env::var(OVERWRITE).is_ok_and(|value| value == "overwrite") {
        fs::write(&path, &found).unwrap();
    }
    let golden = fs::read_to_string(&path).unwrap_or_default();
    let gone: Vec<_> = golden.lines().filter(|line| !lines.iter().any(|found| found == line)).collect();
    let new: Vec<_> = lines.iter().filter(|line| !golden.lines().any(|golden| golden == *line)).collect();
    let hint = "hint: GOLDEN=overwrite cargo test --test project api, then review the diff";
    assert!(gone.is_empty() && new.is_empty(), "no longer there: {gone:#?}\nnew: {new:#?}\n{hint}");
}
