//! JSON text in indented lines.

/// Indents JSON text by two spaces a level, and changes nothing else. Numbers keep every digit, which they lose where JSON is
/// read into doubles. Text that is not JSON gives some text, and no error.
///
/// ```
/// let args = r#"{"total":12345678901234567890.10,"items":[]}"#;
/// assert_eq!(uniqueue::indent_json(args), "{\n  \"total\": 12345678901234567890.10,\n  \"items\": []\n}");
/// ```
#[must_use]
pub fn indent_json(json: &str) -> String {
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
                while characters.next_if(char::is_ascii_whitespace).is_some() {}
                match characters.next_if(|next| matches!(next, '}' | ']')) {
                    Some(end) => pretty.push(end),
                    None => {
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
        assert_eq!(indent_json(json), expected);
        assert_eq!(indent_json("{}"), "{}");
        assert_eq!(indent_json("7"), "7");
    }
}
