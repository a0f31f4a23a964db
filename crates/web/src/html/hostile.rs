//! Text of jobs: kinds, queues, keys, args, errors. Anybody who can insert a job can write it.

use std::fmt::Write;

use maud::{Escaper, Render};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_spelled_out() {
        let html = Hostile("a\u{202e}<b>\u{0}\n").render().into_string();
        assert_eq!(
            html,
            "a<span class=\"hidden-char\">U+202E</span>&lt;b&gt;<span class=\"hidden-char\">U+0000</span>\n"
        );
    }
}
