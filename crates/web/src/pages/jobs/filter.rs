//! The filter of the list of jobs, as the URL holds it. By args it is JSON that they contain, or plain text in them.

use std::collections::BTreeMap;

use serde_json::Value;
use uniqueue::json::parse_json;
use uniqueue::{JobFilter, StateSet};

use super::range::Range;
use crate::pages::prelude::*;

/// A condition on args.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ArgsCondition {
    /// They contain this object or array.
    Contain(Value),
    /// This SQL/JSON path finds something in them.
    Path(String),
}

impl ArgsCondition {
    /// Reads what was typed. An object or an array is contained. `to: ada` is text in the member `to`. Anything else is text
    /// in any member.
    pub(crate) fn read(typed: &str) -> Self {
        match parse_json(typed) {
            Ok(value @ (Value::Object(_) | Value::Array(_))) => Self::Contain(value),
            Ok(Value::String(text)) => Self::Path(path(None, &text)),
            _ => match member(typed) {
                Some((names, text)) => Self::Path(path(Some(names), text)),
                None => Self::Path(path(None, typed)),
            },
        }
    }

    /// The same condition for the library.
    pub(crate) fn add_to(self, filter: JobFilter) -> JobFilter {
        match self {
            Self::Contain(value) => filter.args(value),
            Self::Path(path) => filter.args_path(path),
        }
    }
}

/// The member that a text names, with names of outer members before it, and the text that is searched there.
pub(crate) fn member(typed: &str) -> Option<(&str, &str)> {
    let (names, text) = typed.split_once(':')?;
    let (names, text) = (names.trim(), text.trim());
    let is_name = |name: &str| !name.is_empty() && name.chars().all(|one| one.is_alphanumeric() || "_-$".contains(one));
    (!text.is_empty() && names.split('.').all(is_name)).then_some((names, text))
}

/// The path that finds a text, in upper or lower case, or a number.
fn path(names: Option<&str>, text: &str) -> String {
    let text = text.trim().trim_end_matches(['…', '*']).replace('\0', "");
    let place = match names {
        Some(names) => names.split('.').fold("$".to_owned(), |path, name| format!("{path}.{}", json_text(name))),
        None => "$.**".to_owned(),
    };
    let as_number = match serde_json::from_str(&text) {
        Ok(Value::Number(number)) => format!(" || @ == {number}"),
        Ok(word @ (Value::Bool(_) | Value::Null)) if names.is_some() => format!(" || @ == {word}"),
        _ => String::new(),
    };
    format!("{place} ? (@ like_regex {} flag \"iq\"{as_number})", json_text(&text))
}

/// A text of a path. Its escapes are JSON's.
fn json_text(text: &str) -> String {
    Value::from(text).to_string()
}

/// The conditions that a text names, and what they are to a filter. The fields of the URL and the options of the command have
/// these names.
const WORDS: [(&str, AddWord); 7] = [
    ("queue", |filter, name| filter.queue(name)),
    ("group", |filter, key| filter.group(key)),
    ("kind", |filter, name| filter.kind(name)),
    ("key", |filter, key| filter.unique_key(key)),
    ("args", |filter, typed| ArgsCondition::read(typed).add_to(filter)),
    // Of the last error.
    ("code", |filter, code| filter.error_code(code)),
    ("error-pattern", |filter, pattern| filter.error_pattern(pattern)),
];

type AddWord = fn(JobFilter, &str) -> JobFilter;

/// Conditions on jobs.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct JobQuery {
    pub(crate) states: Vec<JobState>,
    /// The conditions of [`WORDS`].
    words: BTreeMap<&'static str, String>,
    pub(crate) attempts: Option<u16>,
    pub(crate) range: Range,
    pub(crate) is_oldest_first: bool,
    /// Whether a change is proposed for all jobs of the filter but the ticked ones.
    pub(crate) is_but_ticked: bool,
    pub(crate) after: Option<JobId>,
}

