//! How long files, SQL functions and statements are.

use std::fs;
use std::path::{Path, PathBuf};

use super::{package_roots, sources};

/// The longest a source file may be.
const MAX_LINES: usize = 400;

/// The longest that the body of a SQL function, or a statement, may be.
const MAX_SQL_LINES: usize = 150;

fn sql_files(directory: &str) -> Vec<PathBuf> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join(directory)];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let (inner, other): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
        folders.extend(inner);
        files.extend(other.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "sql")));
    }
    files.sort();
    assert!(!files.is_empty());
    files
}

/// The functions of a migration, with the lines of their bodies.
fn functions(text: &str) -> Vec<(String, usize)> {
    let mut functions = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(rest) = line.strip_prefix("CREATE FUNCTION ") else { continue };
        let name = rest.split('(').next().unwrap().to_owned();
        let mut line = line;
        let end = loop {
            match line.trim_start() {
                "BEGIN ATOMIC" => break Some("END;"),
                body if body.ends_with("AS $$") => break Some("$$;"),
                // `RETURN` and an expression.
                body if body.ends_with(';') => break None,
                _ => line = lines.next().unwrap_or_else(|| panic!("{name} has no body")),
            }
        };
        let length = end.map_or(1, |end| lines.by_ref().take_while(|line| *line != end).count());
        functions.push((name, length));
    }
    functions
}

#[test]
fn no_source_file_is_longer_than_a_reader_likes() {
    for path in package_roots().iter().flat_map(|root| sources(root)) {
        let lines = fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines <= MAX_LINES, "{}: {lines} lines; split it by what a reader looks for", path.display());
    }
}

#[test]
fn no_function_in_sql_is_longer_than_a_reader_likes() {
    let files = sql_files("migrations");
    let mut all: Vec<_> = files.iter().flat_map(|path| functions(&fs::read_to_string(path).unwrap())).collect();
    assert!(all.len() > 100, "{} functions", all.len());
    all.retain(|(_, lines)| *lines > MAX_SQL_LINES);
    assert!(all.is_empty(), "SQL functions that are too long: {all:?}");
}

#[test]
fn no_statement_is_longer_than_a_reader_likes() {
    for path in sql_files("src/store/sql") {
        let lines = fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines <= MAX_SQL_LINES, "{}: {lines} lines", path.display());
    }
}

#[test]
fn the_body_of_a_function_is_measured() {
    let text = "CREATE FUNCTION a(x int) RETURNS int\n    LANGUAGE sql AS $$\nSELECT\n    1\n$$;\n\
                CREATE FUNCTION b() RETURNS int RETURN 1;\nCREATE FUNCTION c() RETURNS int\n    RETURN 1;\n\
                CREATE FUNCTION d(\n    x int\n) RETURNS int\n    LANGUAGE sql\nBEGIN ATOMIC\n    SELECT 1;\nEND;\n";
    let named = |name: &str, lines| (name.to_owned(), lines);
    assert_eq!(functions(text), [named("a", 2), named("b", 1), named("c", 1), named("d", 1)]);
}
