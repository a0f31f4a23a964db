//! The fields of a form, or of a query.

use std::convert::Infallible;
use std::str::FromStr;
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde::Deserialize;
use uniqueue::JobId;
use uniqueue::period::LONGEST;

use crate::failure::Failure;

/// The units of a length of time: its word, its name, its seconds.
pub(crate) const UNITS: &[(&str, &str, u64)] =
    &[("s", "seconds", 1), ("m", "minutes", 60), ("h", "hours", 3_600), ("d", "days", 86_400)];

/// The most minutes that a time lies ahead: 100 years, as for an insert.
const MOST_MINUTES: u64 = LONGEST.as_secs() / 60;

/// The part of a path that names a thing. An application's own parts of the path may come before.
#[derive(Deserialize)]
pub(crate) struct IdPath<T> {
    pub(crate) id: T,
}

/// Fields as they were sent. Empty ones count as absent.
#[derive(Debug, Default)]
pub(crate) struct Fields(Vec<(String, String)>);

impl Fields {
    /// Reads the text of a form or a query.
    pub(crate) fn read(text: &str) -> Self {
        Self(serde_urlencoded::from_str(text).unwrap_or_default())
    }

    /// Fields with these values.
    pub(crate) fn of<const N: usize>(fields: [(&str, String); N]) -> Self {
        Self(fields.map(|(name, value)| (name.to_owned(), value)).into())
    }

    /// The first value of a field.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(given, value)| given == name && !value.is_empty()).map(|(_, value)| value.as_str())
    }

    /// Every value of a field.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(given, value)| given == name && !value.is_empty()).map(|(_, value)| value.as_str())
    }

    /// A value that must be there.
    pub(crate) fn need(&self, name: &str) -> Result<&str, Failure> {
        self.get(name).ok_or_else(|| Failure::Bad(format!("The field {name} is empty.")))
    }

    /// A value that must be there, as another type.
    pub(crate) fn need_parsed<T: FromStr>(&self, name: &str) -> Result<T, Failure> {
        parse(name, self.need(name)?)
    }

    /// A value as another type. An error names the field.
    pub(crate) fn parsed<T: FromStr>(&self, name: &str) -> Result<Option<T>, Failure> {
        self.get(name).map(|text| parse(name, text)).transpose()
    }

    /// A length of time that must be there: a number, and its unit in a field of its own. Default: seconds.
    pub(crate) fn need_length(&self, name: &str) -> Result<Duration, Failure> {
        let invalid = || Failure::Bad(format!("{name} is not valid: {:?}", self.get(name).unwrap_or_default()));
        let number: f64 = self.need_parsed(name)?;
        let unit = self.get(&format!("{name}_unit")).unwrap_or(UNITS[0].0);
        let (_, _, seconds) = UNITS.iter().find(|(word, ..)| *word == unit).ok_or_else(invalid)?;
        Duration::try_from_secs_f64(number * *seconds as f64).map_err(|_| invalid())
    }

    /// A length of time in whole minutes that must be there.
    pub(crate) fn need_minutes(&self, name: &str) -> Result<Duration, Failure> {
        let minutes: u64 = self.need_parsed(name)?;
        if minutes > MOST_MINUTES {
            return Err(Failure::Bad(format!(
                "{name} is not valid: at most {MOST_MINUTES}, which are 100 years: {minutes}"
            )));
        }
        Ok(Duration::from_secs(60 * minutes))
    }

    /// The ids of a field.
    pub(crate) fn ids(&self, name: &str) -> Result<Vec<JobId>, Failure> {
        self.all(name).map(|text| text.parse().map_err(|_| Failure::Bad(format!("not a job's id: {text:?}")))).collect()
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Fields {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::read(parts.uri.query().unwrap_or_default()))
    }
}

fn parse<T: FromStr>(name: &str, text: &str) -> Result<T, Failure> {
    text.trim().parse().map_err(|_| Failure::Bad(format!("{name} is not valid: {text:?}")))
}

/// A path with a query of the fields that are given.
pub(crate) fn url_given(path: &str, fields: &[(&str, Option<&str>)]) -> String {
    url(path, &fields.iter().filter_map(|(name, value)| Some((*name, (*value)?))).collect::<Vec<_>>())
}

/// A path with a query.
pub(crate) fn url(path: &str, pairs: &[(&str, &str)]) -> String {
    match serde_urlencoded::to_string(pairs) {
        Ok(query) if !query.is_empty() => format!("{path}?{query}"),
        _ => path.to_owned(),
    }
}
