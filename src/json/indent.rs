//! JSON text in indented lines.

use super::tokens::{Token, tokens};

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
    let is_blank = |token: &Token<'_>| matches!(token, Token::Other(blank) if blank.is_ascii_whitespace());
    let mut tokens = tokens(json).map(|(_, token)| token).filter(|token| !is_blank(token)).peekable();
    while let Some(token) = tokens.next() {
        if let Token::Other('}' | ']') = token {
            depth = depth.saturating_sub(1);
            line(&mut pretty, depth);
        }
        token.push_to(&mut pretty);
        match token {
            Token::Other('{' | '[') => match tokens.next_if(|next| matches!(next, Token::Other('}' | ']'))) {
                Some(end) => end.push_to(&mut pretty),
                None => {
                    depth += 1;
                    line(&mut pretty, depth);
                }
            },
            Token::Other(',') => line(&mut pretty, depth),
            Token::Other(':') => pretty.push(' '),
            _ => {}
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
