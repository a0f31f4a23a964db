//! The policy's document in SQL: as strict as in Rust, and with the same words.

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

#[tokio::test]
async fn every_bad_policy_is_refused_in_the_words_of_rust() {
    let database = Database::new().await;
    let long = "k".repeat(513);
    for document in [
        json!([]),
        json!("key"),
        json!({"colour": 1}),
        json!({"keys": "type"}),
        json!({"keys": null}),
        json!({"keys": ["type", 1]}),
        json!({"keys": [["type"]]}),
        json!({"keys": ["argz"]}),
        json!({"keys": ["Type"]}),
        json!({"keys": ["meta"]}),
        json!({"keys": ["meta"], "meta_keys": null}),
        json!({"keys": ["meta"], "meta_keys": []}),
        json!({"keys": ["args"], "args_keys": []}),
        json!({"keys": ["args"], "optional_args_keys": []}),
        json!({"keys": ["args"], "args_keys": ["b"]}),
        json!({"keys": ["args"], "args_keys": ["/a/b"]}),
        json!({"args_keys": ["a"]}),
        json!({"optional_args_keys": ["a"]}),
        json!({"keys": ["args"], "meta_keys": ["a"]}),
        json!({"keys": ["args"], "args_keys": ["/a~"]}),
        json!({"keys": ["args"], "args_keys": ["/a~2"]}),
        json!({"keys": ["args"], "args_keys": [""]}),
        json!({"keys": ["args"], "args_keys": ["/a".repeat(128)]}),
        json!({"states": []}),
        json!({"states": ["ready"]}),
        json!({"states": ["Running"]}),
        json!({"states": null}),
        json!({"states": ["running"], "scope": "active"}),
        json!({"scope": "always"}),
        json!({"scope": null}),
        json!({"on_conflict": "raise"}),
        json!({"on_conflict": null}),
        json!({"on_reentry": "stop"}),
        json!({"until": "finish"}),
        json!({"until": "start", "states": ["active"]}),
        json!({"until": "start", "states": ["completed", "running"]}),
        json!({"period": 60}),
        json!({"period": "PX"}),
        json!({"ttl": "60"}),
        json!({"ttl": "PT0S"}),
        json!({"window": "P1M"}),
        json!({"period": "PT1H", "ttl": "PT2H"}),
        json!({"period": "PT1H", "window": "PT2H"}),
        json!({"ttl": "PT1H", "window": "PT2H"}),
        json!({"exclude_type": "yes"}),
        json!({"exclude_type": null}),
        json!({"exclude_type": true}),
        json!({"exclude_type": true, "keys": ["type", "args"]}),
        json!({"key": 1}),
        json!({"key": null}),
        json!({"key": ""}),
        json!({"key": long}),
        json!({"key": "k", "keys": ["type"]}),
        json!({"key": "k", "window": null}),
        json!({"like": null}),
        json!({"like": "oban"}),
        json!({"like": "faktory"}),
        json!({"like": "faktory", "period": "PT1H"}),
        json!({"like": "zizq", "args_keys": []}),
        json!({"like": "zizq", "meta_keys": ["t"]}),
        json!({"like": "river", "exclude_type": true}),
        json!({"like": "river", "args_keys": ["a"]}),
        json!({"like": "zizq", "optional_args_keys": []}),
        json!({"states": ["active", "done", "running"]}),
        json!({"states": [1]}),
        json!({"states": {"running": true}}),
        json!({"keys": [true]}),
        json!({"keys": {}}),
        json!({"on_conflict": ["ignore"]}),
        json!({"on_conflict": "run_again"}),
        json!({"on_conflict": "run_again", "scope": "completed"}),
        json!({"meta_keys": ["/~"]}),
        json!({"unknown": {"b": [1, 2.50], "a": "é"}}),
        json!({"scope": "é\u{1}\"'"}),
        json!({"\u{e9}": 1}),
        json!({"keys": ["args"], "args_keys": ["a", "/b~"], "optional_args_keys": ["/c~"]}),
        json!({"key": "k", "meta_keys": null, "keys": ["type"]}),
        json!({"period": "1d", "ttl": "90m", "window": "1h"}),
        json!({"debounce": "5s"}),
    ] {
        let found = read(&database, &document).await.expect_err(&document.to_string());
        let wanted = read_in_rust(&document).expect_err(&document.to_string());
        assert_eq!(found, wanted, "{document}");
        let field = document.as_object().and_then(|members| members.keys().find(|name| found.contains(name.as_str())));
        assert!(field.is_some() || !document.is_object(), "{document}: {found}");
    }
}

