//! JSON in indented lines.

use maud::{Markup, html};
use uniqueue::indent_json;

use super::hostile::beginning;
use super::{Hostile, grouped};

/// JSON text in a block of at most so many bytes of HTML. `command` prints the whole.
pub(crate) fn json(text: &str, most: usize, command: &str) -> Markup {
    block(&indent_json(text), most, command)
}

/// A text in a block of at most so many bytes of HTML. Only a whole text can be copied.
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
