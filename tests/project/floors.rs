//! The layout of the sources: imports point down and not in a circle, and what is to be read stays small.

mod lengths;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The rooms of each floor. A room may use rooms of its own floor and of those below.
const FLOORS: [&str; 6] = [
    "error json metrics period schedule unique words",
    "store",
    "client",
    "maintenance notify worker",
    "places runner",
    "testing",
];

/// The crates of the workspace, and which of them each may use. Only the tests of a crate may use others.
const CRATES: &[(&str, &[&str])] = &[
    ("uniqueue", &["uniqueue-derive", "uniqueue-embedded", "uniqueue-policy"]),
    ("uniqueue-admin", &["uniqueue"]),
    ("uniqueue-bench", &["uniqueue"]),
    (
        "uniqueue-cli",
        &["uniqueue", "uniqueue-admin", "uniqueue-faktory", "uniqueue-http", "uniqueue-ojs", "uniqueue-web"],
    ),
    ("uniqueue-derive", &["uniqueue-policy"]),
    ("uniqueue-embedded", &[]),
    ("uniqueue-faktory", &["uniqueue", "uniqueue-admin", "uniqueue-remote"]),
    ("uniqueue-http", &[]),
    ("uniqueue-model", &[]),
    ("uniqueue-ojs", &["uniqueue", "uniqueue-admin", "uniqueue-http", "uniqueue-remote"]),
    ("uniqueue-policy", &[]),
    ("uniqueue-remote", &["uniqueue", "uniqueue-admin"]),
    ("uniqueue-test-support", &["uniqueue", "uniqueue-admin", "uniqueue-test-macros"]),
    ("uniqueue-web", &["uniqueue", "uniqueue-admin", "uniqueue-http"]),
];

fn sources(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

fn source_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The directories of the crates.
fn package_directories() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let entries = fs::read_dir(root.join("crates")).unwrap().map(|entry| entry.unwrap().path());
    let crates = entries.filter(|path| path.join("Cargo.toml").exists());
    [root.to_owned()].into_iter().chain(crates).collect()
}

/// The sources of the crates.
fn package_roots() -> Vec<PathBuf> {
    package_directories().into_iter().map(|directory| directory.join("src")).collect()
}

#[test]
fn a_crate_uses_only_those_below_it() {
    let dependencies = |directory: PathBuf| {
        let manifest = fs::read_to_string(directory.join("Cargo.toml")).unwrap();
        let name = manifest.lines().find_map(|line| line.strip_prefix("name = ")).unwrap().trim_matches('"').to_owned();
        let after = manifest.split("\n[dependencies]\n").nth(1).unwrap_or_default();
        let section = after.split("\n[").next().unwrap_or_default();
        let ours = section
            .lines()
            .filter_map(|line| line.split([' ', '.']).next())
            .filter(|name| name.starts_with("uniqueue"));
        (name, ours.map(str::to_owned).collect::<Vec<_>>())
    };
    for (name, used) in package_directories().into_iter().map(dependencies) {
        let (_, allowed) =
            CRATES.iter().find(|(known, _)| *known == name).unwrap_or_else(|| panic!("{name}: add it to CRATES"));
        assert!(used.iter().all(|used| allowed.contains(&used.as_str())), "{name} uses {used:?}");
    }
}

/// The path of a file within its crate. The root's is empty.
type Module = Vec<String>;

/// What one file names, without its tests.
#[derive(Default)]
struct Named {
    /// The paths from the root that the file needs.
    needed: Vec<Module>,
    /// The names that `use` items bring into the file, with their paths from the root. A file that only passes a name on does
    /// not need it.
    bound: BTreeMap<String, Module>,
}

/// The one walk: the files of a crate, and what each of them names.
fn walk(root: &Path) -> BTreeMap<Module, Named> {
    let read = |path: PathBuf| {
        let inside = path.strip_prefix(root).unwrap().with_extension("");
        let mut module: Module = inside.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        module.pop_if(|last| matches!(last.as_str(), "mod" | "lib" | "main"));
        let named = names(&fs::read_to_string(&path).unwrap(), &module);
        (module, named)
    };
    sources(root).into_iter().map(read).collect()
}

