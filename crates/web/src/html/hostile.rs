//! Text of jobs: kinds, queues, keys, args, errors. Anybody who can insert a job can write it.

use std::fmt::Write;

use maud::{Escaper, Markup, Render, html};
use uniqueue::json::indent_json;
use uniqueue_admin::thousands as grouped;

/// The most bytes of HTML that a text has in a cell of a list.
const CELL: usize = 300;

/// The most bytes of a character that is spelled out.
const SPELLED_OUT: usize = "<span class=\"hidden-char\">U+E0000</span>".len();

/// Text of a job as HTML. Characters that are not seen, or that reorder the text around them, are spelled out.
pub(crate) struct Hostile<'a, T: ?Sized>(pub(crate) &'a T);

impl<T: AsRef<str> + ?Sized> Render for Hostile<'_, T> {
    fn render_to(&self, buffer: &mut String) {
        let mut rest = self.0.as_ref();
        while let Some(at) = rest.find(is_hidden) {
            let (shown, hidden) = rest.split_at(at);
            let _ = Escaper::new(buffer).write_str(shown);
            let mut characters = hidden.chars();
            if let Some(character) = characters.next() {
                let _ = write!(buffer, "<span class=\"hidden-char\">U+{:04X}</span>", u32::from(character));
            }
            rest = characters.as_str();
        }
        let _ = Escaper::new(buffer).write_str(rest);
    }
}

/// Shows the beginning of a job's text, in HTML of at most this many bytes. An ellipsis ends a text that is cut.
pub(crate) struct Start<'a, T: ?Sized>(pub(crate) &'a T, pub(crate) usize);

impl<T: AsRef<str> + ?Sized> Render for Start<'_, T> {
    fn render_to(&self, buffer: &mut String) {
        let Self(text, most) = self;
        let (shown, is_all) = beginning(text.as_ref(), *most);
        Hostile(shown).render_to(buffer);
        if !is_all {
            buffer.push('…');
        }
    }
}

/// A text of a job in a cell of a list, whose style clips it far earlier.
pub(crate) struct Cell<'a, T: ?Sized>(pub(crate) &'a T);

impl<T: AsRef<str> + ?Sized> Render for Cell<'_, T> {
    fn render_to(&self, buffer: &mut String) {
        Start(self.0, CELL).render_to(buffer);
    }
}

/// The beginning of a text that fits in `most` bytes of HTML, and whether the text ends there.
pub(crate) fn beginning(text: &str, most: usize) -> (&str, bool) {
    let mut bytes = 0;
    for (at, character) in text.char_indices() {
        bytes += match character {
            '&' => "&amp;".len(),
            '<' | '>' => "&lt;".len(),
            '"' => "&quot;".len(),
            character if is_hidden(character) => SPELLED_OUT,
            character => character.len_utf8(),
        };
        if bytes > most {
            return (&text[..at], false);
        }
    }
    (text, true)
}

/// The same where no element can stand, such as a title: hidden characters are left out.
pub(crate) fn plain(text: &str) -> String {
    text.chars().filter(|character| !is_hidden(*character)).collect()
}

/// Control characters except line breaks and tabs, marks that change the direction of text, and characters without width.
fn is_hidden(character: char) -> bool {
    match character {
        '\n' | '\t' => false,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' => true,
        '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}' => true,
        _ => character.is_control(),
    }
}

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
    fn a_beginning_is_measured_as_it_is_written() {
        for text in ["<>&\"'ä", "a\u{202e}\u{e0001}b", "plain"] {
            let written = Hostile(text).render().into_string().len();
            assert!(written <= 43 * text.chars().count());
            for most in 0..100 {
                let (shown, is_all) = beginning(text, most);
                assert!(Hostile(shown).render().into_string().len() <= most, "{text:?} {most}");
                assert_eq!(is_all, shown == text);
            }
            assert_eq!(beginning(text, 43 * text.len()), (text, true));
        }
        assert_eq!(Start("<<<", 8).render().into_string(), "&lt;&lt;…");
    }

    #[test]
    fn hidden_characters_are_spelled_out() {
        let html = Hostile("a\u{202e}<b>\u{0}\n").render().into_string();
        assert_eq!(
            html,
            "a<span class=\"hidden-char\">U+202E</span>&lt;b&gt;<span class=\"hidden-char\">U+0000</span>\n"
        );
    }

    #[test]
    fn a_name_is_no_option_of_a_command_and_ends_no_quotes() {
        assert_eq!(argument("--database-url=postgres://evil"), "-- '--database-url=postgres://evil'");
        assert_eq!(argument("it's"), r"'it'\''s'");
        assert_eq!(argument("emails"), "emails");
    }
}
