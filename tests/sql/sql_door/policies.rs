//! The policy's document in SQL: as strict as in Rust, and with the same words.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sqlx::Row;
use uniqueue::period::Length;
use uniqueue::{OnConflict, UniquePolicy};

use super::random::Random;
use super::told;
use support::Database;

/// For a policy that enforces nothing.
const NOT_UNIQUE: &str = "not unique";

/// What SQL makes of a document: the claim's terms, or the error's message.
pub(super) async fn read(database: &Database, document: &Value) -> Result<String, String> {
    let text = "SELECT c.*
        FROM {schema}._job_claim('k', '{\"a\": 1}', 'q', '{}', 0, NULL, '2026-02-12 15:15Z', $1) AS c";
    let row = sqlx::query(database.sql(text)).bind(document).fetch_one(database.pool()).await;
    match row {
        Err(error) => {
            let (code, message, _) = told(&error);
            assert_eq!(code, "22023", "{document}: {message}");
            Err(message)
        }
        Ok(row) if row.get::<Option<&str>, _>("unique_key").is_none() => Ok(NOT_UNIQUE.to_owned()),
        Ok(row) => {
            let length = |name: &str| {
                row.get::<Option<sqlx::postgres::types::PgInterval>, _>(name).map(|interval| {
                    assert_eq!(interval.days, 0);
                    (interval.months, interval.microseconds)
                })
            };
            Ok(format!(
                "{} {:?} {:?} {} {} {} {}",
                row.get::<i16, _>("unique_states"),
                length("period"),
                length("ttl"),
                row.get::<bool, _>("until_start"),
                row.get::<bool, _>("discard_on_reentry"),
                row.get::<&str, _>("on_conflict"),
                row.get::<&str, _>("unique_key"),
            ))
        }
    }
}

/// What Rust makes of it.
pub(super) fn read_in_rust(document: &Value) -> Result<String, String> {
    let resolve = || {
        let policy = UniquePolicy::from_json_with_default(document, OnConflict::Ignore)?;
        policy.resolve(&uniqueue::Subject {
            kind: "k",
            queue: "q",
            args: &json!({"a": 1}),
            meta: &json!({}),
            window_at: Some(time::macros::datetime!(2026-02-12 15:15 UTC)),
        })
    };
    let claim = resolve().map_err(|error: uniqueue::Error| {
        let text = error.to_string();
        text.split("; hint: ").next().unwrap_or_default().to_owned()
    })?;
    let Some(claim) = claim else { return Ok(NOT_UNIQUE.to_owned()) };
    let length = |length: Option<Length>| length.map(|length| (length.parts().0, length.parts().1.as_micros()));
    let mut terms = claim.on_conflict.to_string();
    if claim.on_conflict == OnConflict::Update {
        let update = claim.update;
        let max_delay = update.max_delay().unwrap_or_default().as_micros();
        terms += &format!(" {} {max_delay} {}", update.args(), update.item_limit().unwrap_or(1_000));
    }
    Ok(format!(
        "{} {:?} {:?} {} {} {} {}",
        claim.states.bits(),
        length(claim.period),
        length(claim.ttl),
        claim.until_start,
        claim.discard_on_reentry,
        terms,
        claim.key
    ))
}

/// Members of a document, each with values that fit and values that do not. The first is taken most often.
const MEMBERS: &str = r#"{
    "keys": [["type"], ["args"], ["queue", "args"], ["queue", "meta", "args"], ["meta"], ["argz"], ["Type"], [["type"]],
        ["type", 1], [true], [], {}, "type", 1, null],
    "args_keys": [["a"], ["/a"], ["b"], ["/a/b"], ["/a~"], ["/a~2"], ["a", "/b~"], [""], [1], [], null],
    "optional_args_keys": [["b"], ["/a/0"], ["a"], ["/c~"], []],
    "meta_keys": [["t"], ["/~"], [], null],
    "period": ["PT1M", "1 minute", "1d", "59s", "P1M", "P1MT1S", "PX", 60, null],
    "ttl": ["P1D", "90s", "90m", "PT0S", "60", 5],
    "window": ["PT15M", "15m", "P1M", "500ms", "1.5s", "PT0.5S", null],
    "scope": ["exists", "queued", "active", "completed", "always", "\u00e9\u0001\"'", ["queued"], null],
    "until": ["start", "success", "finish"],
    "on_conflict": ["reject", "replace", "update", "run_again", "ignore", "preempt", "raise", ["ignore"], null],
    "on_reentry": ["discard", "go_on", "stop", true],
    "exclude_type": [true, false, "yes", null],
    "like": ["zizq", "river", "faktory", "ojs", "oban", null],
    "update": ["latest", "append", "merge", "first", {"args": "latest"}, [], 5, null],
    "max_items": [5, 1, 1000000, 1000001, 0, -1, 2.5, 2.0, "5", null],
    "debounce": ["5s", "PT1H", "1d", "60s", "P1M", "5 s", 5, null],
    "max_delay": ["1m", "PT2H", "PT0.5S", "PT0S", "P1M", "a minute", 60, null],
    "key": ["k", "", 1, null],
    "schedule": ["push"],
    "\u00e9": [1, {"b": [1, 2.50], "a": "\u00e9"}]
}"#;

#[support::test]
async fn random_policies_are_read_or_refused_alike(database: Database) {
    let members: Vec<(String, Vec<Value>)> =
        serde_json::from_str::<BTreeMap<_, _>>(MEMBERS).unwrap().into_iter().collect();
    let states =
        ["available", "cancelled", "completed", "discarded", "pending", "retryable", "active", "scheduled", "running"];
    let mut random = Random::new(3);
    let mut read_by_both = 0;
    for place in 0..8_000 {
        let mut document = json!({});
        // Each preset, alone and with others' members.
        if let Some(like) = ["zizq", "river", "faktory", "ojs"].get(place % 8) {
            document["like"] = json!(like);
        }
        for _ in 0..random.below(5) {
            let (name, values) = &members[random.below(members.len())];
            document[name] = values[if random.one_in(2) { random.below(values.len()) } else { 0 }].clone();
        }
        if random.one_in(4) {
            let mut chosen: Vec<_> = states.iter().filter(|_| random.one_in(3)).map(|state| json!(state)).collect();
            if random.one_in(20) {
                chosen.push(random.pick(&["\"done\"", "\"Running\"", "1", "[1]"]).parse().unwrap());
            }
            document["states"] = json!(chosen);
        }
        let (found, wanted) = (read(&database, &document).await, read_in_rust(&document));
        assert_eq!(found, wanted, "{document}");
        read_by_both += usize::from(wanted.is_ok());
    }
    assert!(read_by_both > 1_000, "{read_by_both}");
    for document in [json!([]), json!("key"), json!({"key": "k".repeat(513)}), json!({"states": {"running": true}})] {
        assert_eq!(read(&database, &document).await.unwrap_err(), read_in_rust(&document).unwrap_err());
    }
}

#[support::test]
async fn presets_are_the_defaults_of_their_queue(database: Database) {
    for (document, terms) in [
        (json!({"like": "faktory", "ttl": "PT1S"}), "251 None Some((0, 1000000)) false false reject"),
        (json!({"like": "ojs"}), "241 None None false false reject"),
        (json!({"like": "zizq"}), "177 None None false false ignore"),
        (json!({"like": "river", "keys": ["args"]}), "245 None None false false ignore"),
        (json!({"like": "river"}), NOT_UNIQUE),
    ] {
        assert!(read(&database, &document).await.unwrap().starts_with(terms), "{document}");
    }
}
