//! Ids of rows.

use crate::page::Page;

/// An id for a name of any characters, so that rows keep their place when the page is read again.
pub(crate) fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// An id of a row, for a name that several places may have.
pub(crate) fn row_id(page: &Page, sort: &str, name: &str) -> String {
    match &page.among {
        Some(place) => format!("{sort}-{}-{}", hex(place.as_str()), hex(name)),
        None => format!("{sort}-{}", hex(name)),
    }
}
