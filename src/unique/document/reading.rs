//! Policy documents: what is accepted, and how each mistake is named.

use serde_json::json;
use uniqueue_policy::{StateSet, UniqueScope, Update};

use super::*;

fn read(document: &Value, on_conflict: OnConflict) -> Result<UniquePolicy> {
    UniquePolicy::from_json_with_default(document, on_conflict)
}

fn read_ojs(document: Value) -> Result<UniquePolicy> {
    read(&document, OnConflict::Reject)
}

#[test]
fn a_document_is_the_policy_of_the_builder() {
    let (delay, longest) = (Duration::from_secs(5), Duration::from_secs(60));
    let ojs = UniquePolicy::ojs;
    let nulls = json!({
        "keys": ["type", "args"], "args_keys": null, "meta_keys": null, "optional_args_keys": null,
        "period": null, "ttl": null, "window": null,
    });
    for (document, policy) in [
        (json!({}), ojs()),
        (json!({"keys": []}), ojs()),
        (nulls, ojs().by_args()),
        (json!({"states": ["active"]}), ojs().states(JobState::Running)),
        (json!({"states": ["running"]}), ojs().states(JobState::Running)),
        (json!({"until": "success"}), ojs().states(StateSet::ALL_BUT_COMPLETED)),
        (json!({"until": "success", "scope": "queued"}), ojs().scope(UniqueScope::Queued)),
        (json!({"until": "start"}), ojs().until_start()),
        (json!({"on_conflict": "update"}), ojs().update(Update::latest())),
        (json!({"update": "merge"}), ojs().update(Update::merge())),
        (json!({"update": "append", "max_items": 7}), ojs().update(Update::append().max_items(7))),
        (json!({"max_delay": "1m"}), ojs().update(Update::latest().push(longest))),
        (json!({"debounce": "5s", "max_delay": "PT1M"}), ojs().update(Update::latest().debounce(delay, longest))),
    ] {
        assert_eq!(read_ojs(document.clone()).unwrap(), policy, "{document}");
    }
    assert_eq!(read(&json!({}), OnConflict::Ignore).unwrap(), UniquePolicy::new());
}

#[test]
fn a_raw_key_stands_alone_but_keeps_its_terms() {
    let policy = read_ojs(json!({"key": "k", "scope": "exists", "period": "P1D"})).unwrap();
    let built = UniquePolicy::ojs().key("k").scope(UniqueScope::Exists);
    assert_eq!(policy, built.period(Duration::from_secs(86_400)));
    let none = [("keys", json!([])), ("exclude_type", json!(false))].into_iter();
    let none = none.chain(["args_keys", "optional_args_keys", "meta_keys", "window"].map(|other| (other, json!(null))));
    for (other, value) in none {
        let error = read_ojs(json!({"key": "k", other: value})).unwrap_err().to_string();
        assert_eq!(error, format!("invalid unique policy: key: stands alone, without {other}"));
    }
}

