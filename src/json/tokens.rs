//! The one scanner of JSON text, and JSON in indented lines.

/// The tokens of a JSON text as they are written, each with its place in bytes: strings with their quotes and escapes, numbers, and
/// single characters, which are brackets, braces, commas, colons, white space, and the letters of `true`, `false` and `null`.
/// Together they are the text. A text that is not JSON has tokens as well, and no error.
///
/// ```
/// use uniqueue::json::{is_number, tokens};
///
/// let numbers = tokens(r#"{"1": [2, 3.50]}"#).filter(|(_, token)| is_number(token));
/// assert_eq!(numbers.collect::<Vec<_>>(), [(7, "2"), (10, "3.50")]);
/// ```
pub fn tokens(json: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut next = 0;
    std::iter::from_fn(move || {
        let (at, rest) = (next, &json[next..]);
        let length = match rest.chars().next()? {
            '"' => string_length(rest),
            '-' | '0'..='9' => {
                rest.find(|c: char| !matches!(c, '0'..='9' | '-' | '+' | '.' | 'e' | 'E')).unwrap_or(rest.len())
            }
            other => other.len_utf8(),
        };
        next += length;
        Some((at, &rest[..length]))
    })
}

/// Whether a token is a number.
#[must_use]
pub fn is_number(token: &str) -> bool {
    token.starts_with(|first: char| first == '-' || first.is_ascii_digit())
}

fn string_length(text: &str) -> usize {
    let mut is_escaped = false;
    let end = text.bytes().skip(1).position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    });
    end.map_or(text.len(), |end| end + 2)
}

/// How deep the arrays and objects of a JSON text nest.
#[must_use]
pub fn depth(json: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    for (_, token) in tokens(json) {
        match token {
            "[" | "{" => depth += 1,
            "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// Indents JSON text by two spaces a level, and changes nothing else. Numbers keep every digit, which they lose where JSON is
/// read into doubles. Text that is not JSON gives some text, and no error.
///
/// ```
/// let args = r#"{"total":12345678901234567890.10,"items":[]}"#;
/// assert_eq!(uniqueue::json::indent_json(args), "{\n  \"total\": 12345678901234567890.10,\n  \"items\": []\n}");
/// ```
#[must_use]
pub fn indent_json(json: &str) -> String {
    let (mut pretty, mut depth) = (String::new(), 0_usize);
    let line = |pretty: &mut String, depth: usize| {
        pretty.push('\n');
        pretty.push_str(&"  ".repeat(depth));
    };
    let is_blank = |token: &&str| token.trim_ascii().is_empty();
    let mut tokens = tokens(json).map(|(_, token)| token).filter(|token| !is_blank(token)).peekable();
    while let Some(token) = tokens.next() {
        if let "}" | "]" = token {
            depth = depth.saturating_sub(1);
            line(&mut pretty, depth);
        }
        pretty.push_str(token);
        match token {
            "{" | "[" => match tokens.next_if(|next| matches!(*next, "}" | "]")) {
                Some(end) => pretty.push_str(end),
                None => {
                    depth += 1;
                    line(&mut pretty, depth);
                }
            },
            "," => line(&mut pretty, depth),
            ":" => pretty.push(' '),
            _ => {}
        }
    }
    pretty
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn depth_is_counted_outside_of_strings() {
        for (json, expected) in [
            ("1", 0),
            ("{}", 1),
            (r#"{"a":[1,{"b":[]}],"c":[]}"#, 4),
            (r#"["[[[[{{{{"]"#, 1),
            (r#"["\"[[[\\",[]]"#, 2),
            (r#"{"\\\"[":[]}"#, 2),
        ] {
            assert_eq!(depth(json), expected, "{json}");
        }
    }

    proptest! {
        #[test]
        fn the_tokens_of_any_text_are_the_text(text in "([\\[{\"\\\\1e,-]|.)*") {
            let (mut pieces, mut end) = (String::new(), 0);
            for (at, token) in tokens(&text) {
                prop_assert_eq!(at, end);
                pieces.push_str(token);
                end = pieces.len();
            }
            prop_assert_eq!(pieces, text);
        }
    }
}

#[cfg(test)]
mod indent_tests {
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