/// Every preset, and each with members of its own.
#[tokio::test]
async fn presets_are_the_defaults_of_their_queue_under_the_document_s_own_members() {
    let database = Database::new().await;
    let members = [
        json!({}),
        json!({"keys": ["type"]}),
        json!({"keys": []}),
        json!({"keys": ["queue", "args"], "args_keys": ["a"]}),
        json!({"key": "k"}),
        json!({"states": ["running"]}),
        json!({"scope": "queued"}),
        json!({"scope": "active"}),
        json!({"until": "success"}),
        json!({"until": "start"}),
        json!({"until": "success", "scope": "active"}),
        json!({"on_conflict": "replace"}),
        json!({"on_reentry": "discard"}),
        json!({"exclude_type": true, "keys": ["args"]}),
        json!({"exclude_type": false}),
        json!({"window": null, "args_keys": null}),
    ];
    let mut compared = 0;
    for like in ["faktory", "ojs", "river", "zizq"] {
        for limit in [json!({"ttl": "PT10M"}), json!({"period": "P1D"}), json!({"window": "PT1H"}), json!({})] {
            for own in &members {
                let mut document = json!({"like": like});
                let all = document.as_object_mut().unwrap();
                all.extend(own.as_object().unwrap().clone());
                all.extend(limit.as_object().unwrap().clone());
                let (found, wanted) = (read(&database, &document).await, read_in_rust(&document));
                assert_eq!(found, wanted, "{document}");
                compared += usize::from(wanted.is_ok());
            }
        }
    }
    assert!(compared > 150, "{compared}");
    let terms = async |document: Value| read(&database, &document).await.unwrap();
    assert!(
        terms(json!({"like": "faktory", "ttl": "PT1S"}))
            .await
            .starts_with("251 None Some((0, 1000000)) false false reject")
    );
    assert!(terms(json!({"like": "ojs"})).await.starts_with("241 None None false false reject"));
    assert!(terms(json!({"like": "zizq"})).await.starts_with("177 None None false false ignore"));
    assert!(terms(json!({"like": "river", "keys": ["args"]})).await.starts_with("245 None None false false ignore"));
    assert_eq!(terms(json!({"like": "river"})).await, NOT_UNIQUE);
}

#[tokio::test]
async fn every_update_reads_as_in_rust() {
    let database = Database::new().await;
    for update in [
        json!({}),
        json!({"update": null}),
        json!({"update": []}),
        json!({"update": {"args": "latest"}}),
        json!({"update": "latest"}),
        json!({"update": "merge"}),
        json!({"update": "append"}),
        json!({"update": "first"}),
        json!({"update": 5}),
        json!({"update": "append", "max_items": 1}),
        json!({"update": "append", "max_items": 1_000_000}),
        json!({"update": "append", "max_items": 1_000_001}),
        json!({"update": "append", "max_items": 0}),
        json!({"update": "append", "max_items": -1}),
        json!({"update": "append", "max_items": 2.5}),
        json!({"update": "append", "max_items": 2.0}),
        json!({"update": "append", "max_items": "5"}),
        json!({"update": "append", "max_items": null}),
        json!({"max_items": 5}),
        json!({"update": "merge", "max_items": 5}),
        json!({"debounce": "5s"}),
        json!({"debounce": "PT5S", "max_delay": "1m"}),
        json!({"debounce": "5s", "max_delay": "1m", "update": "append", "max_items": 7}),
        json!({"debounce": "60s", "max_delay": "PT1M"}),
        json!({"debounce": "1d", "max_delay": "PT1M"}),
        json!({"debounce": "P1M", "max_delay": "100w"}),
        json!({"debounce": 5, "max_delay": "1m"}),
        json!({"debounce": null, "max_delay": null}),
        json!({"max_delay": "1m"}),
        json!({"max_delay": "PT0.5S"}),
        json!({"max_delay": "PT0S"}),
        json!({"max_delay": "P1M"}),
        json!({"max_delay": "a minute"}),
        json!({"max_delay": 60}),
        json!({"schedule": "push", "max_delay": "PT1M"}),
        json!({"delay": "PT1M"}),
    ] {
        for other in [
            json!({}),
            json!({"on_conflict": "update"}),
            json!({"on_conflict": "ignore"}),
            json!({"like": "ojs"}),
            json!({"keys": ["args"]}),
            json!({"keys": ["args"], "args_keys": ["a"]}),
            json!({"period": "PT1M"}),
            json!({"period": "59s"}),
            json!({"period": "P1M"}),
            json!({"period": "P1MT1S"}),
        ] {
            let mut document = other;
            document.as_object_mut().unwrap().extend(update.as_object().unwrap().clone());
            assert_eq!(read(&database, &document).await, read_in_rust(&document), "{document}");
        }
    }
    let document = json!({"on_conflict": "update"});
    assert_eq!(read(&database, &document).await, read_in_rust(&document));
}

