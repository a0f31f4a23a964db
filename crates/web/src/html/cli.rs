//! Texts to copy: the command that does what a page does, and JSON in indented lines.

use maud::{Markup, html};
use uniqueue::json::indent_json;

use super::hostile::beginning;
use super::{Hostile, grouped};

/// The same on the command line, to copy.
pub(crate) fn cli(command: &str) -> Markup {
    html! {
        details.cli {
            summary { "The same on the command line" }
            pre data-copy { code { (Hostile(command)) } }
        }
    }
}

/// A word of a shell.
pub(crate) fn quoted(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_plain) && !text.starts_with('-') {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A word of a shell that no command takes for an option. It must be the last one.
pub(crate) fn argument(text: &str) -> String {
    let word = quoted(text);
    if text.starts_with('-') { format!("-- {word}") } else { word }
}

/// Shows JSON in a block of at most `most` bytes of HTML. The command prints the whole JSON.
pub(crate) fn json(text: &str, most: usize, command: &str) -> Markup {
    block(&indent_json(text), most, command)
}

/// Shows a text in a block of at most `most` bytes of HTML. The button that copies stands beside whole texts only.
pub(crate) fn block(text: &str, most: usize, command: &str) -> Markup {
    let (shown, is_all) = beginning(text, most);
    html! {
        @if is_all { pre data-copy { code { (Hostile(text)) } } }
        @else {
            pre { code { (Hostile(shown)) "…" } }
            p.note { "The first " (grouped(shown.len() as u64)) " of " (grouped(text.len() as u64)) " bytes. The whole: " code { (command) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_no_option_of_a_command_and_ends_no_quotes() {
        assert_eq!(argument("--database-url=postgres://evil"), "-- '--database-url=postgres://evil'");
        assert_eq!(argument("it's"), r"'it'\''s'");
        assert_eq!(argument("emails"), "emails");
    }
}
