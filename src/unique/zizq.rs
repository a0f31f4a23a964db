//! The texts that Zizq's own clients hash, for services that move over or share keys with them.
//!
//! Neither normalizes Unicode, and both hash the output of their language's JSON writer.

use serde_json::Value;

use crate::json::{Flaw, Sink, check_double, utf16_order, write_double, write_string};

/// The text that Zizq's Rust client hashes: compact JSON, members sorted by UTF-8 bytes, numbers and
/// strings as `serde_json` writes them.
///
/// The value's depth must have been checked: this recurses.
pub(crate) fn rust_text(value: &mut Value) -> String {
    // They are sorted already, unless another crate switched on `preserve_order`.
    value.sort_all_objects();
    value.to_string()
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
            check_double(&given.to_string())?;
            write_double(given.as_f64().unwrap_or(f64::NAN), sink);
        }
        Value::Bool(_) | Value::Null => sink.put(&value.to_string()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts(value: &Value) -> [String; 2] {
        let mut node = String::new();
        write_node(value, &mut node).unwrap();
        [rust_text(&mut value.clone()), node]
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