fn names(text: &str, module: &Module) -> Named {
    let text = text.split("\nmod tests {").next().unwrap_or_default();
    let code: String = text.lines().map(|line| format!("{}\n", line.split("//").next().unwrap_or_default())).collect();
    let child = |line: &str| line.split_once("mod ").and_then(|(_, rest)| rest.strip_suffix(';')).map(str::to_owned);
    let children: Vec<String> = code.lines().filter_map(child).collect();
    let mut named = Named::default();
    let mut rest = String::new();
    for line in code.split_inclusive('\n') {
        let is_use = line.starts_with("use ") || (line.starts_with("pub") && line.contains(" use "));
        rest += if is_use { "\u{1}" } else { "" };
        rest += line;
    }
    let mut parts = rest.split('\u{1}');
    let mut code = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (item, after) = part.split_once(';').unwrap_or((part, ""));
        code += after;
        let (before, tree) = item.split_once("use ").unwrap_or_default();
        let mut paths = Vec::new();
        expand("", tree, &mut paths);
        for path in paths {
            let (path, name) = path.split_once(" as ").unwrap_or((&path, path.rsplit("::").next().unwrap_or_default()));
            let Some(found) = from_root(path, module, &children) else { continue };
            named.bound.insert(name.to_owned(), found.clone());
            named.needed.extend(before.is_empty().then_some(found));
        }
    }
    // Paths in other code: of the crate, of a parent and of children.
    let is_of_name = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    for start in ["crate", "super", "self"].into_iter().chain(children.iter().map(String::as_str)) {
        for (at, _) in code.match_indices(&format!("{start}::")) {
            let path = code[at..].split(|c| !is_of_name(c)).next().unwrap_or_default().trim_end_matches(':');
            // `pub(in crate::a)` needs nothing.
            let is_whole = !code[..at].ends_with(is_of_name) && !code[..at].ends_with("(in ");
            named.needed.extend(from_root(path, module, &children).filter(|_| is_whole));
        }
    }
    named
}

/// The single paths of a tree of imports.
fn expand(before: &str, tree: &str, paths: &mut Vec<String>) {
    let tree = tree.trim();
    let Some((head, inner)) = tree.split_once('{') else {
        if !tree.is_empty() {
            paths.push(format!("{before}{tree}").replace("::self", ""));
        }
        return;
    };
    let (mut depth, mut from) = (0, 0);
    let inner = &inner[..inner.rfind('}').unwrap_or(inner.len())];
    for (at, c) in inner.char_indices().chain([(inner.len(), ',')]) {
        depth += i32::from(c == '{') - i32::from(c == '}');
        if c == ',' && depth == 0 {
            expand(&format!("{before}{head}"), &inner[from..at], paths);
            from = at + 1;
        }
    }
}

/// A path from the crate's root. `None`: it is of another crate, or of a name that a `use` item brought.
fn from_root(path: &str, module: &Module, children: &[String]) -> Option<Module> {
    let parts: Module = path.split("::").map(str::to_owned).collect();
    let ups = parts.iter().take_while(|part| *part == "super").count();
    match parts[0].as_str() {
        "crate" => Some(parts[1..].to_vec()),
        "self" => Some([module, &parts[1..]].concat()),
        "super" => Some([&module[..module.len().saturating_sub(ups)], &parts[ups..]].concat()),
        child => children.iter().any(|name| name == child).then(|| [module.as_slice(), &parts].concat()),
    }
}

/// The file that defines what a path names.
fn file_of(path: &[String], files: &BTreeMap<Module, Named>, passed_on: usize) -> Module {
    let longest = (0..=path.len()).rev().find(|length| files.contains_key(&path[..*length])).unwrap_or_default();
    let (file, rest) = path.split_at(longest);
    match rest.first().and_then(|name| files[file].bound.get(name)) {
        // Names that two files pass on to each other end somewhere.
        Some(next) if passed_on < 10 => file_of(&[next, &rest[1..]].concat(), files, passed_on + 1),
        _ => file.to_vec(),
    }
}

