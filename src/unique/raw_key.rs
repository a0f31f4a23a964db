//! Keys that the caller makes: Zizq's surface.

use serde::Serialize;
use sha2::{Digest, Sha256};
use uniqueue_policy::{OnConflict, Terms, UniqueScope};

use crate::error::Result;
use crate::json::{self, Flaw, Sink};
use crate::unique::claim::{self, Claim};
use crate::unique::zizq;

/// The longest key, in bytes of UTF-8. An index row of PostgreSQL holds about 2,700.
pub const MAX_KEY_BYTES: usize = 512;

/// A unique key made by the caller, and the terms of its claim.
///
/// Two jobs with one key text are the same, even if their kinds differ. Defaults, as Zizq has them:
/// scope [`Queued`](UniqueScope::Queued), a duplicate is ignored.
///
/// ```
/// use uniqueue::{UniqueKey, UniqueScope};
///
/// let key = UniqueKey::raw("rebuild_index").scope(UniqueScope::Active);
/// assert_eq!(key.text()?, "rebuild_index");
///
/// let key = UniqueKey::tagged_hash_of("send_email", ("alice@example.com", "Welcome!"));
/// assert!(key.text()?.starts_with("send_email:"));
/// # Ok::<(), uniqueue::Error>(())
/// ```
///
/// Making a key never fails or panics. A problem (a value that does not serialize to
/// JSON, a text that is empty, longer than 512 bytes or holds NUL) is reported where the key is
/// used: by [`text`](Self::text), [`claim`](Self::claim) and every insert.
#[derive(Clone, Debug, Eq, PartialEq)]
#[must_use = "a key does nothing until a job carries it"]
pub struct UniqueKey {
    text: Result<String, Flaw>,
    terms: Terms,
}

impl UniqueKey {
    /// This text, verbatim: 1 to 512 bytes, no NUL.
    ///
    /// Unless a scope is set, the job claims the key *while it is queued* ([`Queued`](UniqueScope::Queued)), as Zizq's keys
    /// do: once it runs, the next job with the key is inserted. The same text in a policy
    /// ([`UniquePolicy::key`](crate::UniquePolicy::key)) is claimed *while the job is active*: until it is over. Producers
    /// that share a key should set the scope.
    pub fn raw(text: impl Into<String>) -> Self {
        Self::new(Ok(text.into()))
    }

    /// The lowercase hex SHA-256 of the value's canonical JSON ([`canonical_json`]): the same for
    /// a struct, a `serde_json::Value` and JSON text, in every member order.
    ///
    /// A tuple is an array, so the order of its items counts. Where Zizq's Rust client would hash
    /// the same text (integers, strings in NFC, no member names beyond U+FFFF), the key is the one it
    /// makes; for the others see [`zizq_rust`](Self::zizq_rust).
    ///
    /// [`canonical_json`]: crate::json::canonical_json
    pub fn hash_of(value: impl Serialize) -> Self {
        Self::new(canonical_hash(&value))
    }

    /// As [`hash_of`](Self::hash_of), with a readable prefix: `tag:hash`. The tag is usually the
    /// kind, so that jobs of two kinds with equal data stay apart.
    pub fn tagged_hash_of(tag: &str, value: impl Serialize) -> Self {
        Self::new(canonical_hash(&value).map(|hash| format!("{tag}:{hash}")))
    }

    /// The key that Zizq's Rust client makes with its `tagged_hash_of`: compact sorted JSON,
    /// Unicode and numbers as `serde_json` writes them.
    pub fn zizq_rust(tag: &str, value: impl Serialize) -> Self {
        Self::new(zizq_rust_hash(&value).map(|hash| format!("{tag}:{hash}")))
    }

    /// The key that Zizq's Rust client makes with its `hash_of`, which has no tag.
    pub fn zizq_rust_hash_of(value: impl Serialize) -> Self {
        Self::new(zizq_rust_hash(&value))
    }

