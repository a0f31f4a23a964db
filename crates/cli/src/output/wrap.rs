//! Long text in lines that a terminal holds.

use unicode_width::UnicodeWidthChar;

/// The text in parts of this width at most, each ended after a blank where it has one. Put together they are the text: nothing
/// is lost, not even where a character is wider than the width. `None`: in one.
pub(crate) fn wrapped(text: &str, width: Option<usize>) -> Vec<&str> {
    let Some(width) = width else { return vec![text] };
    let (mut parts, mut rest) = (Vec::new(), text);
    while let Some(end) = beyond(rest, width) {
        // A blank that ends a part may stand in the margin: it is not seen there.
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

/// Where the text is cut to fit, if it has to be: after one character at least.
fn beyond(text: &str, width: usize) -> Option<usize> {
    let mut taken = 0;
    for (at, character) in text.char_indices() {
        taken += character.width().unwrap_or_default();
        if taken > width && at > 0 {
            return Some(at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr;

    use super::*;

    #[test]
    fn lines_end_after_words_and_long_words_are_cut() {
        let text = "could not send: upstream said 503";
        assert_eq!(wrapped(text, Some(17)), ["could not send: ", "upstream said 503"]);
        assert_eq!(wrapped(text, Some(15)), ["could not send: ", "upstream said ", "503"]);
        assert_eq!(wrapped("aaaabbbbcc", Some(4)), ["aaaa", "bbbb", "cc"]);
        assert_eq!(wrapped(text, None), [text]);
        assert_eq!(wrapped("", Some(4)), [""]);
    }

    #[test]
    fn nothing_is_lost_at_any_width() {
        let text = "漢字漢字 a bb  ccc dddd\u{301} eeeeeeeeeeee   f";
        for width in 0..60 {
            let parts = wrapped(text, Some(width));
            assert_eq!(parts.concat(), text, "{width}");
            let widest = parts.iter().map(|part| part.trim_end().width()).max().unwrap();
            assert!(widest <= width.max(2), "{widest} in {width}");
        }
    }
}
