//! From a policy and a job to the claim: the checks, the fingerprint, the key.

use serde_json::value::RawValue;
use serde_json::{Map, Value};
use time::OffsetDateTime;
use uniqueue_policy::{Length, Part, UpdateArgs};

use crate::error::Result;
use crate::json::{self, Flaw};
use crate::period;
use crate::unique::claim::{self, Claim, invalid};
use crate::unique::fingerprint::{Fingerprint, Selected, Subject, named_args};
use crate::unique::policy::UniquePolicy;
use crate::unique::raw_key::sha256_hex;

/// The longest canonical text that is the key of a group itself.
const MAX_READABLE_BYTES: usize = 128;

impl UniquePolicy {
    /// Checks all that can be checked without a job.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidPolicy`](crate::Error::InvalidPolicy) for a policy that can never work: no
    /// state, two time limits, nothing to make a key from, a malformed JSON Pointer, a key that
    /// does not stand alone. [`Error::InvalidPeriod`](crate::Error::InvalidPeriod) for a length
    /// of time outside its limits, [`Error::InvalidKey`](crate::Error::InvalidKey) for a key text
    /// outside its own.
    pub fn check(&self) -> Result<()> {
        claim::check(&self.terms)?;
        match &self.key {
            Some(text) => self.check_key(text),
            None => self.parts.problem(&self.terms).map_or(Ok(()), |problem| Err(problem.into())),
        }
    }

    /// The claim that this job makes; `None` when the policy enforces nothing.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check); also
    /// [`Error::InvalidPolicy`](crate::Error::InvalidPolicy) when the job lacks a required
    /// part, and [`Error::InvalidKey`](crate::Error::InvalidKey) when the parts of the key
    /// have members that collide after NFC, nest too deeply, or have a number that a double cannot hold.
    pub fn resolve(&self, subject: &Subject<'_>) -> Result<Option<Claim>> {
        let key = match (self.fingerprint(subject)?, &self.key) {
            (Some(fingerprint), _) => sha256_hex(|sink| fingerprint.write(sink)).map_err(Flaw::in_key)?,
            (None, Some(Ok(text))) if self.is_enforced => text.clone(),
            (None, _) => return Ok(None),
        };
        Ok(Some(Claim { key, terms: self.terms.clone() }))
    }

    /// The text whose SHA-256 is this job's key, for people to read; `None` when the policy
    /// enforces nothing or its key is given.
    ///
    /// # Errors
    ///
    /// As [`resolve`](Self::resolve).
    pub fn canonical(&self, subject: &Subject<'_>) -> Result<Option<String>> {
        let Some(fingerprint) = self.fingerprint(subject)? else { return Ok(None) };
        let mut text = String::new();
        fingerprint.write(&mut text).map_err(Flaw::in_key)?;
        Ok(Some(text))
    }

    /// The key of the group that this job belongs to: the canonical text, which says for people what the jobs have in
    /// common, or its SHA-256 where the text is long. `None` when the policy makes no key.
    ///
    /// # Errors
    ///
    /// As [`resolve`](Self::resolve).
    pub fn group_key(&self, subject: &Subject<'_>) -> Result<Option<String>> {
        match self.canonical(subject)? {
            Some(text) if text.len() <= MAX_READABLE_BYTES => Ok(Some(text)),
            _ => Ok(self.resolve(subject)?.map(|claim| claim.key)),
        }
    }