    /// The key that Zizq's Node client makes with `uniqueKey()`: sorted JSON with a comma after
    /// *every* member and item, numbers and strings as JavaScript writes them. The tag is the job
    /// type.
    ///
    /// ```
    /// # use uniqueue::UniqueKey;
    /// let payload = serde_json::json!({"to": "test@test.com", "subject": "Example"});
    /// assert_eq!(
    ///     UniqueKey::zizq_node("example_job", payload).text()?,
    ///     "example_job:3c6da81af475f0b1ddeac43095199334b3ebfaafff9a7e6794b4d4e38122c597"
    /// );
    /// # Ok::<(), uniqueue::Error>(())
    /// ```
    pub fn zizq_node(tag: &str, value: impl Serialize) -> Self {
        let hash = json::value_of(&value).and_then(|value| sha256_hex(|sink| zizq::write_node(&value, sink)));
        Self::new(hash.map(|hash| format!("{tag}:{hash}")))
    }

    terms_setters!();

    /// The key's text.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidKey`](crate::Error::InvalidKey) when the text is empty, longer than 512
    /// bytes or holds NUL, or the value it was to be made from does not serialize to JSON.
    pub fn text(&self) -> Result<&str> {
        match &self.text {
            Ok(text) => Ok(text),
            Err(flaw) => Err(flaw.clone().in_key()),
        }
    }

    /// The claim that a job with this key makes.
    ///
    /// # Errors
    ///
    /// As [`text`](Self::text); [`Error::InvalidPolicy`](crate::Error::InvalidPolicy) and
    /// [`Error::InvalidPeriod`](crate::Error::InvalidPeriod) when the terms can never work.
    pub fn claim(&self) -> Result<Claim> {
        let text = self.text()?;
        claim::check(&self.terms)?;
        Ok(Claim { key: text.to_owned(), terms: self.terms.clone() })
    }

    pub(crate) fn into_parts(self) -> (Result<String, Flaw>, Terms) {
        (self.text, self.terms)
    }

    fn new(text: Result<String, Flaw>) -> Self {
        Self { text: text.and_then(checked), terms: Terms::new(UniqueScope::Queued.states(), OnConflict::Ignore) }
    }

    /// A key always is.
    fn mark_enforced(&mut self) {}
}

impl From<&str> for UniqueKey {
    fn from(text: &str) -> Self {
        Self::raw(text)
    }
}

impl From<String> for UniqueKey {
    fn from(text: String) -> Self {
        Self::raw(text)
    }
}

/// A key's text, checked.
pub(crate) fn checked(text: String) -> Result<String, Flaw> {
    if text.is_empty() {
        Err(Flaw::new("must not be empty", &text))
    } else if text.len() > MAX_KEY_BYTES {
        Err(Flaw::new("must not be longer than 512 bytes", &text))
    } else if text.contains('\0') {
        Err(Flaw::new("must not hold the character NUL", &text))
    } else {
        Ok(text)
    }
}

/// The lowercase hex SHA-256 of the output of `write`.
pub(crate) fn sha256_hex(write: impl FnOnce(&mut Sha256) -> Result<(), Flaw>) -> Result<String, Flaw> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";

    let mut hash = Sha256::new();
    write(&mut hash)?;
    let mut hex = String::with_capacity(64);
    for byte in hash.finalize() {
        hex.push(char::from(DIGITS[usize::from(byte >> 4)]));
        hex.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    Ok(hex)
}

fn canonical_hash(value: &impl Serialize) -> Result<String, Flaw> {
    let value = json::value_of(value)?;
    sha256_hex(|sink| json::write(&value, sink))
}

