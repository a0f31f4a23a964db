//! The parts of a job that make its key, as one JSON object. Parts of args and meta are chosen by name or JSON Pointer:
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

use serde_json::Value;
use time::OffsetDateTime;
use uniqueue_policy::Part;

use crate::error::Result;
use crate::json::{self, Flaw, Sink, write_text};
use crate::unique::claim::invalid;

/// The parts of a job that a policy may read.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The job's kind.
    pub kind: &'a str,
    /// The queue it goes to.
    pub queue: &'a str,
    /// Its payload. Not read unless the policy's key depends on it.
    pub args: &'a Value,
    /// Its metadata, an object.
    pub meta: &'a Value,
    /// The time that decides the window: `scheduled_at` where it is set, otherwise the
    /// *database's* now. Not read unless the policy has a window.
    pub window_at: Option<OffsetDateTime>,
}

/// The fingerprint (docs/learn/unique.md, "How keys are made"): those members that apply, in the order of their names.
pub(crate) struct Fingerprint<'a> {
    pub(crate) args: Option<Selected<'a>>,
    pub(crate) meta: Option<Selected<'a>>,
    pub(crate) period: Option<String>,
    pub(crate) queue: Option<&'a str>,
    pub(crate) kind: Option<&'a str>,
}

impl Fingerprint<'_> {
    /// Writes the canonical text.
    pub(crate) fn write<S: Sink>(&self, sink: &mut S) -> Result<(), Flaw> {
        let mut separator = "{";
        for (name, part) in [("args", &self.args), ("meta", &self.meta)] {
            if let Some(part) = part {
                open(&mut separator, name, sink);
                // Depth counts from the part, so that args have one limit wherever they stand.
                part.write(0, sink)?;
            }
        }
        for (name, text) in [("period", self.period.as_deref()), ("queue", self.queue), ("type", self.kind)] {
            if let Some(text) = text {
                open(&mut separator, name, sink);
                write_text(text, sink);
            }
        }
        sink.put(if separator == "{" { "{}" } else { "}" });
        Ok(())
    }
}

fn open(separator: &mut &'static str, name: &str, sink: &mut impl Sink) {
    sink.put(separator);
    sink.put("\"");
    sink.put(name);
    sink.put("\":");
    *separator = ",";
}

/// A part of a value, or all of it, borrowed.
pub(crate) enum Selected<'a> {
    All(&'a Value),
    Members(Vec<(&'a str, Selected<'a>)>),
    Items(Vec<Option<Selected<'a>>>),
}

impl<'a> Selected<'a> {
    /// Selects the parts of args or of meta. Parts must have been checked; `field` is for the error.
    pub(crate) fn of(value: &'a Value, parts: Option<&[Part]>, field: &'static str) -> Result<Option<Self>> {
        let parts = match parts {
            None => return Ok(None),
            Some(parts) if Part::are_all(parts) => return Ok(Some(Selected::All(value))),
            Some(parts) => parts,
        };
        let value = named_args(value);
        let lacks = |part: &&Part| part.is_required && follow(value, part.path()).is_none();
        if let Some(part) = parts.iter().find(lacks) {
            return Err(invalid(field, format!("the job has no member {:?}", part.given)));
        }
        let mut paths: Vec<&[String]> = parts.iter().map(Part::path).collect();
        paths.sort_unstable();
        Ok(Some(gather(value, &paths).unwrap_or(Selected::Members(Vec::new()))))
    }

    /// The canonical text of the selection, inside `depth` arrays and objects.
    pub(crate) fn write<S: Sink>(&self, depth: usize, sink: &mut S) -> Result<(), Flaw> {
        match self {
            Selected::All(value) => json::write_value(value, depth, sink),
            Selected::Members(members) => {
                let members = members.iter().map(|(name, member)| (*name, member));
                json::write_members(members, depth, sink, Selected::write)
            }
            Selected::Items(items) => {
                json::write_items(items.iter(), depth, sink, |item, depth, sink: &mut S| match item {
                    Some(item) => item.write(depth, sink),
                    None => json::write_value(&Value::Null, depth, sink),
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
fn gather<'a>(value: &'a Value, paths: &[&[String]]) -> Option<Selected<'a>> {
    // A path that ends here sorts before the longer ones, and selects their selection as well.
    if paths.first().is_some_and(|path| path.is_empty()) {
        return Some(Selected::All(value));
    }
    let branches = paths.chunk_by(|left, right| left[0] == right[0]).map(|branch| {
        let rest: Vec<_> = branch.iter().map(|path| &path[1..]).collect();
        (branch[0][0].as_str(), rest)
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

fn follow<'a>(value: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, segment| match value {
        Value::Object(members) => members.get(segment),
        Value::Array(items) => items.get(index(segment)?),
        _ => None,
    })
}

/// An array index of RFC 6901: digits, without leading zeros.
fn index(segment: &str) -> Option<usize> {
    let is_index = segment == "0" || !segment.starts_with('0') && segment.bytes().all(|byte| byte.is_ascii_digit());
    is_index.then(|| segment.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn select(value: &Value, given: &[&str]) -> Result<String> {
        text(value, &given.iter().map(|name| Part::new(name, true)).collect::<Vec<_>>())
    }

    fn text(value: &Value, parts: &[Part]) -> Result<String> {
        let mut text = String::new();
        Selected::of(value, Some(parts), "args_keys")?.unwrap().write(0, &mut text).map_err(Flaw::in_key)?;
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
        let parts = [Part::new("a", true), Part::new("b", false), Part::new("/c/d", false)];
        for (value, selected) in [
            (json!({"a": null}), r#"{"a":null}"#),
            (json!({"a": 1, "b": null, "c": {}}), r#"{"a":1,"b":null}"#),
            (json!({"a": 1, "c": {"d": 2, "e": 3}}), r#"{"a":1,"c":{"d":2}}"#),
        ] {
            assert_eq!(text(&value, &parts).unwrap(), selected);
        }
        assert_eq!(text(&json!([1]), &[Part::new("a", false)]).unwrap(), "{}");
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
