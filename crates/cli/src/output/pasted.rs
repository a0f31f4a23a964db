//! Commands that are printed to be pasted: words of a shell, this command's name, and the footer of a list that goes on.

use super::printable::is_unsafe;
use super::{Style, paint};

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
    use super::*;

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