fn zizq_rust_hash(value: &impl Serialize) -> Result<String, Flaw> {
    // Zizq serializes to a `Value` at once, so an f32 has the digits of its f64. The text comes
    // first all the same: it refuses values that nest too deeply, which would end the stack here, and numbers that no key
    // can hold.
    json::value_of(value)?;
    let mut value = serde_json::to_value(value)
        .map_err(|error| Flaw::new("the value does not serialize to JSON", &error.to_string()))?;
    sha256_hex(|sink| {
        sink.put(&zizq::rust_text(&mut value));
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use serde::Serializer;
    use serde_json::{Value, json};

    use super::*;
    use crate::error::Error;
    use crate::unique::{OnReentry, StateSet, Until};

    #[test]
    fn raw_keys_are_stored_verbatim() {
        for text in ["rebuild_index", " ", "e\u{301}", &"é".repeat(256)] {
            assert_eq!(UniqueKey::raw(text).text().unwrap(), text);
            assert_eq!(UniqueKey::from(text), UniqueKey::from(text.to_owned()));
        }
    }

    #[test]
    fn keys_are_1_to_512_bytes_without_nul() {
        for bad in ["", "a\0b", &"é".repeat(257)] {
            assert!(matches!(UniqueKey::raw(bad).text(), Err(Error::InvalidKey { .. })));
            assert!(UniqueKey::raw(bad).claim().is_err());
        }
        let long = UniqueKey::tagged_hash_of(&"t".repeat(448), 1).text().unwrap_err().to_string();
        assert_eq!(long, format!("invalid unique key: must not be longer than 512 bytes: \"{}\"", "t".repeat(80)));
        UniqueKey::tagged_hash_of(&"t".repeat(447), 1).text().unwrap();
    }

    #[test]
    fn keys_carry_terms() {
        let claim = UniqueKey::raw("k")
            .scope(UniqueScope::Exists)
            .ttl(Duration::from_secs(1))
            .until(Until::Start)
            .on_conflict(OnConflict::Replace)
            .on_reentry(OnReentry::Discard)
            .claim()
            .unwrap();
        assert_eq!(claim.terms.states, StateSet::ALL);
        assert_eq!(claim.terms.ttl, Some(Duration::from_secs(1).into()));
        assert!(claim.terms.until_start && claim.terms.on_reentry == OnReentry::Discard);
        assert!(UniqueKey::raw("k").states([]).claim().is_err());
        assert!(UniqueKey::raw("k").ttl(Duration::ZERO).claim().is_err());
    }

    #[test]
    fn a_value_that_does_not_serialize_is_an_error_when_the_key_is_used() {
        struct Fails;
        impl Serialize for Fails {
            fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
                Err(serde::ser::Error::custom("no"))
            }
        }
        let keys = [
            UniqueKey::hash_of(Fails),
            UniqueKey::tagged_hash_of("t", BTreeMap::from([((), 1)])),
            UniqueKey::zizq_rust("t", Fails),
            UniqueKey::zizq_node("t", Fails),
        ];
        for key in keys {
            let error = key.text().unwrap_err().to_string();
            assert!(error.starts_with("invalid unique key: the value does not serialize"), "{error}");
        }
    }

    #[test]
    fn a_number_that_a_double_cannot_hold_is_an_error_in_every_key() {
        let raw = |text: &str| serde_json::value::RawValue::from_string(text.to_owned()).unwrap();
        for (number, named) in [
            ("340282366920938463463374607431768211455", "340282366920938463463374607431768211455"),
            ("18446744073709551616", "18446744073709551616"),
            ("1234567890123456.78", "1234567890123456.78"),
            ("1e-400", "1e-400"),
            ("1e400", "1e+400"),
        ] {
            let number = raw(number);
            let keys = [
                UniqueKey::hash_of(&number),
                UniqueKey::tagged_hash_of("t", [&number]),
                UniqueKey::zizq_rust("t", BTreeMap::from([("a", &number)])),
                UniqueKey::zizq_rust_hash_of(&number),
                UniqueKey::zizq_node("t", &number),
            ];
            for key in keys {
                let expected =
                    format!("invalid unique key: a double cannot hold the number, make it a string: {named:?}");
                assert_eq!(key.text().unwrap_err().to_string(), expected);
            }
        }
        for key in [UniqueKey::hash_of(u128::MAX), UniqueKey::hash_of(i128::MIN), UniqueKey::zizq_node("t", u64::MAX)] {
            assert!(key.text().unwrap_err().to_string().contains("make it a string"));
        }
        assert_eq!(UniqueKey::hash_of(u128::from(u64::MAX)), UniqueKey::hash_of(u64::MAX));
        assert_eq!(UniqueKey::hash_of(10_u128.pow(30)), UniqueKey::hash_of(1e30));
    }

    #[test]
    fn deep_values_never_overflow_the_stack() {
        let deep = (0..5_000).fold(json!(1), |inner, _| Value::Array(vec![inner]));
        for key in [UniqueKey::hash_of(&deep), UniqueKey::zizq_rust_hash_of(&deep), UniqueKey::zizq_node("t", &deep)] {
            assert!(key.text().unwrap_err().to_string().contains("127 levels"));
        }
    }
}
