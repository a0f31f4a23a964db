//! The pages: every link leads to a file and a heading that exist, and the list of pages names each page.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The files below a directory whose names end so.
fn files(directory: &Path, ending: &str, found: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        // Installed by scripts, not part of the project.
        if path.ends_with("node_modules") {
            continue;
        }
        if path.is_dir() {
            files(&path, ending, found);
        } else if path.to_str().unwrap().ends_with(ending) {
            found.insert(path);
        }
    }
}

/// The pages that are read in the repository.
fn pages() -> BTreeSet<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut pages: BTreeSet<_> =
        ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"].iter().map(|name| root.join(name)).collect();
    files(&root.join("docs"), ".md", &mut pages);
    pages
}

/// The path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => assert!(normal.pop()),
            Component::CurDir => {}
            _ => normal.push(part),
        }
    }
    normal
}

/// The text without its code blocks, in which a `#` begins a comment.
fn prose(text: &str) -> String {
    let mut inside = false;
    text.lines()
        .filter(|line| {
            let fence = line.trim_start().starts_with("```");
            inside ^= fence;
            !inside && !fence
        })
        .flat_map(|line| [line, "\n"])
        .collect()
}

/// The anchors of a page's headings, as code hosts make them.
fn anchors(page: &Path) -> Vec<String> {
    let prose = prose(&fs::read_to_string(page).unwrap());
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    let titles = headings.map(|line| line.trim_start_matches('#').trim().to_lowercase());
    let kept = |title: String| title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).collect::<String>();
    titles.map(|title| kept(title).replace(' ', "-")).collect()
}

/// The targets of a page's links that name no other host.
fn links(page: &Path) -> Vec<String> {
    let prose = prose(&fs::read_to_string(page).unwrap());
    let targets =
        prose.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target.to_owned());
    targets.filter(|target| !target.contains("://")).collect()
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let mut broken = Vec::new();
    let mut checked = 0;
    for page in pages() {
        for link in links(&page) {
            checked += 1;
            let (file, anchor) = link.split_once('#').map_or((&*link, None), |(file, anchor)| (file, Some(anchor)));
            let target = if file.is_empty() { page.clone() } else { normal(&page.parent().unwrap().join(file)) };
            let leads =
                target.exists() && anchor.is_none_or(|anchor| anchors(&target).iter().any(|each| each == anchor));
            if !leads {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(checked > 100, "only {checked} links were found");
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn the_list_of_pages_names_each_page() {
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/README.md");
    // The page of the derive macro is beside it, for docs.rs.
    let links = links(&list).into_iter().filter(|link| !link.starts_with("../"));
    let named: BTreeSet<_> = links.map(|link| list.with_file_name(link)).collect();
    let mut there = BTreeSet::new();
    files(list.parent().unwrap(), ".md", &mut there);
    there.remove(&list);
    assert_eq!(named, there);
}

/// Comments, messages and scripts name pages by their path.
#[test]
fn every_page_that_the_sources_name_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sources = BTreeSet::new();
    for folder in ["src", "tests", "crates", "examples", "migrations"] {
        for ending in [".rs", ".sql"] {
            files(&root.join(folder), ending, &mut sources);
        }
    }
    files(&root.join("scripts"), "", &mut sources);
    let mut missing = Vec::new();
    let mut checked = 0;
    for source in sources {
        let Ok(text) = fs::read_to_string(&source) else { continue };
        for after in text.split("docs/").skip(1) {
            let name: String = after.chars().take_while(|c| c.is_ascii_alphanumeric() || "/-_.".contains(*c)).collect();
            if let Some((name, _)) = name.split_once(".md") {
                checked += 1;
                if !root.join(format!("docs/{name}.md")).exists() {
                    missing.push(format!("{}: docs/{name}.md", source.display()));
                }
            }
        }
    }
    assert!(checked > 30, "only {checked} paths were found");
    assert!(missing.is_empty(), "{missing:#?}");
}
