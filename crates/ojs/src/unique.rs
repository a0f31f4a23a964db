//! Unique policies as OJS clients write them.

use serde_json::{Map, Value, json};
use uniqueue::UniquePolicy;

use crate::problem::Problem;

/// The dimensions of a policy.
const DIMENSIONS: [&str; 4] = ["type", "queue", "args", "meta"];

/// Reads a policy. `key` is another name of `keys`. Where it names members of the args, as in the JSON format of OJS, it means
/// `keys` `["type", "args"]` with these `args_keys`.
pub(crate) fn read(document: &Map<String, Value>) -> Result<UniquePolicy, Problem> {
    let mut document = document.clone();
    document.retain(|_, value| !value.is_null());
    if matches!(document.get("key"), Some(Value::Array(_))) && !document.contains_key("keys") {
        let key = document.remove("key").unwrap_or_default();
        let is_dimension = |name: &Value| name.as_str().is_some_and(|name| DIMENSIONS.contains(&name));
        if key.as_array().is_some_and(|names| names.iter().all(is_dimension)) {
            document.insert("keys".to_owned(), key);
        } else {
            document.insert("keys".to_owned(), json!(["type", "args"]));
            document.insert("args_keys".to_owned(), key);
        }
    }
    let refused = |error: uniqueue::Error| Problem::from(error).detail("field", "unique");
    UniquePolicy::from_ojs(&Value::Object(document)).map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(document: Value) -> UniquePolicy {
        read(document.as_object().unwrap()).unwrap()
    }

    #[test]
    fn key_is_keys_or_names_members_of_the_args() {
        assert_eq!(policy(json!({"key": ["type", "queue"]})), policy(json!({"keys": ["type", "queue"]})));
        let by_members = policy(json!({"keys": ["type", "args"], "args_keys": ["to", "template"]}));
        assert_eq!(policy(json!({"key": ["to", "template"]})), by_members);
        assert!(read(json!({"keys": ["meta"]}).as_object().unwrap()).is_err());
    }
}
