//! Text from the database, made safe for a terminal.

use std::borrow::Cow;

/// Escapes the characters that could move the cursor, colour the screen or change the direction of writing. Args come
/// from users, and a row that was written by hand may hold names that the library would refuse.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match character {
            '\n' => escaped.push_str("\\n"),
            '\t' => escaped.push_str("\\t"),
            unsafe_one if is_unsafe(unsafe_one) => escaped.push_str(&unsafe_one.escape_unicode().to_string()),
            other => escaped.push(other),
        }
    }
    Cow::Owned(escaped)
}

/// Whether a character could control a terminal.
pub(super) fn is_unsafe(character: char) -> bool {
    // Control characters, line separators, and those that change the direction of the text.
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_control_a_terminal_are_escaped() {
        assert_eq!(printable("e-mail é 漢字 \"x\""), "e-mail é 漢字 \"x\"");
        assert_eq!(printable("a\u{1b}[31mb\nc\u{9b}d\u{202e}e"), r"a\u{1b}[31mb\nc\u{9b}d\u{202e}e");
    }
}