impl JobQuery {
    pub(crate) fn read(fields: &Fields) -> Result<Self, Failure> {
        let mut states = Vec::new();
        for state in fields.all("state") {
            let state = state.parse().map_err(|_| Failure::Bad(format!("there is no such state: {state:?}")))?;
            if !states.contains(&state) {
                states.push(state);
            }
        }
        Ok(Self {
            states,
            words: WORDS.iter().filter_map(|(name, _)| Some((*name, fields.get(name)?.to_owned()))).collect(),
            attempts: fields.parsed("attempts")?,
            range: Range::read(fields)?,
            is_oldest_first: fields.get("order") == Some("oldest"),
            is_but_ticked: fields.get("whole") == Some("but"),
            after: fields.parsed("after")?,
        })
    }

    /// The conditions for the library.
    pub(crate) fn filter(&self, now: OffsetDateTime) -> JobFilter {
        let states = (!self.states.is_empty()).then(|| StateSet::of(&self.states));
        let filter = JobFilter::all().given(states, JobFilter::states);
        let filter = WORDS.iter().fold(filter, |filter, (name, add)| filter.given(self.word(name), add));
        let filter = filter.given(self.attempts, JobFilter::attempts_at_least);
        self.range.add_to(filter, now)
    }

    /// A filter in the order of the list.
    pub(crate) fn ordered(&self, filter: JobFilter) -> JobFilter {
        filter.given_flag(self.is_oldest_first, JobFilter::oldest_first)
    }

    /// A text in the args of any job.
    pub(crate) fn of_args(typed: &str) -> Self {
        Self { words: BTreeMap::from([("args", typed.to_owned())]), ..Self::default() }
    }

    /// The text of a condition.
    pub(crate) fn word(&self, name: &str) -> Option<&str> {
        self.words.get(name).map(String::as_str)
    }

    /// The conditions that a text names.
    pub(crate) fn words(&self) -> impl Iterator<Item = (&'static str, &str)> {
        WORDS.iter().filter_map(|(name, _)| Some((*name, self.word(name)?)))
    }

    /// The same list from its beginning without one of these conditions.
    pub(crate) fn without(&self, name: &str) -> String {
        self.with(|other| drop(other.words.remove(name)))
    }

    /// The fields of the URL.
    pub(crate) fn pairs(&self) -> Vec<(&'static str, String)> {
        let mut pairs: Vec<_> = self.states.iter().map(|state| ("state", state.to_string())).collect();
        pairs.extend(self.words().map(|(name, value)| (name, value.to_owned())));
        pairs.extend(self.attempts.map(|attempts| ("attempts", attempts.to_string())));
        pairs.extend(self.range.pairs());
        if self.is_oldest_first {
            pairs.push(("order", "oldest".to_owned()));
        }
        if self.is_but_ticked {
            pairs.push(("whole", "but".to_owned()));
        }
        pairs.extend(self.after.map(|id| ("after", id.to_string())));
        pairs
    }

    /// The path of the list, within the dashboard.
    pub(crate) fn url(&self) -> String {
        self.url_of("/jobs", &[])
    }

