//! The paths that the suites use in a body: `$.a.b`, `[0]`, `[*]` and `[?(@.id=='x')]`.

use test_support::prelude::*;

/// One step of a path.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    Member(String),
    Item(usize),
    All,
    /// The items of which a member is this text.
    Where(String, String),
}

/// The result of looking up a path.
#[derive(Debug)]
pub(crate) enum Found<'a> {
    /// One value, or none.
    One(Option<&'a Value>),
    /// Any number of values, behind `[*]`.
    Many(Vec<&'a Value>),
}

/// Follows a path. Panics where the path cannot be read: such a check would pass in vain.
pub(crate) fn find<'a>(root: &'a Value, path: &str) -> Found<'a> {
    let (mut values, mut is_many) = (vec![root], false);
    for step in read(path) {
        values = values.into_iter().flat_map(|value| follow(value, &step)).collect();
        is_many |= step == Step::All;
    }
    match is_many {
        true => Found::Many(values),
        false => {
            assert!(values.len() <= 1, "{path} leads to {} values", values.len());
            Found::One(values.first().copied())
        }
    }
}

fn follow<'a>(value: &'a Value, step: &Step) -> Vec<&'a Value> {
    let items = || value.as_array().map(Vec::as_slice).unwrap_or_default().iter();
    match step {
        Step::Member(name) => value.get(name.as_str()).into_iter().collect(),
        Step::Item(place) => value.as_array().and_then(|items| items.get(*place)).into_iter().collect(),
        Step::All => items().collect(),
        Step::Where(name, wanted) => items().filter(|item| item[name.as_str()] == wanted.as_str()).collect(),
    }
}

fn read(path: &str) -> Vec<Step> {
    let mut rest = path.strip_prefix('$').unwrap_or_else(|| panic!("no path: {path}"));
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(name) = rest.strip_prefix('.') {
            let end = name.find(['.', '[']).unwrap_or(name.len());
            assert!(end > 0, "no path: {path}");
            steps.push(Step::Member(name[..end].to_owned()));
            rest = &name[end..];
        } else {
            let inside = rest.strip_prefix('[').unwrap_or_else(|| panic!("no path: {path}"));
            let (inside, after) = inside.split_once(']').unwrap_or_else(|| panic!("no path: {path}"));
            steps.push(match inside.strip_prefix("?(@.").and_then(|test| test.strip_suffix("')")) {
                Some(test) => {
                    let (name, wanted) = test.split_once("=='").unwrap_or_else(|| panic!("no path: {path}"));
                    Step::Where(name.to_owned(), wanted.to_owned())
                }
                None if inside == "*" => Step::All,
                None => Step::Item(inside.parse().unwrap_or_else(|_| panic!("no path: {path}"))),
            });
            rest = after;
        }
    }
    steps
}

#[test]
fn paths_lead_to_members_items_and_items_that_match() {
    let body = serde_json::json!({"a": {"step-2": [1, {"id": "x", "n": 7}]}});
    let one = |path: &str| match find(&body, path) {
        Found::One(value) => value.cloned(),
        Found::Many(values) => panic!("{values:?}"),
    };
    assert_eq!(one("$.a.step-2[0]"), Some(1.into()));
    assert_eq!(one("$.a.step-2[?(@.id=='x')].n"), Some(7.into()));
    assert_eq!(one("$.a.step-2[?(@.id=='y')]"), None);
    assert!(matches!(find(&body, "$.a.step-2[*].n"), Found::Many(values) if values.len() == 1));
}
