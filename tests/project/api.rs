//! The public API: every item that an application or an operator's program can name, in a golden file for each crate.
//!
//! `unreachable_pub` is denied, so each `pub` item of the sources can be reached from outside. This test lists these
//! items from the sources, since the compiler's own list needs a nightly toolchain.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use quote::{ToTokens, quote};
use syn::{Attribute, Fields, ImplItem, Item, TraitItem, Visibility};

/// Set to write the golden file anew: `GOLDEN=overwrite cargo test --test project api`.
const OVERWRITE: &str = "GOLDEN";

/// The crate of the words of policies. Its items are part of the library as far as the library exports or answers them.
const POLICY: &str = "uniqueue_policy";

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
            Item::Use(item) if is_public(&item.vis) && (is_root || text(&item.tree).starts_with(POLICY)) => {
                self.add("", "", &item.tree, "pub use ");
            }
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

    /// Leaves out implementations for types of the inside.
    fn keep_reachable(&mut self) {
        let declared: HashSet<_> = self.0.iter().filter_map(|line| declaration(line)).map(str::to_owned).collect();
        self.0.retain(|line| match line.split_once(" for ") {
            Some((before, name)) if before.starts_with("impl ") => words(name).any(|word| declared.contains(word)),
            _ => true,
        });
    }

    /// Adds the items of another crate that are exported or stand in a line that is there.
    fn add_what_it_names(&mut self, mut other: Self) {
        loop {
            let told = self.0.iter().map(|line| line.split_once(": ").map_or(line.as_str(), |(_, told)| told));
            let told = told.filter(|told| !told.starts_with("variant "));
            let names: HashSet<_> = told.flat_map(words).map(str::to_owned).collect();
            let (named, rest): (Vec<_>, Vec<_>) =
                other.0.into_iter().partition(|line| subject(line).is_some_and(|subject| names.contains(subject)));
            if named.is_empty() {
                return;
            }
            (self.0, other.0) = ([std::mem::take(&mut self.0), named].concat(), rest);
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

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// The type or trait that a line declares.
fn declaration(line: &str) -> Option<&str> {
    if line.starts_with("made by words!") {
        return words(line.split_once("pub enum ")?.1).next();
    }
    let (name, rest) = line.split_once(": ")?;
    ["struct ", "enum ", "trait "].iter().any(|what| rest.starts_with(what)).then_some(name)
}

/// The item that a line tells of.
fn subject(line: &str) -> Option<&str> {
    if line.starts_with("made by") || line.starts_with("pub use") {
        return declaration(line);
    }
    let told = match line.split_once(" for ") {
        Some((before, name)) if before.starts_with("impl") => name,
        _ => line,
    };
    words(told).find(|word| !["async", "const", "fn", "macro", "type"].contains(word))
}

#[test]
fn the_public_api_is_as_the_golden_file_says() {
    let mut library = listing("src");
    library.add_what_it_names(listing("crates/policy/src"));
    compare(library, "api.txt");
}

#[test]
fn the_public_api_of_the_crates_beside_it_is_as_their_golden_files_say() {
    for name in ["admin", "embedded", "remote"] {
        compare(listing(&format!("crates/{name}/src")), &format!("api-{name}.txt"));
    }
}

fn listing(sources: &str) -> Listing {
    let mut listing = Listing::default();
    listing.directory(&Path::new(env!("CARGO_MANIFEST_DIR")).join(sources));
    listing.keep_reachable();
    listing
}

fn compare(listing: Listing, golden: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut lines = listing.0;
    lines.sort();
    lines.dedup();
    let found = lines.join("\n") + "\n";
    let path = root.join("tests/golden").join(golden);
    if std::env::var(OVERWRITE).is_ok_and(|value| value == "overwrite") {
        fs::write(&path, &found).unwrap();
    }
    let name = golden;
    let golden = fs::read_to_string(&path).unwrap_or_default();
    let gone: Vec<_> = golden.lines().filter(|line| !lines.iter().any(|found| found == line)).collect();
    let new: Vec<_> = lines.iter().filter(|line| !golden.lines().any(|golden| golden == *line)).collect();
    let hint = "hint: GOLDEN=overwrite cargo test --test project api, then review the diff";
    assert!(gone.is_empty() && new.is_empty(), "{name}: no longer there: {gone:#?}\nnew: {new:#?}\n{hint}");
}