    /// A path with the fields of the URL and more.
    pub(crate) fn url_of(&self, path: &str, more: &[(&'static str, &str)]) -> String {
        let mut pairs = self.pairs();
        pairs.extend(more.iter().map(|(name, value)| (*name, (*value).to_owned())));
        url(path, &pairs.iter().map(|(name, value)| (*name, value.as_str())).collect::<Vec<_>>())
    }

    /// The path of the page after a job.
    pub(crate) fn after(&self, id: JobId) -> String {
        Self { after: Some(id), ..self.clone() }.url()
    }

    /// The same list from its beginning, with a change.
    pub(crate) fn with(&self, change: impl FnOnce(&mut Self)) -> String {
        let mut other = Self { after: None, ..self.clone() };
        change(&mut other);
        other.url()
    }

    /// The command that lists the same jobs.
    pub(crate) fn command(&self) -> String {
        let mut words = vec!["uniqueue job list".to_owned()];
        if !self.states.is_empty() {
            let states: Vec<_> = self.states.iter().map(|state| state.as_str()).collect();
            words.push(format!("--state {}", states.join(",")));
        }
        for (name, value) in self.words() {
            words.push(match name {
                "args" => match ArgsCondition::read(value) {
                    ArgsCondition::Contain(_) => format!("--args {}", quoted(value)),
                    ArgsCondition::Path(path) => format!("--args-path {}", quoted(&path)),
                },
                _ => format!("--{name} {}", quoted(value)),
            });
        }
        if let Some(attempts) = self.attempts {
            words.push(format!("--attempts-at-least {attempts}"));
        }
        words.extend(self.range.options());
        if self.is_oldest_first {
            words.push("--oldest-first".to_owned());
        }
        words.extend(self.after.map(|id| format!("--after {id}")));
        words.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_typed_is_json_a_member_or_text() {
        for (typed, condition) in [
            (r#"{"a": 1}"#, ArgsCondition::Contain(json!({"a": 1}))),
            ("to: ada@…", ArgsCondition::Path(r#"$."to" ? (@ like_regex "ada@" flag "iq")"#.to_owned())),
            ("user.id: 7", ArgsCondition::Path(r#"$."user"."id" ? (@ like_regex "7" flag "iq" || @ == 7)"#.to_owned())),
            ("42", ArgsCondition::Path(r#"$.** ? (@ like_regex "42" flag "iq" || @ == 42)"#.to_owned())),
            (r#"say "hi\"#, ArgsCondition::Path(r#"$.** ? (@ like_regex "say \"hi\\" flag "iq")"#.to_owned())),
            ("{not json", ArgsCondition::Path(r#"$.** ? (@ like_regex "{not json" flag "iq")"#.to_owned())),
            ("a b: c", ArgsCondition::Path(r#"$.** ? (@ like_regex "a b: c" flag "iq")"#.to_owned())),
        ] {
            assert_eq!(ArgsCondition::read(typed), condition, "{typed}");
        }
    }

    #[test]
    fn a_query_survives_its_url() {
        let text = "state=discarded&state=retryable&queue=a%26b&group=c%3A1+%27&kind=k&key=%2F%27&args=%7B%22a%22%3A1%7D&code=card_declined&error-pattern=no+row+%23&attempts=3&since=7d&order=oldest&whole=but";
        let query = JobQuery::read(&Fields::read(text)).unwrap();
        let url = query.url();
        assert_eq!(JobQuery::read(&Fields::read(url.split_once('?').unwrap().1)).unwrap(), query);
        assert_eq!(
            query.command(),
            r#"uniqueue job list --state discarded,retryable --queue 'a&b' --group 'c:1 '\''' --kind k --key '/'\''' --args '{"a":1}' --code card_declined --error-pattern 'no row #' --attempts-at-least 3 --newer-than 7d --oldest-first"#
        );
    }

    #[test]
    fn a_range_of_ones_own_survives_its_url() {
        let query =
            JobQuery::read(&Fields::read("by=failure&from=2026-01-15T09:30&to=2026-01-16&args=to:+ada")).unwrap();
        let url = query.url();
        assert_eq!(JobQuery::read(&Fields::read(url.split_once('?').unwrap().1)).unwrap(), query);
        assert_eq!(
            query.command(),
            r#"uniqueue job list --args-path '$."to" ? (@ like_regex "ada" flag "iq")' --failed-after 2026-01-15T09:30:00Z --failed-before 2026-01-16T00:00:00Z"#
        );
        assert!(JobQuery::read(&Fields::read("from=yesterday")).is_err());
    }

    #[test]
    fn a_list_goes_back_a_day_by_default() {
        assert_eq!(JobQuery::read(&Fields::default()).unwrap().range.since, 1);
    }
}
