//! JSON in indented lines.

use maud::{Markup, html};
use uniqueue::indent_json;

use super::Hostile;

/// JSON text in a block.
pub(crate) fn json(text: &str) -> Markup {
    html! { pre data-copy { code { (Hostile(&indent_json(text))) } } }
}
