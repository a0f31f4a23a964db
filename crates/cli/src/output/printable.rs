//! Text made safe: that of the database for a terminal, and messages without the passwords of database URLs.

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

/// Replaces each database URL of the command line in a message. A URL that was given in the wrong place, such as
/// `uniqueue migrate postgres://…`, would be printed with its password.
pub(crate) fn without_urls(message: &str) -> Cow<'_, str> {
    without_urls_of(message, std::env::args_os().filter_map(|word| word.into_string().ok()))
}

fn without_urls_of(message: &str, words: impl IntoIterator<Item = String>) -> Cow<'_, str> {
    let mut message = Cow::Borrowed(message);
    for word in words {
        let url = ["postgres://", "postgresql://"].iter().filter_map(|scheme| word.find(scheme)).min();
        // A URL without a user has no password.
        if let Some(url) = url.map(|at| &word[at..]).filter(|url| url.contains('@'))
            && message.contains(url)
        {
            message = Cow::Owned(message.replace(url, "postgres://…"));
        }
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_control_a_terminal_are_escaped() {
        assert_eq!(printable("e-mail é 漢字 \"x\""), "e-mail é 漢字 \"x\"");
        assert_eq!(printable("a\u{1b}[31mb\nc\u{9b}d\u{202e}e"), r"a\u{1b}[31mb\nc\u{9b}d\u{202e}e");
    }

    #[test]
    fn a_url_with_a_user_is_replaced_wherever_it_stands() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let given = words(&["uniqueue", "migrate", "postgres://ada:p@S3/x@db/app", "--url=postgresql://ada:S4@db/app"]);
        let message = "unexpected 'postgres://ada:p@S3/x@db/app', '--url=postgresql://ada:S4@db/app'";
        let said = without_urls_of(message, given);
        assert_eq!(said, "unexpected 'postgres://…', '--url=postgres://…'");
        let given = words(&["uniqueue", "postgres://db/app"]);
        assert_eq!(without_urls_of("unexpected postgres://db/app", given), "unexpected postgres://db/app");
    }
}