#[test]
fn every_error_names_its_member() {
    for (document, message) in [
        (json!(null), "unique_policy: must be an object: null"),
        (json!([]), "unique_policy: must be an object: []"),
        (json!({"colour": 1}), "unknown member: \"colour\""),
        (json!({"keys": "type"}), "keys: must be a list of strings: \"type\""),
        (json!({"keys": null}), "keys: must be a list of strings: null"),
        (json!({"keys": ["type", 1]}), "keys: must be a list of strings: [\"type\",1]"),
        (json!({"keys": ["argz"]}), "keys: must be one of type, queue, args, meta: \"argz\""),
        (json!({"keys": ["Type"]}), "keys: must be one of type, queue, args, meta: \"Type\""),
        (json!({"keys": ["meta"]}), "meta_keys: must name at least one member: []"),
        (json!({"keys": ["meta"], "meta_keys": null}), "meta_keys: must name at least one member: []"),
        (json!({"keys": ["meta"], "meta_keys": []}), "meta_keys: must name at least one member: []"),
        (json!({"keys": ["args"], "args_keys": []}), "args_keys: must name at least one member: []"),
        (json!({"args_keys": ["a"]}), "args_keys: needs \"args\" in keys: [\"a\"]"),
        (json!({"keys": ["args"], "meta_keys": ["a"]}), "meta_keys: needs \"meta\" in keys: [\"a\"]"),
        (
            json!({"keys": ["args"], "args_keys": ["/a~"]}),
            "args_keys: in a JSON Pointer ~ must be written ~0 and / within a name ~1: \"/a~\"",
        ),
        (json!({"states": []}), "states: must name at least one state: []"),
        (
            json!({"states": ["ready"]}),
            "states: must be one of pending, scheduled, available, running, retryable, completed, cancelled, discarded: \"ready\"",
        ),
        (json!({"states": null}), "states: must be a list of strings: null"),
        (
            json!({"states": ["running"], "scope": "active"}),
            "scope: stands beside states, which say the same: \"active\"",
        ),
        (json!({"scope": "always"}), "scope: must be one of queued, active, completed, exists: \"always\""),
        (
            json!({"on_conflict": "raise"}),
            "on_conflict: must be one of ignore, reject, replace, replace_except_schedule, preempt, update, run_again: \"raise\"",
        ),
        (json!({"on_conflict": null}), "on_conflict: must be a string: null"),
        (json!({"on_reentry": "stop"}), "on_reentry: must be one of go_on, discard: \"stop\""),
        (json!({"until": "finish"}), "until: must be one of success, start: \"finish\""),
        (
            json!({"until": "start", "states": ["active"]}),
            "until: start ends the claim at the fetch, and the states hold none before it: running",
        ),
        (json!({"period": 60}), "period: must be a string: 60"),
        (json!({"ttl": "60"}), "ttl: is not a length of time: \"60\""),
        (json!({"ttl": "PT0S"}), "ttl: must be longer than nothing: \"PT0S\""),
        (json!({"window": "P1M"}), "window: years and months have no fixed length: \"P1M\""),
        (json!({"exclude_type": "yes"}), "exclude_type: must be true or false: \"yes\""),
        (json!({"exclude_type": true}), "exclude_type: leaves nothing to make a key from: true"),
        (json!({"exclude_type": true, "keys": ["type", "args"]}), "exclude_type: contradicts \"type\" in keys: true"),
        (json!({"key": 1}), "key: must be a string: 1"),
        (json!({"key": null}), "key: must be a string: null"),
        (json!({"period": "PX"}), "period: is not a length of time: \"PX\""),
        (json!({"window": "PT0.5S"}), "window: must be whole seconds: \"PT0.5S\""),
        (json!({"update": "first"}), "update: must be one of latest, merge, append: \"first\""),
        (json!({"update": "merge", "on_conflict": "ignore"}), "update: needs on_conflict update: \"ignore\""),
        (json!({"debounce": "5s"}), "debounce: needs max_delay: \"5s\""),
        (
            json!({"debounce": "60s", "max_delay": "PT1M"}),
            "max_delay: must be longer than debounce: \"PT1M\" and \"60s\"",
        ),
        (json!({"max_delay": "PT0S"}), "max_delay: must be longer than nothing: \"PT0S\""),
        (json!({"max_delay": "1m", "period": "59s"}), "max_delay: must not be longer than period: \"1m\" and \"59s\""),
        (
            json!({"on_conflict": "run_again"}),
            "on_conflict: run_again needs a scope without running: pending, scheduled, available, running, retryable",
        ),
        (json!({"max_items": 0}), "max_items: must be 1 to 1000000: 0"),
        (json!({"max_items": 5}), "max_items: needs update append: 5"),
        (
            json!({"period": "1d", "ttl": "90m"}),
            "ttl: stands beside period, and only one of period, ttl and window may limit time: \"90m\" and \"1d\"",
        ),
        // Of several mistakes the first in the order of jsonb.
        (json!({"scope": 1, "key": 1, "until": 1}), "key: must be a string: 1"),
    ] {
        let error = read_ojs(document.clone()).unwrap_err().problem();
        assert_eq!(error, format!("invalid unique policy: {message}"), "{document}");
    }
}

#[test]
fn a_bad_key_is_refused_as_a_key() {
    let error = read_ojs(json!({"key": ""})).unwrap_err();
    assert!(matches!(error, Error::InvalidKey { .. }), "{error}");
}

#[test]
fn a_preset_is_the_policy_of_its_constructor() {
    for (document, policy) in [
        (json!({"like": "zizq"}), UniquePolicy::zizq()),
        (json!({"like": "river"}), UniquePolicy::river()),
        (json!({"like": "ojs"}), UniquePolicy::ojs()),
        (json!({"like": "faktory", "ttl": "10m"}), UniquePolicy::faktory(Duration::from_secs(600))),
    ] {
        // The default of the reader is for documents without a preset.
        for default in [OnConflict::Replace, OnConflict::Reject] {
            assert_eq!(read(&document, default).unwrap(), policy, "{document}");
        }
    }
}