    /// Shows `make` a job as this policy reads it: its args and meta are read only where the key depends on them.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidJson`](crate::Error::InvalidJson) where the key depends on args of which no key can be made; the
    /// errors of `make`.
    pub fn read_job<T>(
        &self,
        kind: &str,
        queue: &str,
        args: &RawValue,
        meta: &Map<String, Value>,
        window_at: Option<OffsetDateTime>,
        make: impl FnOnce(&Subject<'_>) -> Result<T>,
    ) -> Result<T> {
        let args = if self.needs_args() { json::read_args(kind, args)? } else { Value::Null };
        let meta = if self.needs_meta() { Value::Object(meta.clone()) } else { Value::Null };
        make(&Subject { kind, queue, args: &args, meta: &meta, window_at })
    }

    /// The parts of a job that make its key, where this policy makes one. Checks the policy first.
    fn fingerprint<'a>(&self, subject: &Subject<'a>) -> Result<Option<Fingerprint<'a>>> {
        if !self.is_enforced {
            return Ok(None);
        }
        self.check()?;
        if self.key.is_some() {
            return Ok(None);
        }
        self.check_append(subject)?;
        let args = Selected::of(subject.args, self.parts.args.as_deref(), "args_keys")?;
        let meta = Selected::of(subject.meta, self.parts.meta.as_deref(), "meta_keys")?;
        let period = match (self.terms.window, subject.window_at) {
            (None, _) => None,
            (Some(length), Some(instant)) => Some(period::window(instant, length)?.fingerprint()),
            (Some(length), None) => {
                return Err(invalid("window", format!("needs the job's time: {}", Length::from(length))));
            }
        };
        Ok(Some(Fingerprint {
            args,
            meta,
            period,
            queue: self.parts.has_queue.then_some(subject.queue),
            kind: self.parts.has_kind.then_some(subject.kind),
        }))
    }

    /// Checks that no array that the key is made from would get more items.
    fn check_append(&self, subject: &Subject<'_>) -> Result<()> {
        let appends = self.terms.changes().is_some_and(|update| update.args == UpdateArgs::Append);
        let Some(parts) = self.parts.args.as_deref().filter(|_| appends) else { return Ok(()) };
        let args = named_args(subject.args);
        match parts.iter().map(Part::member).find(|name| args.get(name).is_some_and(Value::is_array)) {
            Some(name) => {
                Err(invalid("update", format!("append would change a member that the key is made from: {name:?}")))
            }
            None => Ok(()),
        }
    }

    fn check_key(&self, text: &Result<String, Flaw>) -> Result<()> {
        let beside = [
            (!self.parts.has_kind, "exclude_type"),
            (self.needs_args(), "args"),
            (self.needs_meta(), "meta"),
            (self.parts.has_queue, "queue"),
            (self.terms.window.is_some(), "window"),
        ];
        if let Some((_, other)) = beside.into_iter().find(|(is_there, _)| *is_there) {
            return Err(invalid("key", format!("stands alone, without {other}")));
        }
        text.as_ref().map(drop).map_err(|flaw| flaw.clone().in_key())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};
    use time::macros::datetime;
    use uniqueue_policy::{OnConflict, Update};

    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn subject<'a>(args: &'a Value, meta: &'a Value) -> Subject<'a> {
        Subject { kind: "k", queue: "q", args, meta, window_at: Some(datetime!(2026-02-12 15:21 UTC)) }
    }

    fn canonical(policy: UniquePolicy, args: &Value, meta: &Value) -> String {
        policy.canonical(&subject(args, meta)).unwrap().unwrap()
    }

    #[test]
    fn each_dimension_adds_its_member() {
        let (args, meta) = (json!({"b": 1, "a": 2}), json!({"tenant": "t", "trace": "x"}));
        for (policy, text) in [
            (UniquePolicy::new(), r#"{"type":"k"}"#),
            (UniquePolicy::new().by_args(), r#"{"args":{"a":2,"b":1},"type":"k"}"#),
            (UniquePolicy::new().by_arg_fields(["b"]), r#"{"args":{"b":1},"type":"k"}"#),
            (UniquePolicy::new().optional_arg_fields(["c"]), r#"{"args":{},"type":"k"}"#),
            (UniquePolicy::new().by_meta(["tenant", "no"]), r#"{"meta":{"tenant":"t"},"type":"k"}"#),
            (UniquePolicy::new().by_queue().exclude_kind(), r#"{"queue":"q"}"#),
            (UniquePolicy::new().window(HOUR), r#"{"period":"2026-02-12T15:00:00Z/PT3600S","type":"k"}"#),
        ] {
            assert_eq!(canonical(policy, &args, &meta), text);
        }
    }

    #[test]
    fn the_key_of_a_group_says_what_its_jobs_have_in_common() {
        let meta = json!({});
        let key = |policy: UniquePolicy, args: &Value| policy.group_key(&subject(args, &meta)).unwrap();
        let by_customer = || UniquePolicy::new().by_arg_fields(["customer"]).exclude_kind();
        let readable = key(by_customer(), &json!({"customer": 42, "n": 1}));
        assert_eq!(readable.as_deref(), Some(r#"{"args":{"customer":42}}"#));
        // The text has 24 bytes besides the name.
        for (bytes, is_readable) in [(104, true), (105, false)] {
            let args = json!({"customer": "x".repeat(bytes)});
            let text = by_customer().canonical(&subject(&args, &meta)).unwrap().unwrap();
            assert_eq!(text.len(), bytes + 24);
            let hash = by_customer().resolve(&subject(&args, &meta)).unwrap().map(|claim| claim.key);
            assert_eq!(key(by_customer(), &args), if is_readable { Some(text) } else { hash });
        }
        assert_eq!(key(UniquePolicy::new().key("k"), &json!({})).as_deref(), Some("k"));
        assert_eq!(key(UniquePolicy::river(), &json!({})), None);
    }

    #[test]
    fn policies_that_can_never_work_are_refused_without_a_job() {
        for (policy, field) in [
            (UniquePolicy::new().states([]), "states"),
            (UniquePolicy::new().exclude_kind(), "exclude_type"),
            (UniquePolicy::river().exclude_kind(), "exclude_type"),
            (UniquePolicy::new().by_arg_fields::<&str>([]), "args_keys"),
            (UniquePolicy::new().by_meta::<&str>([]), "meta_keys"),
            (UniquePolicy::new().by_meta(["/~"]), "meta_keys"),
            (UniquePolicy::new().period(HOUR).ttl(HOUR), "ttl"),
            (UniquePolicy::new().period(HOUR).window(HOUR), "window"),
            (UniquePolicy::faktory(HOUR).window(HOUR), "window"),
            (UniquePolicy::new().key("k").by_queue(), "key"),
            (UniquePolicy::new().key("k").exclude_kind(), "key"),
            (UniquePolicy::zizq().key("k"), "key"),
            (UniquePolicy::new().on_conflict(OnConflict::RunAgain), "on_conflict"),
            (UniquePolicy::new().update(Update::latest().push(Duration::ZERO)), "max_delay"),
            (UniquePolicy::new().period(HOUR).update(Update::latest().push(2 * HOUR)), "max_delay"),
            (UniquePolicy::new().update(Update::append().max_items(0)), "max_items"),
            (UniquePolicy::new().update(Update::merge().max_items(5)), "max_items"),
        ] {
            let error = policy.check().unwrap_err().to_string();
            assert!(error.starts_with(&format!("invalid unique policy: {field}: ")), "{error}");
        }
        assert!(UniquePolicy::new().window(Duration::from_millis(500)).check().is_err());
        assert!(UniquePolicy::new().period(Duration::from_nanos(1)).check().is_err());
        assert!(UniquePolicy::new().key("\0").check().is_err());
    }

    #[test]
    fn what_the_job_lacks_is_named() {
        let (args, meta) = (json!({"a": 1}), json!({}));
        let error = UniquePolicy::new().by_arg_fields(["a", "b"]).resolve(&subject(&args, &meta));
        assert_eq!(error.unwrap_err().to_string(), "invalid unique policy: args_keys: the job has no member \"b\"");
        let mut without_time = subject(&args, &meta);
        without_time.window_at = None;
        assert!(UniquePolicy::new().window(HOUR).resolve(&without_time).is_err());
        assert!(UniquePolicy::new().resolve(&without_time).is_ok());
    }

    #[test]
    fn collisions_are_errors_that_name_the_member() {
        let collides = json!({"\u{e9}": 1, "e\u{301}": 2});
        let policy = UniquePolicy::new().by_args();
        assert_eq!(
            policy.resolve(&subject(&collides, &collides)).unwrap_err().to_string(),
            "invalid unique key: two members have one name after Unicode NFC: \"é\""
        );
        // Parts that the key does not use are not read.
        let policy = UniquePolicy::new().by_arg_fields(["\u{e9}"]);
        assert!(policy.resolve(&subject(&collides, &collides)).is_ok());
        let policy = UniquePolicy::new().by_meta(["\u{e9}", "e\u{301}"]);
        assert!(policy.resolve(&subject(&collides, &collides)).is_err());
    }
}
