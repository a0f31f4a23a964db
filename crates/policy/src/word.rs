//! Enums that are words of a policy, and the mistakes in words and policies.

use std::fmt;

/// A mistake in a policy or in one of its words: a value that cannot be read, or a broken rule.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problem {
    /// The member at fault; `state` for the name of a state, `length` for a length of time that is no member.
    pub member: &'static str,
    /// The problem as a phrase. It ends with the value at fault, unless `item` or `values` has it.
    pub reason: String,
    /// The text at fault, or the item of a list.
    pub item: Option<String>,
    /// The members whose values are at fault. A text is empty where only the caller has the value.
    pub values: Vec<(&'static str, String)>,
    /// The words that stand to choose from, where `item` is none of them.
    pub words: &'static [&'static str],
    /// The remedy. Empty where the reason says it.
    pub hint: &'static str,
}

impl Problem {
    pub(crate) fn new(member: &'static str, reason: impl Into<String>, hint: &'static str) -> Self {
        Self { member, reason: reason.into(), item: None, values: Vec::new(), words: &[], hint }
    }

    pub(crate) fn with(mut self, member: &'static str, value: impl fmt::Display) -> Self {
        self.values.push((member, format!("\"{value}\"")));
        self
    }

    #[doc(hidden)]
    #[must_use]
    pub fn unknown_word(member: &'static str, given: &str, words: &'static [&'static str]) -> Self {
        Self { words, ..Self::of_item(member, &format!("must be one of {}", words.join(", ")), given) }
    }

    pub(crate) fn of_length(reason: &str, given: &str) -> Self {
        Self { hint: "a length such as 15m, 7d or PT15M", ..Self::of_item("length", reason, given) }
    }

    pub(crate) fn of_item(member: &'static str, reason: &str, item: &str) -> Self {
        Self { item: Some(item.to_owned()), ..Self::new(member, reason, "") }
    }
}

/// The reason, then the values: `must be longer than debounce: "PT5S" and "PT1M"`.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let item = self.item.as_ref().map(|item| format!("{item:?}"));
        let values: Vec<_> = item.into_iter().chain(self.values.iter().map(|(_, value)| value.clone())).collect();
        let parts = [self.reason.clone(), values.join(" and ")];
        f.write_str(&parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": "))
    }
}

impl std::error::Error for Problem {}

/// Gives an enum of words its list and its text: `ALL`, `as_str`, `Display`, `FromStr` and serde, all in one spelling.
#[doc(hidden)]
#[macro_export]
macro_rules! words {
    (
        member $member:literal;
        $(#[$doc:meta])*
        pub enum $type:ident { $( $(#[$word_doc:meta])* $variant:ident = $word:literal, )+ }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        pub enum $type { $( $(#[$word_doc])* $variant, )+ }

        impl $type {
            /// Every word, in this order.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$variant),+];

            /// The word as SQL and JSON spell it.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $( Self::$variant => $word, )+ }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $type {
            type Err = $crate::Problem;

            fn from_str(given: &str) -> Result<Self, Self::Err> {
                let word = Self::ALL.into_iter().find(|word| word.as_str() == given);
                word.ok_or_else(|| $crate::Problem::unknown_word($member, given, &[$($word),+]))
            }
        }

        $crate::serde_words!($type);
    };
}

/// Without the feature `serde` words are not read and written with it.
#[cfg(not(feature = "serde"))]
#[doc(hidden)]
#[macro_export]
macro_rules! serde_words {
    ($type:ident) => {};
}

/// Reads and writes words with serde.
#[cfg(feature = "serde")]
#[doc(hidden)]
#[macro_export]
macro_rules! serde_words {
    ($type:ident) => {
        impl $crate::serde::Serialize for $type {
            fn serialize<S: $crate::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> $crate::serde::Deserialize<'de> for $type {
            fn deserialize<D: $crate::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let given = <std::borrow::Cow<'de, str> as $crate::serde::Deserialize>::deserialize(deserializer)?;
                given.parse().map_err($crate::serde::de::Error::custom)
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use crate::{JobState, OnConflict, OnReentry, Preset, UniqueScope, Until, UpdateArgs};

    #[test]
    fn every_word_reads_back_from_its_text_and_from_json() {
        macro_rules! read_back {
            ($($type:ident),+) => { $(
                for word in $type::ALL {
                    assert_eq!(word.to_string().parse(), Ok(word));
                    assert_eq!(serde_json::from_value::<$type>(serde_json::json!(word)).unwrap(), word);
                    assert_eq!(serde_json::json!(word), serde_json::json!(word.as_str()));
                }
            )+ };
        }
        read_back!(JobState, OnConflict, OnReentry, Preset, UniqueScope, Until, UpdateArgs);
    }

    #[test]
    fn an_unknown_word_is_named_with_the_known_ones() {
        let unknown = "Reject".parse::<OnReentry>().unwrap_err();
        assert_eq!((unknown.member, unknown.words), ("on_reentry", &["go_on", "discard"][..]));
        assert_eq!(unknown.to_string(), "must be one of go_on, discard: \"Reject\"");
        assert!("active".parse::<JobState>().unwrap_err().to_string().ends_with(", discarded: \"active\""));
    }
}
