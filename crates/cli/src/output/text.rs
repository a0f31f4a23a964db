//! Text for a terminal: in lines that fit, without control characters and passwords, and as commands to be pasted.

use std::borrow::Cow;
use std::io::{self, IsTerminal};

use console::Term;
use unicode_width::UnicodeWidthChar;

use super::{Style, paint};

/// Splits a text into lines of at most this width, after a blank where there is one. Joined, the lines are the text. A
/// character that is wider than the width has a line of its own. Without a width there is one line.
pub(crate) fn wrap(text: &str, width: Option<usize>) -> Vec<&str> {
    let Some(width) = width else { return vec![text] };
    let (mut parts, mut rest) = (Vec::new(), text);
    while let Some(end) = overflow(rest, width) {
        // A blank at the end of a line may stand in the margin, where it is invisible.
        let blank = rest[..end].rfind(' ').map(|at| at + 1);
        let blank = if rest[end..].starts_with(' ') { Some(end + 1) } else { blank };
        let (part, after) = rest.split_at(blank.unwrap_or(end));
        parts.push(part);
        rest = after;
    }
    if !rest.is_empty() || parts.is_empty() {
        parts.push(rest);
    }
    parts
}

/// Wraps each line of a message. An indented line stays as it is: it is a command to be copied.
pub(crate) fn wrap_lines(text: &str, width: Option<usize>) -> String {
    if width.is_none() {
        return text.to_owned();
    }
    let mut wrapped = String::new();
    for line in text.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        let parts = if line.starts_with(' ') { vec![line] } else { wrap(line, width) };
        wrapped.push_str(&parts.into_iter().map(str::trim_end).collect::<Vec<_>>().join("\n"));
        wrapped.push_str(end);
    }
    wrapped
}

/// Where the text overflows the width, if it does: after at least one character.
fn overflow(text: &str, width: usize) -> Option<usize> {
    let mut taken = 0;
    for (at, character) in text.char_indices() {
        taken += character.width().unwrap_or_default();
        if taken > width && at > 0 {
            return Some(at);
        }
    }
    None
}

/// The width in columns: the terminal's, else that of the variable COLUMNS. `None` in a pipe without it.
pub(crate) fn width() -> Option<usize> {
    let size = Term::stdout().size_checked().filter(|_| io::stdout().is_terminal());
    let columns = size.map(|(_, columns)| usize::from(columns)).filter(|columns| *columns > 0);
    columns.or_else(|| std::env::var("COLUMNS").ok()?.parse().ok().filter(|columns| *columns > 0))
}

/// The width of standard error in columns. `None` unless it is a terminal.
pub(crate) fn stderr_width() -> Option<usize> {
    let size = Term::stderr().size_checked().filter(|_| io::stderr().is_terminal());
    size.map(|(_, columns)| usize::from(columns)).filter(|columns| *columns > 0)
}

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
fn is_unsafe(character: char) -> bool {
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

/// Writes a text as one word, in quotes if needed. Characters that control a terminal are escaped as `$'…'`, which bash,
/// zsh and ksh read.
pub(crate) fn shell_word(text: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !text.is_empty() && text.chars().all(is_bare) {
        return text.to_owned();
    }
    if !text.chars().any(is_unsafe) {
        return format!("'{}'", text.replace('\'', r"'\''"));
    }
    let mut word = "$'".to_owned();
    for character in text.chars() {
        match character {
            '\'' | '\\' => word.extend(['\\', character]),
            unsafe_one if is_unsafe(unsafe_one) => word.push_str(&format!("\\u{:04x}", u32::from(unsafe_one))),
            other => word.push(other),
        }
    }
    word.push('\'');
    word
}

/// This command's name, or its path where it was called by one, as `cargo run` does.
pub(crate) fn own_command() -> String {
    called_by(&std::env::args().next().unwrap_or_default())
}

/// The command for the first word of a command line.
fn called_by(word: &str) -> String {
    if word.contains('/') { shell_word(word) } else { "uniqueue".to_owned() }
}

/// The line with the command of the next page, which goes on after the last row.
pub(crate) fn next_page(last: &str) -> String {
    paint(Style::Faint, &format!("next: {}\n", command(std::env::args(), last))).into_owned()
}

/// The same words with another --after. It omits the URL, which may hold a password.
fn command(words: impl IntoIterator<Item = String>, last: &str) -> String {
    let mut words = words.into_iter();
    let mut next = vec![called_by(&words.next().unwrap_or_default())];
    while let Some(word) = words.next() {
        match word.as_str() {
            "--after" => drop(words.next()),
            "--database-url" => {
                words.next();
                next.extend([word, "URL".to_owned()]);
            }
            _ if word.starts_with("--after=") => {}
            _ if word.starts_with("--database-url=") => next.push("--database-url=URL".to_owned()),
            _ => next.push(shell_word(&word)),
        }
    }
    // A key may begin with a dash.
    format!("{} --after={}", next.join(" "), shell_word(last))
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr;

    use super::*;

    #[test]
    fn lines_end_after_words_and_long_words_are_cut() {
        let text = "could not send: upstream said 503";
        assert_eq!(wrap(text, Some(17)), ["could not send: ", "upstream said 503"]);
        assert_eq!(wrap(text, Some(15)), ["could not send: ", "upstream said ", "503"]);
        assert_eq!(wrap("aaaabbbbcc", Some(4)), ["aaaa", "bbbb", "cc"]);
        assert_eq!(wrap(text, None), [text]);
        assert_eq!(wrap("", Some(4)), [""]);
    }

    #[test]
    fn each_line_of_a_message_is_wrapped_and_no_command() {
        let text = "could not send\n  uniqueue job show 0190\n\nend";
        assert_eq!(wrap_lines(text, Some(12)), "could not\nsend\n  uniqueue job show 0190\n\nend");
        assert_eq!(wrap_lines(text, None), text);
    }

    #[test]
    fn nothing_is_lost_at_any_width() {
        let text = "漢字漢字 a bb  ccc dddd\u{301} eeeeeeeeeeee   f";
        for width in 0..60 {
            let parts = wrap(text, Some(width));
            assert_eq!(parts.concat(), text, "{width}");
            let widest = parts.iter().map(|part| part.trim_end().width()).max().unwrap();
            assert!(widest <= width.max(2), "{widest} in {width}");
        }
    }

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

    #[test]
    fn a_word_is_quoted_where_it_must_be() {
        assert_eq!(["email.send", "a b", "it's", ""].map(shell_word), ["email.send", "'a b'", r"'it'\''s'", "''"]);
        assert_eq!(shell_word("a\u{1b}[31m'\\\n"), r"$'a\u001b[31m\'\\\u000a'");
    }

    #[test]
    fn the_next_page_is_the_same_command_with_another_start() {
        let next = |line: &[&str]| command(line.iter().map(|word| (*word).to_owned()), "-a b");
        assert_eq!(next(&["./uq", "job", "list"]), "./uq job list --after='-a b'");
        assert_eq!(
            next(&["uq", "job", "list", "--after", "x", "--args", "{\"it's\": 1}", "--after=y"]),
            r#"uniqueue job list --args '{"it'\''s": 1}' --after='-a b'"#
        );
        assert_eq!(
            next(&["uq", "job", "list", "--database-url", "postgres://u:p@h/d", "--database-url=z"]),
            "uniqueue job list --database-url URL --database-url=URL --after='-a b'"
        );
    }
}
