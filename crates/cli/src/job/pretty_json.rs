//! JSON text in indented lines.
//!
//! serde_json would read numbers as doubles and lose digits, so this works on the text.

/// Indents JSON text, and changes nothing else.
pub(super) fn pretty(json: &str) -> String {
    let (mut pretty, mut depth, mut is_text, mut is_escaped) = (String::new(), 0_usize, false, false);
    let line = |pretty: &mut String, depth: usize| {
        pretty.push('\n');
        pretty.push_str(&"  ".repeat(depth));
    };
    let mut characters = json.trim().chars().peekable();
    while let Some(character) = characters.next() {
        if is_text {
            pretty.push(character);
            is_text = is_escaped || character != '"';
            is_escaped = !is_escaped && character == '\\';
            continue;
        }
        match character {
            '{' | '[' => {
                pretty.push(character);
                while characters.peek().is_some_and(|next| next.is_ascii_whitespace()) {
                    characters.next();
                }
                match characters.peek() {
                    Some(end @ ('}' | ']')) => {
                        pretty.push(*end);
                        characters.next();
                    }
                    _ => {
                        depth += 1;
                        line(&mut pretty, depth);
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut pretty, depth);
                pretty.push(character);
            }
            ',' => {
                pretty.push(character);
                line(&mut pretty, depth);
            }
            ':' => pretty.push_str(": "),
            blank if blank.is_ascii_whitespace() => {}
            other => {
                is_text = other == '"';
                pretty.push(other);
            }
        }
    }
    pretty
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_indented_and_otherwise_unchanged() {
        let json = r#"{"a": 12345678901234567890.10, "b{": ["x\"]\\", {}, [ ], null], "c": {"d": -1e5}}"#;
        let expected = "{\n  \"a\": 12345678901234567890.10,\n  \"b{\": [\n    \"x\\\"]\\\\\",\n    {},\n    [],\n    \
                        null\n  ],\n  \"c\": {\n    \"d\": -1e5\n  }\n}";
        assert_eq!(pretty(json), expected);
        assert_eq!(pretty("{}"), "{}");
        assert_eq!(pretty("7"), "7");
    }
}
