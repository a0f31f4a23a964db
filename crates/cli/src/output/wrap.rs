//! Long text in lines that fit a terminal, and the widths of standard output and standard error.

use std::io::{self, IsTerminal};

use console::Term;
use unicode_width::UnicodeWidthChar;

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
}
