//! The public vectors, and every hash printed in the seeds.

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uniqueue::json::parse_json;
use uniqueue::{Subject, UniqueKey, UniquePolicy};

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

/// The hashes that Zizq's Node page prints.
#[test]
fn every_hash_of_the_zizq_node_page_is_made() {
    let to_and_subject = |to: &str, subject: &str| json!({"to": to, "subject": subject});
    let with_bucket = |millis: u64| {
        let bucket = millis / 3_600_000 * 3_600_000;
        json!({"to": "test@test.com", "subject": "Example", "bucket": bucket})
    };
    // "1:30pm" and its like are of 2026-04-25 at UTC+10: the day the page was written.
    let one_pm = 1_777_086_000_000;
    let minute = 60_000;
    for (payload, hash) in [
        (
            to_and_subject("test@test.com", "Example"),
            "3c6da81af475f0b1ddeac43095199334b3ebfaafff9a7e6794b4d4e38122c597",
        ),
        (
            json!({"subject": "Example", "to": "test@test.com"}),
            "3c6da81af475f0b1ddeac43095199334b3ebfaafff9a7e6794b4d4e38122c597",
        ),
        (
            to_and_subject("other@test.com", "Example"),
            "f702b3ff543464bb9bb1bc2e65734f6df07271baeca1a0452e67096ce71a86bb",
        ),
        (json!({"to": "test@test.com"}), "b5c4c35eeacf8bbf2034b0ed8b0e2f9ac3e7da66b79b543e9c6c124d90c371a3"),
        (json!({"to": "other@test.com"}), "fadcd704b379aa47dffc6aadd7d77bfd2a74baa9c1ee9a11913df6f85faa4bd6"),
        (with_bucket(one_pm + 30 * minute), "d59dfcd80066c8a8b55e0d8faa929a6074bdd1aa8b904349b0987a8048bf8d8a"),
        (with_bucket(one_pm + 59 * minute), "d59dfcd80066c8a8b55e0d8faa929a6074bdd1aa8b904349b0987a8048bf8d8a"),
        (with_bucket(one_pm + 60 * minute), "689a17f552bca147b28f39f8d909f02709738e23810cfaf633b221807498f59a"),
        (with_bucket(one_pm + 65 * minute), "689a17f552bca147b28f39f8d909f02709738e23810cfaf633b221807498f59a"),
    ] {
        let key = UniqueKey::zizq_node("example_job", &payload);
        assert_eq!(key.text().unwrap(), format!("example_job:{hash}"), "{payload}");
    }
}

/// The example of the OJS page, with the key that docs/learn/unique.md gives for it.
#[test]
fn the_example_of_the_ojs_page_has_its_canonical_form() {
    let subject = Subject {
        kind: "email.send",
        queue: "notifications",
        args: &json!({"user_id": 42, "template": "welcome"}),
        meta: &json!({}),
        window_at: None,
    };
    let policy = UniquePolicy::ojs().by_queue().by_arg_fields(["user_id"]);
    assert_eq!(
        policy.canonical(&subject).unwrap().unwrap(),
        r#"{"args":{"user_id":42},"queue":"notifications","type":"email.send"}"#
    );
    assert_eq!(
        policy.resolve(&subject).unwrap().unwrap().key,
        "71f9344b82e66297a49775bbe27752297922842b675330641ebe3ff4fea46c1f"
    );
}
