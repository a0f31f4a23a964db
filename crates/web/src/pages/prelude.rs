//! The names that most pages use.

pub(super) use std::sync::Arc;

pub(super) use maud::{Markup, html};

pub(super) use crate::access::Right;
pub(super) use crate::failure::Failure;
pub(super) use crate::fields::{Fields, IdPath, url, url_given};
pub(super) use crate::html::*;
pub(super) use crate::page::{LOOK_UP, Page, by};
pub(super) use crate::shared::Timed;
