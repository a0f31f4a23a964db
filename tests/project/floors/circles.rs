//! Circles of imports: two files that each need the other are read as one.
//!
//! A file imports what its `use` items and its paths name. A name that another file only passes on counts as an import of
//! the file that defines it, and passing a name on counts as no import.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Attribute, Item, UseTree, Visibility};

use super::{package_roots, sources};

/// The path of a module within its crate. The root's is empty.
type Module = Vec<String>;

/// What one file names.
#[derive(Default)]
struct Named {
    /// The names that `use` items bring into the file, with their paths from the root.
    bound: HashMap<String, Module>,
    /// The paths that the file itself needs.
    needed: Vec<Module>,
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let mut circles = Vec::new();
    for root in package_roots() {
        let name = root.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
        let imports = imports(&root);
        for circle in knots(&imports) {
            let line = |file: &Module| {
                let inside: Vec<_> = imports[file].intersection(&circle).map(|other| other.join("/")).collect();
                format!("{} -> {}", file.join("/"), inside.join(", "))
            };
            circles.push((name.clone(), circle.iter().map(line).collect::<Vec<_>>()));
        }
    }
    assert!(circles.is_empty(), "files that need each other: move what they share to a third file: {circles:#?}");
}

#[test]
fn a_circle_of_files_is_found() {
    let directory = std::env::temp_dir().join(format!("uniqueue-circles-{}", std::process::id()));
    fs::create_dir_all(directory.join("a")).unwrap();
    let write = |file: &str, text: &str| fs::write(directory.join(file), text).unwrap();
    write("lib.rs", "mod a; mod b; mod c; pub use a::Passed;");
    write("a.rs", "mod inner; use crate::b::B; pub use inner::Passed; pub struct A;");
    write("a/inner.rs", "pub struct Passed; #[cfg(test)] mod tests { use super::super::A; }");
    // What `a` only passes on is an import of `a/inner`.
    write("b.rs", "use crate::a::Passed; pub struct B;");
    write("c.rs", "fn c() { crate::b::B; }");
    assert!(knots(&imports(&directory)).is_empty());
    // A path without a `use`, in a macro.
    write("b.rs", "pub struct B; fn b() { println!(\"{:?}\", crate::c::c()) }");
    let file = |name: &str| vec![name.to_owned()];
    assert_eq!(knots(&imports(&directory)), [BTreeSet::from([file("b"), file("c")])]);
    fs::remove_dir_all(&directory).unwrap();
}

/// The files of a crate, and which other files each of them needs.
fn imports(root: &Path) -> BTreeMap<Module, BTreeSet<Module>> {
    let named: BTreeMap<Module, Named> =
        sources(root).iter().map(|path| (module_of(path.strip_prefix(root).unwrap()), read(path, root))).collect();
    let needs = |(module, names): (&Module, &Named)| {
        let files = names.needed.iter().map(|path| file_of(path, &named, 0)).filter(|file| file != module);
        (module.clone(), files.collect())
    };
    named.iter().map(needs).collect()
}

fn module_of(inside: &Path) -> Module {
    let mut module: Module = inside.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    module.pop_if(|last| matches!(last.as_str(), "mod" | "lib" | "main"));
    module
}

fn read(path: &Path, root: &Path) -> Named {
    let file = syn::parse_file(&fs::read_to_string(path).unwrap()).unwrap();
    let mut named = Named::default();
    collect(&file.items, &module_of(path.strip_prefix(root).unwrap()), &mut named);
    named
}

/// Collects what the items of a module name, without its tests.
fn collect(items: &[Item], module: &Module, named: &mut Named) {
    let is_child = |item: &Item| match item {
        Item::Mod(child) => Some(child.ident.to_string()),
        _ => None,
    };
    let children: Vec<_> = items.iter().filter_map(is_child).collect();
    for item in items {
        match item {
            Item::Mod(child) if !is_test(&child.attrs) => {
                if let Some((_, items)) = &child.content {
                    let mut inner = module.clone();
                    inner.push(child.ident.to_string());
                    collect(items, &inner, named);
                }
            }
            Item::Mod(_) => {}
            Item::Use(item) if !is_test(&item.attrs) => {
                let mut paths = Vec::new();
                flatten(&item.tree, &mut Vec::new(), &mut paths);
                for (path, name) in paths {
                    let Some(path) = from_root(&path, module, &children) else { continue };
                    if matches!(item.vis, Visibility::Inherited) {
                        named.needed.push(path.clone());
                    }
                    named.bound.insert(name, path);
                }
            }
            Item::Fn(item) if is_test(&item.attrs) => {}
            Item::Impl(item) if is_test(&item.attrs) => {}
            other => {
                let mut paths = Vec::new();
                find_paths(other.to_token_stream(), &mut paths);
                named.needed.extend(paths.iter().filter_map(|path| from_root(path, module, &children)));
            }
        }
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let text = attribute.to_token_stream().to_string().replace(' ', "");
        text.starts_with("#[cfg(test)") || text.starts_with("#[cfg(all(test,")
    })
}

