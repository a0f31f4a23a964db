//! JSON in indented lines.

use maud::{Markup, html};
use uniqueue::json::indent_json;

use super::hostile::beginning;
use super::{Hostile, grouped};

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
