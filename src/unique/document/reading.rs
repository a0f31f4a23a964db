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
fn an_empty_document_has_ojs_defaults() {
    assert_eq!(read_ojs(json!({})).unwrap(), UniquePolicy::ojs());
    assert_eq!(read_ojs(json!({"keys": []})).unwrap(), UniquePolicy::ojs());
    assert_eq!(read(&json!({}), OnConflict::Ignore).unwrap(), UniquePolicy::new());
}

#[test]
fn the_structure_example_of_the_ojs_page_reads() {
    let policy = read_ojs(json!({
        "keys": ["type", "queue", "args"],
        "args_keys": ["user_id"],
        "meta_keys": [],
        "period": "PT1H",
        "states": ["available", "active", "scheduled", "retryable", "pending"],
        "on_conflict": "reject",
    }));
    let built = UniquePolicy::ojs().by_queue().by_arg_fields(["user_id"]).period(Duration::from_secs(3_600));
    assert_eq!(policy.unwrap(), built);
}

#[test]
fn null_is_as_good_as_absent_where_it_is_the_default() {
    let policy = read_ojs(json!({
        "keys": ["type", "args"], "args_keys": null, "meta_keys": null, "optional_args_keys": null,
        "period": null, "ttl": null, "window": null,
    }));
    assert_eq!(policy.unwrap(), UniquePolicy::ojs().by_args());
}

#[test]
fn both_names_of_running_are_read() {
    for name in ["active", "running"] {
        let policy = read_ojs(json!({"states": [name]})).unwrap();
        assert_eq!(policy, UniquePolicy::ojs().states(JobState::Running));
    }
}

#[test]
fn until_success_is_all_states_but_completed_unless_states_are_named() {
    let policy = read_ojs(json!({"until": "success"})).unwrap();
    assert_eq!(policy, UniquePolicy::ojs().states(StateSet::ALL_BUT_COMPLETED));
    let policy = read_ojs(json!({"until": "success", "scope": "queued"})).unwrap();
    assert_eq!(policy, UniquePolicy::ojs().scope(UniqueScope::Queued));
    let policy = read_ojs(json!({"until": "start"})).unwrap();
    assert_eq!(policy, UniquePolicy::ojs().until_start());
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

#[test]
fn an_update_is_that_of_the_builder() {
    let (delay, longest) = (Duration::from_secs(5), Duration::from_secs(60));
    for (document, update) in [
        (json!({"on_conflict": "update"}), Update::latest()),
        (json!({"update": "merge"}), Update::merge()),
        (json!({"update": "append", "max_items": 7}), Update::append().max_items(7)),
        (json!({"max_delay": "1m"}), Update::latest().push(longest)),
        (json!({"debounce": "5s", "max_delay": "PT1M"}), Update::latest().debounce(delay, longest)),
    ] {
        assert_eq!(read_ojs(document).unwrap(), UniquePolicy::ojs().update(update));
    }
}
