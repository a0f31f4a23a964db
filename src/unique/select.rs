//! Parts of args and meta, chosen by name or JSON Pointer.
//!
//! - A plain name is a top-level member, literally: `a.b` and `a*` are names, not paths.
//! - A name that starts with `/` is a JSON Pointer (RFC 6901). The selection keeps its nesting:
//!   `/customer/id` of `{"customer": {"id": 7, "trace": "x"}}` is `{"customer": {"id": 7}}`.
//! - Several names select the union, so overlaps and their order make no difference:
//!   `/a` and `/a/b` are `/a`.
//! - In an array a pointer's segment is an index. The selection stays an array, and items before
//!   the last selected one that were not selected are null: `/items/1` of `{"items": [5, 6]}` is
//!   `{"items": [null, 6]}`. So selections differ whenever a selected part differs.
//! - Positional args (an array) are selected from in their first item when that is an object.

use std::borrow::Cow;

use serde_json::Value;

use crate::error::Result;
use crate::unique::canonical::{self, MAX_DEPTH, Sink};
use crate::unique::flaw::{Flaw, invalid, require};

/// One chosen part.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Part {
    given: Cow<'static, str>,
    /// The pointer's segments; `None` for a plain name.
    pointer: Option<Result<Vec<String>, &'static str>>,
    is_required: bool,
}

impl Part {
    /// A part that must be there.
    pub(crate) fn required(given: impl Into<Cow<'static, str>>) -> Self {
        let given = given.into();
        let pointer = given.strip_prefix('/').map(segments);
        Self { given, pointer, is_required: true }
    }

    /// A part that is left out where it is missing.
    pub(crate) fn optional(given: impl Into<Cow<'static, str>>) -> Self {
        Self { is_required: false, ..Self::required(given) }
    }

    /// The part's name or pointer, as given.
    pub(crate) fn given(&self) -> &str {
        &self.given
    }

    /// The top-level member that it is, or is in. Empty for a malformed pointer.
    pub(crate) fn member(&self) -> &str {
        self.path().first().copied().unwrap_or_default()
    }

    pub(crate) const fn is_required(&self) -> bool {
        self.is_required
    }

    /// The syntax error of the pointer, if it has one.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        self.pointer.as_ref()?.as_ref().err().copied()
    }

    /// Checks a pointer's syntax. `field` is for the error.
    pub(crate) fn check(&self, field: &'static str) -> Result<()> {
        match self.problem() {
            Some(problem) => Err(invalid(field, format!("{problem}: {:?}", self.given))),
            None => Ok(()),
        }
    }

    /// The way to the part; empty where the pointer is malformed, which `check` has reported.
    fn path(&self) -> Vec<&str> {
        match &self.pointer {
            None => vec![&*self.given],
            Some(Ok(segments)) => segments.iter().map(String::as_str).collect(),
            Some(Err(_)) => Vec::new(),
        }
    }
}

