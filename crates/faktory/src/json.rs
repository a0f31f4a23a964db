//! JSON of commands: read with a limit of depth, and errors that name what was read.

use serde::de::DeserializeOwned;

use crate::reply::Refusal;

/// The deepest nesting of arrays and objects.
const MAX_DEPTH: usize = 100;

/// The most characters of the JSON that an error shows.
const SHOWN: usize = 80;

/// Reads the JSON of a command.
pub(crate) fn read<T: DeserializeOwned>(verb: &str, text: &str) -> Result<T, Refusal> {
    // JSON that is passed on as text is not read otherwise.
    if uniqueue::json::depth(text) > MAX_DEPTH {
        return Err(Refusal::new(format!("Invalid {verb}: nested deeper than {MAX_DEPTH}")));
    }
    parse(verb, text)
}

/// Reads JSON whose depth was checked.
pub(crate) fn parse<T: DeserializeOwned>(verb: &str, text: &str) -> Result<T, Refusal> {
    serde_json::from_str(text).map_err(|error| {
        let shown: String = text.chars().take(SHOWN).collect();
        Refusal::new(format!("Invalid {verb}: {error}: {shown}"))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn json_is_read_up_to_a_depth() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(read::<Value>("PUSH", &nested(MAX_DEPTH)).is_ok());
        let refused = read::<Value>("PUSH", &nested(MAX_DEPTH + 1)).unwrap_err();
        assert_eq!(refused.to_string(), "ERR Invalid PUSH: nested deeper than 100");
        let brackets = format!("\"\\\"{}\"", "[".repeat(500));
        assert!(read::<Value>("PUSH", &brackets).is_ok(), "brackets in a text are not nested");
    }
}