/// The sets of files that reach each other.
fn circles(files: &BTreeMap<Module, Named>) -> BTreeSet<BTreeSet<Module>> {
    let needs = |file: &Module| -> BTreeSet<Module> {
        files[file].needed.iter().map(|path| file_of(path, files, 0)).filter(|other| other != file).collect()
    };
    let needs: BTreeMap<_, _> = files.keys().map(|file| (file.clone(), needs(file))).collect();
    let reach = |from: &Module| {
        let (mut reached, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(file) = next.pop() {
            next.extend(needs[file].iter().filter(|other| reached.insert((*other).clone())));
        }
        reached
    };
    let reached: BTreeMap<_, _> = files.keys().map(|file| (file, reach(file))).collect();
    let circle = |file: &Module| reached[file].iter().filter(|other| reached[*other].contains(file)).cloned().collect();
    files.keys().filter(|file| reached[file].contains(*file)).map(circle).collect()
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    for root in package_roots() {
        let found = circles(&walk(&root));
        assert!(found.is_empty(), "{}: move what these files share to a third file: {found:#?}", root.display());
    }
}

#[test]
fn a_circle_of_files_is_found() {
    let crate_of = |b: &str| {
        let file = |path: &str, text: &str| {
            let module: Module = path.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
            (module.clone(), names(text, &module))
        };
        BTreeMap::from([
            file("", "mod a;\nmod b;\nmod c;\npub use a::Passed;\n"),
            file("a", "mod inner;\nuse crate::b::B;\npub use inner::Passed;\npub struct A;\n"),
            file("a/inner", "pub struct Passed;\n#[cfg(test)]\nmod tests {\n    use super::super::A;\n}\n"),
            file("b", b),
            file("c", "fn c() {\n    crate::b::B;\n}\n"),
        ])
    };
    // What `a` only passes on is an import of `a/inner`.
    assert_eq!(circles(&crate_of("use crate::{a::{Passed}};\npub struct B;\n")), BTreeSet::new());
    // A path without a `use`, in a macro.
    let found = circles(&crate_of("pub struct B;\nfn b() {\n    println!(\"{:?}\", crate::c::c())\n}\n"));
    assert_eq!(found, BTreeSet::from([BTreeSet::from([vec!["b".to_owned()], vec!["c".to_owned()]])]));
}

#[test]
fn imports_point_down() {
    let floor_of = |room: &str| FLOORS.iter().position(|rooms| rooms.split_whitespace().any(|known| known == room));
    let mut wrong = Vec::new();
    for (module, named) in walk(&source_root()) {
        let Some(room) = module.first() else { continue };
        let own = floor_of(room).unwrap_or_else(|| panic!("src/{room} has no floor: add it to FLOORS"));
        let above = |path: &&Module| path.first().and_then(|other| floor_of(other)).is_some_and(|floor| floor > own);
        wrong.extend(
            named.needed.iter().chain(named.bound.values()).filter(above).map(|path| (module.clone(), path.clone())),
        );
    }
    assert!(wrong.is_empty(), "imports that point up: {wrong:#?}");
}

#[test]
fn the_guide_to_contributing_names_every_room() {
    let guide = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("CONTRIBUTING.md")).unwrap();
    let rooms = FLOORS.iter().flat_map(|rooms| rooms.split_whitespace());
    let is_missing = |room: &&str| !guide.contains(&format!("`{room}`")) && !guide.contains(&format!("`{room}/`"));
    assert_eq!(rooms.filter(is_missing).collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn only_the_store_speaks_to_the_database_by_name() {
    for path in sources(&source_root()) {
        let inside = path.strip_prefix(source_root()).unwrap();
        if inside.starts_with("store") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for verb in ["\"SELECT ", "\"INSERT ", "\"UPDATE ", "\"DELETE ", "sqlx::query"] {
            assert!(!text.contains(verb), "{} speaks SQL: {verb}", inside.display());
        }
    }
}
