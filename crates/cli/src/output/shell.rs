//! Words of a shell, for commands that are printed to be pasted.

use super::printable::is_unsafe;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_quoted_where_it_must_be() {
        assert_eq!(["email.send", "a b", "it's", ""].map(shell_word), ["email.send", "'a b'", r"'it'\''s'", "''"]);
        assert_eq!(shell_word("a\u{1b}[31m'\\\n"), r"$'a\u001b[31m\'\\\u000a'");
    }
}
