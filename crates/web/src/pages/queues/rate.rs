//! Rates in words.

use maud::{Markup, html};
use uniqueue::Rate;

use crate::html::grouped;

/// A rate in words.
pub(in crate::pages) fn rate(rate: Option<Rate>) -> Markup {
    html! {
        @match rate {
            // The burst is said in words.
            Some(rate) => { (rate.burst(rate.count)) span.note { " · up to " (grouped(u64::from(rate.burst))) " start at once" } }
            None => "any",
        }
    }
}
