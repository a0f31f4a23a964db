//! The parts of a job that make its key, as one JSON object.

use serde_json::Value;
use time::OffsetDateTime;

use crate::json::{Flaw, Sink, write_text};
use crate::unique::select::Selected;

/// The parts of a job that a policy may read.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The job's kind.
    pub kind: &'a str,
    /// The queue it goes to.
    pub queue: &'a str,
    /// Its payload. Not read unless the policy's key depends on it.
    pub args: &'a Value,
    /// Its metadata, an object.
    pub meta: &'a Value,
    /// The time that decides the window: `scheduled_at` where it is set, otherwise the
    /// *database's* now. Not read unless the policy has a window.
    pub window_at: Option<OffsetDateTime>,
}

/// The fingerprint (docs/learn/unique.md, "How keys are made"): those members that apply, in the order of their names.
#[derive(Default)]
pub(crate) struct Fingerprint<'a> {
    pub(crate) args: Option<Selected<'a>>,
    pub(crate) meta: Option<Selected<'a>>,
    pub(crate) period: Option<String>,
    pub(crate) queue: Option<&'a str>,
    pub(crate) kind: Option<&'a str>,
}

impl Fingerprint<'_> {
    /// Writes the canonical text.
    pub(crate) fn write<S: Sink>(&self, sink: &mut S) -> Result<(), Flaw> {
        let mut separator = "{";
        for (name, part) in [("args", &self.args), ("meta", &self.meta)] {
            if let Some(part) = part {
                open(&mut separator, name, sink);
                // Depth counts from the part, so that args have one limit wherever they stand.
                part.write(0, sink)?;
            }
        }
        for (name, text) in [("period", self.period.as_deref()), ("queue", self.queue), ("type", self.kind)] {
            if let Some(text) = text {
                open(&mut separator, name, sink);
                write_text(text, sink);
            }
        }
        sink.put(if separator == "{" { "{}" } else { "}" });
        Ok(())
    }
}

fn open(separator: &mut &'static str, name: &str, sink: &mut impl Sink) {
    sink.put(separator);
    sink.put("\"");
    sink.put(name);
    sink.put("\":");
    *separator = ",";
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_members_that_apply_are_written_in_order() {
        let text = |fingerprint: Fingerprint<'_>| {
            let mut text = String::new();
            fingerprint.write(&mut text).unwrap();
            text
        };
        let args = json!({"b": 1, "a": "e\u{301}"});
        let all = Fingerprint {
            args: Some(Selected::All(&args)),
            meta: Some(Selected::Members(Vec::new())),
            period: Some("p".to_owned()),
            queue: Some("e\u{301}"),
            kind: Some("k\"\n"),
        };
        assert_eq!(text(all), r#"{"args":{"a":"é","b":1},"meta":{},"period":"p","queue":"é","type":"k\"\n"}"#);
        assert_eq!(text(Fingerprint::default()), "{}");
    }
}
