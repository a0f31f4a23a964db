//! Text from the database, made safe for a terminal.

use std::borrow::Cow;

/// The text with what could move the cursor, colour the screen or turn the writing round spelled out: names and args may
/// come from anybody, and a row in the table may hold what the library would have refused.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match character {
            '\n' => plain.push_str("\\n"),
            '\t' => plain.push_str("\\t"),
            unsafe_one if is_unsafe(unsafe_one) => plain.push_str(&unsafe_one.escape_unicode().to_string()),
            other => plain.push(other),
        }
    }
    Cow::Owned(plain)
}

/// Whether a character could steer a terminal.
pub(super) fn is_unsafe(character: char) -> bool {
    // Control characters, line separators, and those that change the direction of the text.
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_reaches_the_terminal_that_could_steer_it() {
        assert_eq!(plain("e-mail é 漢字 \"x\""), "e-mail é 漢字 \"x\"");
        assert_eq!(plain("a\u{1b}[31mb\nc\u{9b}d\u{202e}e"), r"a\u{1b}[31mb\nc\u{9b}d\u{202e}e");
    }
}
