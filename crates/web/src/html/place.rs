//! The column with the place, where rows of several places stand in one list.

use maud::{Markup, html};

use super::Cell;
use crate::page::Page;

/// The head of the column. It is empty on pages of one queue.
pub(crate) fn place_head(page: &Page) -> Markup {
    html! { @if page.among.is_some() || page.app.all_places().is_some() { th { "Place" } } }
}

/// The cell of a row.
pub(crate) fn place_cell(page: &Page) -> Markup {
    html! { @if let Some(place) = &page.among { td.clip { a href=(page.link("/")) { (Cell(place.as_str())) } } } }
}
