//! Enums that are words of a policy.

use std::fmt;

/// A word that is none of those that a member of a policy takes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UnknownWord {
    /// The member, such as `scope`; `state` for the name of a state.
    pub member: &'static str,
    /// The word as given.
    pub given: String,
    /// The words that the member takes.
    pub words: &'static [&'static str],
}

impl fmt::Display for UnknownWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown {}: {:?}; hint: one of {}", self.member, self.given, self.words.join(", "))
    }
}

impl std::error::Error for UnknownWord {}

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
            type Err = $crate::UnknownWord;

            fn from_str(given: &str) -> Result<Self, Self::Err> {
                let word = Self::ALL.into_iter().find(|word| word.as_str() == given);
                let unknown = || $crate::UnknownWord { member: $member, given: given.to_owned(), words: &[$($word),+] };
                word.ok_or_else(unknown)
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
    use crate::{InsertOutcome, JobState, OnConflict, OnReentry, Preset, UniqueScope, Until, UpdateArgs};

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
        read_back!(InsertOutcome, JobState, OnConflict, OnReentry, Preset, UniqueScope, Until, UpdateArgs);
    }

    #[test]
    fn an_unknown_word_is_named_with_the_known_ones() {
        let unknown = "Reject".parse::<OnReentry>().unwrap_err();
        assert_eq!(unknown.to_string(), "unknown on_reentry: \"Reject\"; hint: one of go_on, discard");
        assert!("active".parse::<JobState>().unwrap_err().to_string().starts_with("unknown state: \"active\"; hint: "));
    }
}
