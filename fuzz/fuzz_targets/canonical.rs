//! Canonical text reads back as itself, its key is the value's, and no input panics.
#![no_main]

use libfuzzer_sys::fuzz_target;
use uniqueue::json::{canonical_json, parse_json};
use uniqueue::{UniqueKey, UniquePolicy, period};

fuzz_target!(|text: &str| {
    let _ = period::parse(text).map(|length| assert_eq!(period::parse(&period::write(length)).unwrap(), length));
    let Ok(value) = parse_json(text) else { return };
    let _ = UniquePolicy::from_ojs(&value).map(|policy| {
        assert_eq!(UniquePolicy::from_ojs(&policy.to_ojs().unwrap()).unwrap(), policy);
    });
    let _ = UniqueKey::zizq_node("tag", &value);
    let Ok(canonical) = canonical_json(&value) else { return };
    let read_back = parse_json(&canonical).unwrap();
    assert_eq!(canonical_json(&read_back).unwrap(), canonical);
    assert_eq!(UniqueKey::hash_of(&read_back), UniqueKey::hash_of(&value));
});
