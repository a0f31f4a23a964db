//! Enums that are words in a policy's JSON document.

/// Gives an enum of words its text: `as_str`, `Display`, `FromStr` and serde, all in one spelling.
macro_rules! words {
    (
        field $field:literal;
        $(#[$doc:meta])*
        pub enum $type:ident { $( $(#[$word_doc:meta])* $variant:ident = $word:literal, )+ }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        pub enum $type { $( $(#[$word_doc])* $variant, )+ }

        impl $type {
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
            type Err = crate::error::Error;

            fn from_str(given: &str) -> crate::error::Result<Self> {
                match given {
                    $( $word => Ok(Self::$variant), )+
                    _ => Err(crate::unique::flaw::invalid(
                        $field,
                        format!("must be one of {}: {given:?}", [$($word),+].join(", ")),
                    )),
                }
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let given = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                given.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
