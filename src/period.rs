//! Lengths of time in policies.
//!
//! A length is short, such as `90s`, `1h30m` or `7d`, or an ISO 8601 duration, such as `PT15M` or `P1DT12H`. A day is 24
//! hours and a week 7 days in every time zone. Years and months have no fixed length. Only the [`Length`] of a claim may
//! have them, as `P1M` and `P1Y`.

use std::time::Duration;

use crate::error::Result;

pub mod seconds;
mod short;
mod window;

pub use short::format_duration;
#[doc(inline)]
pub use uniqueue_policy::{LONGEST, Length};
pub(crate) use window::window;

/// Reads a length of time without years and months, as [`Length`] does.
///
/// # Errors
///
/// [`Error::InvalidPeriod`](crate::Error::InvalidPeriod).
pub fn parse(text: &str) -> Result<Duration> {
    Ok(uniqueue_policy::exact(text)?)
}

/// Writes a length of time as an ISO 8601 duration without empty parts: `P7D`, `PT1H30M`,
/// `PT0.25S`. [`parse`] reads it back as the same length.
#[must_use]
pub fn write(length: Duration) -> String {
    Length::from(length).to_string()
}
