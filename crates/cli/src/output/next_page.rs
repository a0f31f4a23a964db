//! The footer of a list that goes on.

use super::own_command::called_by;
use super::{Style, paint, shell_word};

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