/// A part of a value, or all of it, borrowed.
pub(crate) enum Selected<'a> {
    All(&'a Value),
    Members(Vec<(&'a str, Selected<'a>)>),
    Items(Vec<Option<Selected<'a>>>),
}

impl<'a> Selected<'a> {
    /// Selects the parts of `value`. Parts must have been checked; `field` is for the error.
    pub(crate) fn of(value: &'a Value, parts: &[Part], field: &'static str) -> Result<Self> {
        let paths: Vec<Vec<&str>> = parts.iter().map(Part::path).collect();
        for (part, path) in parts.iter().zip(&paths) {
            require(!part.is_required || follow(value, path).is_some(), field, || {
                format!("the job has no member {:?}", part.given)
            })?;
        }
        let mut paths: Vec<&[&str]> = paths.iter().map(Vec::as_slice).collect();
        paths.sort_unstable();
        Ok(gather(value, &paths).unwrap_or(Selected::Members(Vec::new())))
    }

    /// The canonical text of the selection, inside `depth` arrays and objects.
    pub(crate) fn write<S: Sink>(&self, depth: usize, sink: &mut S) -> Result<(), Flaw> {
        match self {
            Selected::All(value) => canonical::write_value(value, depth, sink),
            Selected::Members(members) => {
                let members = members.iter().map(|(name, member)| (*name, member));
                canonical::write_members(members, depth, sink, Selected::write)
            }
            Selected::Items(items) => {
                canonical::write_items(items.iter(), depth, sink, |item, depth, sink: &mut S| match item {
                    Some(item) => item.write(depth, sink),
                    None => canonical::write_value(&Value::Null, depth, sink),
                })
            }
        }
    }
}

/// Where args are selected from: the first of positional args when that is an object.
pub(crate) fn named_args(args: &Value) -> &Value {
    match args {
        Value::Array(items) => items.first().filter(|first| first.is_object()).unwrap_or(args),
        _ => args,
    }
}

/// The selection of sorted paths. `None`: none of them exists.
fn gather<'a>(value: &'a Value, paths: &[&[&str]]) -> Option<Selected<'a>> {
    // A path that ends here sorts before the longer ones, and selects their selection as well.
    if paths.first().is_some_and(|path| path.is_empty()) {
        return Some(Selected::All(value));
    }
    let branches = paths.chunk_by(|left, right| left[0] == right[0]).map(|branch| {
        let rest: Vec<_> = branch.iter().map(|path| &path[1..]).collect();
        (branch[0][0], rest)
    });
    match value {
        Value::Object(members) => {
            let mut selected = Vec::with_capacity(paths.len());
            for (segment, rest) in branches {
                if let Some((name, member)) = members.get_key_value(segment)
                    && let Some(part) = gather(member, &rest)
                {
                    selected.push((name.as_str(), part));
                }
            }
            (!selected.is_empty()).then_some(Selected::Members(selected))
        }
        Value::Array(items) => {
            let mut selected = Vec::new();
            for (segment, rest) in branches {
                if let Some(at) = index(segment)
                    && let Some(item) = items.get(at)
                    && let Some(part) = gather(item, &rest)
                {
                    if selected.len() <= at {
                        selected.resize_with(at + 1, || None);
                    }
                    selected[at] = Some(part);
                }
            }
            (!selected.is_empty()).then_some(Selected::Items(selected))
        }
        _ => None,
    }
}

fn follow<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, segment| match value {
        Value::Object(members) => members.get(*segment),
        Value::Array(items) => items.get(index(segment)?),
        _ => None,
    })
}

/// An array index of RFC 6901: digits, without leading zeros.
fn index(segment: &str) -> Option<usize> {
    let is_index = segment == "0" || !segment.starts_with('0') && segment.bytes().all(|byte| byte.is_ascii_digit());
    is_index.then(|| segment.parse().ok()).flatten()
}

/// The segments of a pointer, of which the first slash is left out.
fn segments(segments: &str) -> Result<Vec<String>, &'static str> {
    if segments.split('/').count() > MAX_DEPTH {
        return Err("must not be deeper than 127 levels");
    }
    segments.split('/').map(unescape).collect()
}

