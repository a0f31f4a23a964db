//! The public vectors.

#![allow(clippy::unwrap_used)]

use support::prelude::*;

const VECTORS: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/unique_keys.json"));

fn vectors(group: &str) -> Vec<Value> {
    let vectors: Value = serde_json::from_str(VECTORS).unwrap();
    vectors[group].as_array().unwrap().clone()
}

#[test]
fn every_fingerprint_vector_has_its_canonical_text_and_key() {
    let vectors = vectors("fingerprints");
    assert!(vectors.len() >= 30, "{}", vectors.len());
    for vector in vectors {
        let text = |name: &str| vector[name].as_str().unwrap();
        // Read exactly and as everyone reads JSON: the vectors must hold both ways.
        for args in [parse_json(text("args_json")).unwrap(), serde_json::from_str(text("args_json")).unwrap()] {
            let subject = Subject {
                kind: text("kind"),
                queue: text("queue"),
                args: &args,
                meta: &vector["meta"],
                window_at: vector["scheduled_at"].as_str().map(|at| OffsetDateTime::parse(at, &Rfc3339).unwrap()),
            };
            let policy = UniquePolicy::from_ojs(&vector["policy"]).unwrap();
            let canonical = policy.canonical(&subject).unwrap();
            assert_eq!(canonical.as_deref(), Some(text("canonical")), "{}", text("name"));
            let claim = policy.resolve(&subject).unwrap().unwrap();
            assert_eq!(claim.key, text("key"), "{}", text("name"));

            let written = UniquePolicy::from_ojs(&policy.to_ojs().unwrap()).unwrap();
            assert_eq!(written.resolve(&subject).unwrap(), Some(claim), "{}", text("name"));
        }
    }
}

#[test]
fn every_zizq_vector_has_the_key_of_both_clients() {
    let vectors = vectors("zizq");
    assert!(vectors.len() >= 6, "{}", vectors.len());
    for vector in vectors {
        let tag = vector["tag"].as_str().unwrap();
        let value = &vector["value"];
        let node = UniqueKey::zizq_node(tag, value);
        assert_eq!(node.text().unwrap(), vector["node_key"], "{}", vector["name"]);
        let rust = UniqueKey::zizq_rust(tag, value);
        assert_eq!(rust.text().unwrap(), vector["rust_key"], "{}", vector["name"]);
        // Ours is the same where the texts are, as here.
        let ours = UniqueKey::tagged_hash_of(tag, value);
        assert_eq!(ours.text().unwrap(), vector["rust_key"], "{}", vector["name"]);
    }
}