/// The paths of a `use` item, each with the name that it brings.
fn flatten(tree: &UseTree, before: &mut Module, found: &mut Vec<(Module, String)>) {
    match tree {
        UseTree::Path(path) => {
            before.push(path.ident.to_string());
            flatten(&path.tree, before, found);
            before.pop();
        }
        UseTree::Group(group) => group.items.iter().for_each(|tree| flatten(tree, before, found)),
        UseTree::Glob(_) => found.push((before.clone(), "*".to_owned())),
        UseTree::Name(_) | UseTree::Rename(_) => {
            let (ident, name) = match tree {
                UseTree::Rename(renamed) => (renamed.ident.to_string(), renamed.rename.to_string()),
                tree => (tree.to_token_stream().to_string(), tree.to_token_stream().to_string()),
            };
            let mut path = before.clone();
            if ident != "self" {
                path.push(ident);
            }
            let name = if name == "self" { path.last().cloned().unwrap_or_default() } else { name };
            found.push((path, name));
        }
    }
}

/// Finds the paths of more than one part in any code.
fn find_paths(tokens: TokenStream, found: &mut Vec<Module>) {
    let tokens: Vec<_> = tokens.into_iter().collect();
    let is_colon = |at: usize| matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            // `pub(in crate::a)` needs nothing.
            TokenTree::Group(_) if at > 0 && matches!(&tokens[at - 1], TokenTree::Ident(word) if word == "pub") => {}
            TokenTree::Group(group) => find_paths(group.stream(), found),
            TokenTree::Ident(first) if !(at >= 2 && is_colon(at - 1) && is_colon(at - 2)) => {
                let mut path = vec![first.to_string()];
                while is_colon(at + 1)
                    && is_colon(at + 2)
                    && let Some(TokenTree::Ident(next)) = tokens.get(at + 3)
                {
                    path.push(next.to_string());
                    at += 3;
                }
                if path.len() > 1 {
                    found.push(path);
                }
            }
            _ => {}
        }
        at += 1;
    }
}

/// A path from the crate's root. `None`: it is of another crate, or of a name that a `use` item brought.
fn from_root(path: &Module, module: &Module, children: &[String]) -> Option<Module> {
    let mut base = match path.first()?.as_str() {
        "crate" => return Some(path[1..].to_vec()),
        "self" => return Some([module, &path[1..]].concat()),
        "super" => module.clone(),
        child if children.iter().any(|name| name == child) => return Some([module, path.as_slice()].concat()),
        _ => return None,
    };
    let ups = path.iter().take_while(|part| *part == "super").count();
    base.truncate(base.len().saturating_sub(ups));
    Some([base.as_slice(), &path[ups..]].concat())
}

/// The file that defines what a path names.
fn file_of(path: &Module, files: &BTreeMap<Module, Named>, passed_on: usize) -> Module {
    let longest = (0..=path.len()).rev().find(|length| files.contains_key(&path[..*length])).unwrap_or_default();
    let (file, rest) = path.split_at(longest);
    let next = rest.first().and_then(|name| files[file].bound.get(name));
    match next {
        // Names that two files pass on to each other end somewhere.
        Some(next) if passed_on < 10 => file_of(&[next, &rest[1..]].concat(), files, passed_on + 1),
        _ => file.to_vec(),
    }
}

/// The sets of files that reach each other.
fn knots(imports: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<BTreeSet<Module>> {
    let reached: BTreeMap<_, _> = imports.keys().map(|file| (file, reach(file, imports))).collect();
    let mut knots: Vec<BTreeSet<Module>> = Vec::new();
    for file in imports.keys().filter(|file| reached[file].contains(*file)) {
        if !knots.iter().any(|knot| knot.contains(file)) {
            knots.push(reached[file].iter().filter(|other| reached[other].contains(file)).cloned().collect());
        }
    }
    knots
}

/// Every file that a file needs, directly or through others.
fn reach(from: &Module, imports: &BTreeMap<Module, BTreeSet<Module>>) -> BTreeSet<Module> {
    let (mut reached, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(file) = next.pop() {
        next.extend(imports[file].iter().filter(|other| reached.insert((*other).clone())));
    }
    reached
}