fn unescape(segment: &str) -> Result<String, &'static str> {
    let mut parts = segment.split('~');
    let mut name = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        // After a tilde, as RFC 6901 has it: ~0 is a tilde, ~1 a slash, and nothing else exists.
        if let Some(rest) = part.strip_prefix('0') {
            name.push('~');
            name.push_str(rest);
        } else if let Some(rest) = part.strip_prefix('1') {
            name.push('/');
            name.push_str(rest);
        } else {
            return Err("in a JSON Pointer ~ must be written ~0 and / within a name ~1");
        }
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn select(value: &Value, given: &[&str]) -> Result<String> {
        let parts: Vec<_> = given.iter().map(|name| Part::required(name.to_string())).collect();
        parts.iter().try_for_each(|part| part.check("args_keys"))?;
        text(value, &parts)
    }

    fn text(value: &Value, parts: &[Part]) -> Result<String> {
        let mut text = String::new();
        Selected::of(value, parts, "args_keys")?.write(0, &mut text).map_err(Flaw::in_key)?;
        Ok(text)
    }

    #[test]
    fn names_are_literal_and_pointers_keep_their_nesting() {
        let value = json!({"a.b": 1, "a*": 2, "a": {"b": 3, "c": 4}, "a/b": {"c~d": 5}, "/x": 6, "": 7});
        for (given, selected) in [
            (vec!["a.b", "a*"], r#"{"a*":2,"a.b":1}"#),
            (vec!["/a/b"], r#"{"a":{"b":3}}"#),
            (vec!["/a~1b/c~0d"], r#"{"a/b":{"c~d":5}}"#),
            (vec!["/~1x", "/"], r#"{"":7,"/x":6}"#),
            (vec![""], r#"{"":7}"#),
            (vec!["a", "/a"], r#"{"a":{"b":3,"c":4}}"#),
        ] {
            assert_eq!(select(&value, &given).unwrap(), selected, "{given:?}");
        }
    }

    #[test]
    fn array_items_are_selected_by_index_and_stay_distinct() {
        let value = json!({"items": [{"id": 7}, {"id": 8, "n": 1}, 9]});
        assert_eq!(select(&value, &["/items/0/id"]).unwrap(), r#"{"items":[{"id":7}]}"#);
        assert_eq!(select(&value, &["/items/1/id"]).unwrap(), r#"{"items":[null,{"id":8}]}"#);
        assert_eq!(select(&value, &["/items/2", "/items/0"]).unwrap(), r#"{"items":[{"id":7},null,9]}"#);
        let object = json!({"items": {"1": {"id": 8}}});
        assert_eq!(select(&object, &["/items/1/id"]).unwrap(), r#"{"items":{"1":{"id":8}}}"#);
        for bad in ["/items/3", "/items/-", "/items/01", "/items/+1", "/items/", "/items/0/id/x"] {
            assert!(select(&value, &[bad]).is_err(), "{bad}");
        }
    }

    #[test]
    fn missing_members_are_named() {
        let error = select(&json!({"a": null}), &["a", "user_id"]).unwrap_err();
        assert_eq!(error.to_string(), "invalid unique policy: args_keys: the job has no member \"user_id\"");
        for value in [json!([1]), json!(null), json!("a"), json!({})] {
            assert!(select(&value, &["a"]).is_err());
        }
    }

    #[test]
    fn null_is_kept_and_optional_parts_are_left_out() {
        let parts = [Part::required("a"), Part::optional("b"), Part::optional("/c/d")];
        for (value, selected) in [
            (json!({"a": null}), r#"{"a":null}"#),
            (json!({"a": 1, "b": null, "c": {}}), r#"{"a":1,"b":null}"#),
            (json!({"a": 1, "c": {"d": 2, "e": 3}}), r#"{"a":1,"c":{"d":2}}"#),
        ] {
            assert_eq!(text(&value, &parts).unwrap(), selected);
        }
        assert_eq!(text(&json!([1]), &[Part::optional("a")]).unwrap(), "{}");
    }

    #[test]
    fn malformed_pointers_are_refused() {
        for bad in ["/a~2", "/a~", "/~01~", &"/a".repeat(128)] {
            assert!(Part::required(bad.to_owned()).check("meta_keys").is_err(), "{bad}");
        }
        let error = Part::optional("/a~2").check("meta_keys").unwrap_err().to_string();
        assert!(error.starts_with("invalid unique policy: meta_keys: "), "{error}");
        assert!(error.ends_with(": \"/a~2\""), "{error}");
        // A tilde of a plain name is a tilde.
        Part::required("a~2").check("args_keys").unwrap();
    }

    #[test]
    fn positional_args_are_selected_from_in_their_first_object() {
        assert_eq!(named_args(&json!([{"a": 1}, 2])), &json!({"a": 1}));
        for args in [json!([1, {"a": 1}]), json!([]), json!({"a": 1}), json!(null)] {
            assert_eq!(named_args(&args), &args);
        }
        assert_eq!(select(named_args(&json!([5, 6])), &["/1"]).unwrap(), "[null,6]");
    }
}
