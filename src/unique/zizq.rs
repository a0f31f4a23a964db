//! The texts that Zizq's own clients hash, for services that move over or share keys with them.
//!
//! Neither normalizes Unicode, and both hash the output of their language's JSON writer.

use serde_json::Value;

use crate::unique::canonical::{Sink, utf16_order, write_double, write_string};
use crate::unique::flaw::Flaw;
use crate::unique::number;

/// The text that Zizq's Rust client hashes: compact JSON, members sorted by UTF-8 bytes, numbers and
/// strings as `serde_json` writes them.
///
/// The value's depth must have been checked: this recurses.
pub(crate) fn write_rust<S: Sink>(value: &Value, sink: &mut S) {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(name, _)| name.as_bytes());
            let mut separator = "{";
            for (name, member) in members {
                sink.put(separator);
                write_string(name, sink);
                sink.put(":");
                write_rust(member, sink);
                separator = ",";
            }
            sink.put(if separator == "{" { "{}" } else { "}" });
        }
        Value::Array(items) => {
            let mut separator = "[";
            for item in items {
                sink.put(separator);
                write_rust(item, sink);
                separator = ",";
            }
            sink.put(if separator == "[" { "[]" } else { "]" });
        }
        Value::String(text) => write_string(text, sink),
        Value::Number(number) => sink.put(&number.to_string()),
        Value::Bool(_) | Value::Null => write_word(value, sink),
    }
}

/// The text that Zizq's Node client hashes: members sorted by UTF-16 code units, numbers as doubles, and a
/// comma after *every* member and item, the last one too.
///
/// The value's depth must have been checked: this recurses. An integer whose digits JavaScript would round is an error.
pub(crate) fn write_node<S: Sink>(value: &Value, sink: &mut S) -> Result<(), Flaw> {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by(|(left, _), (right, _)| utf16_order(left, right));
            sink.put("{");
            for (name, member) in members {
                write_string(name, sink);
                sink.put(":");
                write_node(member, sink)?;
                sink.put(",");
            }
            sink.put("}");
        }
        Value::Array(items) => {
            sink.put("[");
            for item in items {
                write_node(item, sink)?;
                sink.put(",");
            }
            sink.put("]");
        }
        Value::String(text) => write_string(text, sink),
        // JavaScript has no other numbers.
        Value::Number(given) => {
            number::check_double(&given.to_string())?;
            write_double(given.as_f64().unwrap_or(f64::NAN), sink);
        }
        Value::Bool(_) | Value::Null => write_word(value, sink),
    }
    Ok(())
}

fn write_word(value: &Value, sink: &mut impl Sink) {
    sink.put(match value {
        Value::Bool(true) => "true",
        Value::Bool(false) => "false",
        _ => "null",
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts(value: &Value) -> [String; 2] {
        let mut texts = [String::new(), String::new()];
        write_rust(value, &mut texts[0]);
        write_node(value, &mut texts[1]).unwrap();
        texts
    }

    #[test]
    fn rust_text_is_compact_json_as_serde_json_writes_it() {
        let value = json!({
            "b": [1, 1.0, 1.5, "e\u{301}\u{1}\u{7f}\"/"], "a": {}, "😀": null, "\u{ff5e}": [],
        });
        assert_eq!(
            texts(&value)[0],
            "{\"a\":{},\"b\":[1,1.0,1.5,\"e\u{301}\\u0001\u{7f}\\\"/\"],\"\u{ff5e}\":[],\"😀\":null}"
        );
    }

    #[test]
    fn node_text_has_a_comma_after_every_member_and_item() {
        let value = json!({
            "\u{ff5e}": [], "😀": {}, "b": [1.0, 1e21, -0.0, 9007199254740993_u64, [true, false]],
            "a": {"z": null, "y": "e\u{301}\u{8}\u{7f}\u{2028}"},
        });
        assert_eq!(
            texts(&value)[1],
            "{\"a\":{\"y\":\"e\u{301}\\b\u{7f}\u{2028}\",\"z\":null,},\
             \"b\":[1,1e+21,0,9007199254740992,[true,false,],],\"😀\":{},\"\u{ff5e}\":[],}"
        );
    }
}
