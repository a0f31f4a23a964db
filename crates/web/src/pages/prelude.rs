//! The names that most pages use.

pub(super) use std::cmp::Reverse;
pub(super) use std::sync::Arc;
pub(super) use std::time::Duration;

pub(super) use axum::extract::Path;
pub(super) use axum::response::{IntoResponse, Response};
pub(super) use maud::{Markup, html};
pub(super) use time::OffsetDateTime;
pub(super) use uniqueue::{JobFilter, JobId, JobRow, JobState};
pub(super) use uniqueue_admin::Given;

pub(super) use crate::access::Right;
pub(super) use crate::failure::{Failure, in_time};
pub(super) use crate::fields::{Fields, IdPath, url, url_given};
pub(super) use crate::html::*;
pub(super) use crate::page::{LOOK_UP, Page, by};
pub(super) use crate::shared::Timed;