#[tokio::test]
async fn every_set_of_states_and_term_reads_as_in_rust() {
    let database = Database::new().await;
    let mut documents =
        vec![json!({}), json!({"keys": []}), json!({"args_keys": null, "period": null, "window": null})];
    for scope in ["queued", "active", "completed", "exists"] {
        documents.push(json!({"scope": scope}));
        documents.push(json!({"scope": scope, "until": "success"}));
        documents.push(json!({"scope": scope, "until": "start", "on_reentry": "discard"}));
    }
    for until in ["start", "success"] {
        documents.push(json!({"until": until, "on_reentry": "go_on", "on_conflict": "replace"}));
    }
    let names =
        ["available", "cancelled", "completed", "discarded", "pending", "retryable", "active", "scheduled", "running"];
    for mask in 1..512_usize {
        let states: Vec<_> = (0..9).filter(|bit| mask >> bit & 1 == 1).map(|bit| names[bit]).collect();
        documents.push(json!({"states": states}));
    }
    for document in documents {
        assert_eq!(read(&database, &document).await, read_in_rust(&document), "{document}");
    }
}

#[tokio::test]
async fn random_policies_are_read_or_refused_alike() {
    let database = Database::new().await;
    let members: &[(&str, &[Value])] = &[
        (
            "keys",
            &[json!(["type"]), json!(["args"]), json!(["queue", "meta", "args"]), json!(["typ"]), json!([]), json!(1)],
        ),
        ("args_keys", &[json!(["a"]), json!(["/a"]), json!(null), json!([]), json!([1]), json!(["b"])]),
        ("optional_args_keys", &[json!(["b"]), json!(["/a/0"]), json!([])]),
        ("meta_keys", &[json!(["t"]), json!([]), json!(null)]),
        ("period", &[json!("PT1M"), json!("1 minute"), json!("1d"), json!(null)]),
        ("ttl", &[json!("P1D"), json!("90s"), json!(5)]),
        ("window", &[json!("PT15M"), json!("15m"), json!("P1M"), json!("500ms"), json!(null)]),
        ("states", &[json!(["running"]), json!(["active", "available"]), json!([]), json!(["x"]), json!([[1]])]),
        ("scope", &[json!("exists"), json!("queued"), json!("x"), json!(["queued"])]),
        ("until", &[json!("start"), json!("success"), json!("end")]),
        ("on_conflict", &[json!("reject"), json!("replace"), json!("update"), json!("run_again"), json!("no")]),
        ("on_reentry", &[json!("discard"), json!("go_on"), json!(true)]),
        ("exclude_type", &[json!(true), json!(false), json!("true")]),
        ("like", &[json!("zizq"), json!("river"), json!("faktory"), json!("ojs"), json!("oban")]),
        ("update", &[json!("latest"), json!("append"), json!("merge"), json!("x"), json!({})]),
        ("max_items", &[json!(5), json!(0), json!("5")]),
        ("debounce", &[json!("5s"), json!("PT1H"), json!("5 s"), json!(null)]),
        ("max_delay", &[json!("1m"), json!("PT2H"), json!("P1M"), json!(null)]),
        ("key", &[json!("k"), json!("")]),
        ("other", &[json!(1)]),
    ];
    let mut random = Random::new(3);
    let mut read_by_both = 0;
    for _ in 0..3000 {
        let mut document = json!({});
        for _ in 0..random.below(5) {
            let (name, values) = &members[random.below(members.len())];
            document[*name] = values[if random.one_in(3) { random.below(values.len()) } else { 0 }].clone();
        }
        let (found, wanted) = (read(&database, &document).await, read_in_rust(&document));
        assert_eq!(found, wanted, "{document}");
        read_by_both += usize::from(wanted.is_ok());
    }
    assert!(read_by_both > 500, "{read_by_both}");
}
