//! The one scanner of JSON text, and JSON in indented lines.

/// A piece of JSON text, as it is written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Token<'a> {
    /// A string, with its quotes and escapes.
    Text(&'a str),
    /// A number.
    Number(&'a str),
    /// A bracket, a brace, a comma, a colon, white space, or a letter of `true`, `false` and `null`.
    Other(char),
}

impl Token<'_> {
    /// Appends the piece to a text.
    pub fn push_to(self, text: &mut String) {
        match self {
            Self::Text(piece) | Self::Number(piece) => text.push_str(piece),
            Self::Other(one) => text.push(one),
        }
    }
}

/// The pieces of a JSON text, each with its place in bytes. Together they are the text. A text that is not JSON has pieces as
/// well, and no error.
///
/// ```
/// use uniqueue::json::{Token, tokens};
///
/// let numbers = tokens(r#"{"1": [2, 3.50]}"#).filter(|(_, token)| matches!(token, Token::Number(_)));
/// assert_eq!(numbers.collect::<Vec<_>>(), [(7, Token::Number("2")), (10, Token::Number("3.50"))]);
/// ```
pub fn tokens(json: &str) -> impl Iterator<Item = (usize, Token<'_>)> {
    let mut next = 0;
    std::iter::from_fn(move || {
        let (at, rest) = (next, &json[next..]);
        let first = rest.chars().next()?;
        let (length, token) = match first {
            '"' => {
                let length = string_length(rest);
                (length, Token::Text(&rest[..length]))
            }
            '-' | '0'..='9' => {
                let length = rest.find(|c: char| !matches!(c, '0'..='9' | '-' | '+' | '.' | 'e' | 'E'));
                let number = &rest[..length.unwrap_or(rest.len())];
                (number.len(), Token::Number(number))
            }
            other => (other.len_utf8(), Token::Other(other)),
        };
        next += length;
        Some((at, token))
    })
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
            Token::Other('[' | '{') => depth += 1,
            Token::Other(']' | '}') => depth = depth.saturating_sub(1),
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
        fn the_pieces_of_any_text_are_the_text(text in "([\\[{\"\\\\1e,-]|.)*") {
            let (mut pieces, mut end) = (String::new(), 0);
            for (at, token) in tokens(&text) {
                prop_assert_eq!(at, end);
                token.push_to(&mut pieces);
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
