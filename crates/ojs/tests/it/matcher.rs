//! The expectations of the suites. An expectation that is not known panics, so that no check passes in vain.

use test_support::prelude::*;

use crate::path::{Found, find};

/// Returns each difference between the body of a response and the expected body. `body` is `None` for a response without JSON.
pub(crate) fn check_body(body: Option<&Value>, is_empty: bool, expected: &Value) -> Vec<String> {
    let expected = expected.as_object().unwrap_or_else(|| panic!("no expectation of a body: {expected}"));
    let mut problems = Vec::new();
    for (path, wanted) in expected {
        match path.as_str() {
            "$or" => {
                let ways = wanted.as_array().unwrap().iter().map(|way| check_body(body, is_empty, way));
                let ways: Vec<_> = ways.collect();
                if ways.iter().all(|way| !way.is_empty()) {
                    problems.push(format!("no way of $or: {ways:?}"));
                }
            }
            "$empty" => {
                if wanted.as_bool().unwrap() != is_empty {
                    problems.push(format!("$empty must be {wanted}"));
                }
            }
            path => {
                // Members of a body that is no JSON are absent, and only what expects absence may pass.
                let nothing = Value::Null;
                let found = find(body.unwrap_or(&nothing), path);
                if let Some(problem) = check(found, wanted, body.is_some()) {
                    problems.push(format!("{path}: {problem}"));
                }
            }
        }
    }
    problems
}

fn check(found: Found<'_>, wanted: &Value, is_json: bool) -> Option<String> {
    match found {
        Found::Many(values) => {
            let (must_be, text) = match wanted.as_str().and_then(|wanted| wanted.split_once(':')) {
                Some(("contains", text)) => (true, text),
                Some(("not_contains", text)) => (false, text),
                _ => panic!("unknown expectation of many values: {wanted}"),
            };
            let is_there = values.iter().any(|value| value.as_str() == Some(text));
            (is_there != must_be || !is_json).then(|| format!("{wanted} of {values:?}"))
        }
        Found::One(value) => {
            (!matches(value, wanted) || !is_json).then(|| format!("expected {wanted}, found {value:?}"))
        }
    }
}

/// Whether a value, or the lack of one, is as expected.
pub(crate) fn matches(value: Option<&Value>, wanted: &Value) -> bool {
    match wanted {
        Value::Object(tests) if !tests.is_empty() && tests.keys().all(|name| name.starts_with('$')) => {
            tests.iter().all(|(name, wanted)| meets(value, name, wanted))
        }
        Value::String(text) if is_word(text) => value_is(value, text),
        wanted => value.is_some_and(|value| is_same(value, wanted)),
    }
}

fn meets(value: Option<&Value>, test: &str, wanted: &Value) -> bool {
    match test {
        "$exists" => value.is_some() == wanted.as_bool().unwrap(),
        "$type" => value.is_some_and(|value| type_of(value) == wanted.as_str().unwrap()),
        "$in" => value.is_some_and(|value| wanted.as_array().unwrap().contains(value)),
        "$match" => value.and_then(Value::as_str).is_some_and(|text| matches_pattern(text, wanted.as_str().unwrap())),
        "$size" => match (value.and_then(Value::as_array).map(Vec::len), wanted) {
            (Some(size), Value::Number(wanted)) => wanted.as_u64() == Some(size as u64),
            (Some(size), Value::Object(bounds)) => bounds.iter().all(|(bound, least)| {
                assert_eq!(bound, "$gte", "unknown bound");
                size as u64 >= least.as_u64().unwrap()
            }),
            (None, _) => false,
            _ => panic!("unknown size: {wanted}"),
        },
        _ => panic!("unknown expectation: {test}"),
    }
}

/// The two patterns of the suites.
fn matches_pattern(text: &str, pattern: &str) -> bool {
    match pattern {
        r"^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$" => is_uuid_v7(text),
        r"application/(openjobspec\+)?json" => {
            text.contains("application/json") || text.contains("application/openjobspec+json")
        }
        _ => panic!("unknown pattern: {pattern}"),
    }
}

/// Whether an expectation is a word of the suites, and no literal.
fn is_word(text: &str) -> bool {
    ["absent", "exists"].contains(&text)
        || ["string:", "array:", "number:", "one_of:", "~", "contains:", "not_contains:"]
            .iter()
            .any(|start| text.starts_with(start))
}

fn value_is(value: Option<&Value>, word: &str) -> bool {
    if word == "absent" {
        return value.is_none();
    }
    let Some(value) = value else { return false };
    let (text, items) = (value.as_str(), value.as_array().map(Vec::len));
    let number = |text: &str| text.parse::<usize>().unwrap_or_else(|_| panic!("no number: {word}"));
    match word {
        "exists" => true,
        "string:uuidv7" => text.is_some_and(is_uuid_v7),
        "string:nonempty" | "string:non_empty" => text.is_some_and(|text| !text.is_empty()),
        "string:datetime" => text.is_some_and(|text| OffsetDateTime::parse(text, &Rfc3339).is_ok()),
        "array:nonempty" => items.is_some_and(|items| items > 0),
        _ => {
            let (of, rest) = word.split_once([':', '~']).unwrap_or_else(|| panic!("unknown expectation: {word}"));
            match (of, rest) {
                ("string", rest) => {
                    let part = rest.strip_prefix("contains:").unwrap_or_else(|| panic!("unknown expectation: {word}"));
                    text.is_some_and(|text| text.contains(part))
                }
                ("array", rest) => {
                    let exact = rest.strip_prefix("length(").map(|rest| rest.trim_end_matches(')'));
                    let exact = exact.or_else(|| rest.strip_prefix("length:"));
                    let least = rest.strip_prefix("min_length:").or_else(|| rest.strip_prefix("min:"));
                    match (exact, least) {
                        (Some(exact), _) => items == Some(number(exact)),
                        (_, Some(least)) => items.is_some_and(|items| items >= number(least)),
                        _ => panic!("unknown expectation: {word}"),
                    }
                }
                // Within a half, as the specification of the suites says.
                ("", wanted) => {
                    let wanted: f64 = wanted.parse().unwrap_or_else(|_| panic!("no number: {word}"));
                    value.as_f64().is_some_and(|value| (wanted * 0.5..=wanted * 1.5).contains(&value))
                }
                ("number", rest) => {
                    let bounds = rest.strip_prefix("range(").and_then(|rest| rest.strip_suffix(')'));
                    let (least, most) =
                        bounds.and_then(|bounds| bounds.split_once(',')).unwrap_or_else(|| panic!("{word}"));
                    value.as_u64().is_some_and(|value| (number(least) as u64..=number(most) as u64).contains(&value))
                }
                ("one_of", rest) => rest.split(',').any(|one| value.as_u64() == Some(number(one) as u64)),
                _ => panic!("unknown expectation: {word}"),
            }
        }
    }
}

fn is_uuid_v7(text: &str) -> bool {
    let is_hex = |part: &str| part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let parts: Vec<_> = text.split('-').collect();
    parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12])
        && parts.iter().all(|part| is_hex(part))
        && parts[2].starts_with('7')
        && parts[3].starts_with(['8', '9', 'a', 'b'])
}

/// Whether two values are worth the same.
pub(crate) fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(name, value)| other.get(name).is_some_and(|o| is_same(value, o)))
        }
        _ => one == other,
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[test]
fn a_body_that_is_no_json_meets_no_expectation() {
    let expected = serde_json::json!({"$.jobs": "absent"});
    assert_eq!(check_body(Some(&serde_json::json!({})), false, &expected), Vec::<String>::new());
    assert_eq!(check_body(None, false, &expected).len(), 1);
    let either = serde_json::json!({"$or": [{"$.jobs": {"$size": 0}}, {"$empty": true}]});
    assert!(check_body(None, true, &either).is_empty());
    assert!(!check_body(Some(&serde_json::json!({"jobs": [1]})), false, &either).is_empty());
}

#[test]
fn words_are_expectations_and_anything_else_is_a_literal() {
    let value = serde_json::json!(1_400);
    assert!(matches(Some(&value), &"~1000".into()) && !matches(Some(&value), &"~3000".into()));
    assert!(
        matches(Some(&400.into()), &"number:range(400,422)".into())
            && matches(Some(&422.into()), &"one_of:400,422".into())
    );
    assert!(matches(Some(&"string_value".into()), &"string_value".into()));
    assert!(matches(Some(&serde_json::json!([])), &serde_json::json!([])) && !matches(None, &serde_json::json!([])));
    assert!(std::panic::catch_unwind(|| matches(Some(&1.into()), &"array:odd".into())).is_err());
}
