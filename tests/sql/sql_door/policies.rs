//! The policy's document in SQL: as strict as in Rust, and with the same words.

use std::time::Duration;

use serde_json::{Value, json};
use sqlx::Row;
use time::OffsetDateTime;
use uniqueue::period::{self, Length};
use uniqueue::{OnConflict, UniquePolicy};

use super::random::Random;
use super::told;
use support::Database;

/// For a policy that enforces nothing.
const NOT_UNIQUE: &str = "not unique";

/// What SQL makes of a document: the claim's terms, or the error's message.
async fn read(database: &Database, document: &Value) -> Result<String, String> {
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
fn read_in_rust(document: &Value) -> Result<String, String> {
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
        let update = json!(claim.update);
        let max_delay = update.get("max_delay").map(|text| period::parse(text.as_str().unwrap()).unwrap().as_micros());
        let max_items = update.get("max_items").and_then(Value::as_u64).unwrap_or(1_000);
        terms += &format!(" {} {} {max_items}", update["args"].as_str().unwrap(), max_delay.unwrap_or(0));
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
    ] {
        let found = read(&database, &document).await.expect_err(&document.to_string());
        let wanted = read_in_rust(&document).expect_err(&document.to_string());
        // Rust writes lists without spaces, and lengths as it read them: here as they were given.
        assert_eq!(found.replace("\", \"", "\",\"").replace("\", 1", "\",1"), wanted, "{document}");
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
                assert_eq!(found.is_ok(), wanted.is_ok(), "{document}: {found:?} {wanted:?}");
                if wanted.is_ok() {
                    assert_eq!(found, wanted, "{document}");
                    compared += 1;
                }
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
async fn a_window_of_parts_of_a_second_is_refused_by_name() {
    let database = Database::new().await;
    let found = read(&database, &json!({"window": "PT0.5S"})).await.unwrap_err();
    assert_eq!(found, "invalid unique policy: window: must be whole seconds: \"PT0.5S\"");
    assert!(read_in_rust(&json!({"window": "PT0.5S"})).is_err());
}

#[tokio::test]
async fn every_period_reads_as_in_rust() {
    let database = Database::new().await;
    // More digits than PostgreSQL's numeric holds.
    let many = |digit: &str| digit.repeat(140_000);
    let long = [
        format!("P{}D", many("9")),
        format!("P{}1D", many("0")),
        format!("PT1.{}S", many("1")),
        format!("PT1,{}S", many("0")),
        format!("PT0.{}1S", many("0")),
        format!("P0.5W{}D", many("9")),
        format!("P{}.5W1D", many("9")),
    ];
    for text in long.iter().map(String::as_str).chain([
        "PT5M",
        "PT1H",
        "P1D",
        "P7D",
        "P1W",
        "P1W1DT1H1M1S",
        "PT90M",
        "PT0.5H",
        "P0,5D",
        "PT1M0.25S",
        "PT0.000001S",
        "PT0.5000000000S",
        "PT00600S",
        "P36525D",
        "P36524DT86399.999999S",
        "PT1.000001S",
        "",
        "P",
        "PT",
        "P1DT",
        "1D",
        "PX",
        "p1d",
        "P1",
        "PD",
        "P1H",
        "PT1D",
        "PT1M1H",
        "PT1H1H",
        "PT1HT1M",
        "PT1.S",
        "PT.5S",
        "PT1e3S",
        "PT+1S",
        " PT1S",
        "PT1S ",
        "PT１S",
        "one hour",
        "P1M",
        "P1Y",
        "P1Y2M",
        "P1Y2M3W4DT5H6M7.5S",
        "P0Y1M",
        "P0Y0M",
        "P100Y",
        "P100Y1D",
        "P1200M",
        "P1201M",
        "P99999999999999999999Y",
        "P1.5Y",
        "P0,5M",
        "P1.0M",
        "P1.M",
        "P0.0000000001M",
        "P0.00000000000000000000000000001Y",
        "P1.5Y1M",
        "P1M1Y",
        "P1W1M",
        "P1D1M",
        "PT1Y",
        "P1DT1H1Y",
        "-P1D",
        "P-1D",
        "PT0S",
        "P0D",
        "PT0.5H1M",
        "PT0.0000001S",
        "PT0.0000000000000000000000000000001H",
        "P36525DT1S",
        "P99999999999999999999D",
        "PT18446744073709551615S",
        "PT1\nS",
        "P1W\n",
        "1 hour",
        "01:00:00",
        "PT1H30M15.5S",
        "P1D2W",
    ]) {
        for field in ["period", "ttl"] {
            let document = json!({field: text});
            assert_eq!(read(&database, &document).await, read_in_rust(&document), "{document}");
        }
    }
}

#[tokio::test]
async fn every_update_reads_as_in_rust() {
    let database = Database::new().await;
    for update in [
        json!({}),
        json!(null),
        json!([]),
        json!("latest"),
        json!({"args": "latest"}),
        json!({"args": "merge"}),
        json!({"args": "append"}),
        json!({"args": "append", "max_items": 1}),
        json!({"args": "append", "max_items": 1_000_000}),
        json!({"args": "append", "max_items": 1_000_001}),
        json!({"args": "append", "max_items": 0}),
        json!({"args": "append", "max_items": -1}),
        json!({"args": "append", "max_items": "5"}),
        json!({"args": "append", "max_items": null}),
        json!({"max_items": 5}),
        json!({"args": "first"}),
        json!({"args": 5}),
        json!({"args": null}),
        json!({"schedule": "keep"}),
        json!({"schedule": "pull"}),
        json!({"schedule": 1}),
        json!({"schedule": "push"}),
        json!({"schedule": "push", "max_delay": "PT1M"}),
        json!({"schedule": "push", "max_delay": "PT0.5S"}),
        json!({"schedule": "push", "max_delay": "PT0S"}),
        json!({"schedule": "push", "max_delay": "P1M"}),
        json!({"schedule": "push", "max_delay": "a minute"}),
        json!({"schedule": "push", "max_delay": 60}),
        json!({"schedule": "keep", "max_delay": "PT1M"}),
        json!({"max_delay": "PT1M"}),
        json!({"delay": "PT1M"}),
    ] {
        for document in [
            json!({"update": update}),
            json!({"on_conflict": "update", "update": update}),
            json!({"on_conflict": "ignore", "update": update}),
            json!({"like": "ojs", "update": update}),
            json!({"keys": ["args"], "update": update}),
            json!({"keys": ["args"], "args_keys": ["a"], "update": update}),
            json!({"period": "PT1M", "update": update}),
            json!({"period": "PT59S", "update": update}),
            json!({"period": "P1M", "update": update}),
        ] {
            assert_eq!(read(&database, &document).await, read_in_rust(&document), "{document}");
        }
    }
    let document = json!({"on_conflict": "update"});
    assert_eq!(read(&database, &document).await, read_in_rust(&document));
}

#[tokio::test]
async fn r7_calendar_months_are_the_same_in_rust_and_in_sql() {
    let database = Database::new().await;
    let mut connection = database.pool().acquire().await.unwrap();
    let day = 86_400_000_000;
    let mut random = Random::new(7);
    for zone in ["UTC", "America/New_York", "Pacific/Apia", "Asia/Kathmandu"] {
        sqlx::query(sqlx::AssertSqlSafe(format!("SET TimeZone = '{zone}'"))).execute(&mut *connection).await.unwrap();
        for _ in 0..500 {
            let micros = (random.bits() % (80_000 * day)) as i64;
            let instant = OffsetDateTime::UNIX_EPOCH + time::Duration::microseconds(micros);
            let months = random.below(1_190) as u32;
            let length = Length::months(months).plus(Duration::from_micros(1 + random.bits() % (40 * day)));
            let found: OffsetDateTime = sqlx::query_scalar(
                database.sql("SELECT {schema}._length_after($1, {schema}._period_length($2, 'period'))"),
            )
            .bind(instant)
            .bind(length.to_string())
            .fetch_one(&mut *connection)
            .await
            .unwrap();
            assert_eq!(length.after(instant), Some(found), "{instant} + {length} in {zone}");
        }
    }
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
        ("period", &[json!("PT1M"), json!("1 minute"), json!(null)]),
        ("ttl", &[json!("P1D"), json!(5)]),
        ("window", &[json!("PT15M"), json!("P1M"), json!(null)]),
        ("states", &[json!(["running"]), json!(["active", "available"]), json!([]), json!(["x"])]),
        ("scope", &[json!("exists"), json!("queued"), json!("x")]),
        ("until", &[json!("start"), json!("success"), json!("end")]),
        ("on_conflict", &[json!("reject"), json!("replace"), json!("no")]),
        ("on_reentry", &[json!("discard"), json!("go_on"), json!(true)]),
        ("exclude_type", &[json!(true), json!(false), json!("true")]),
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
        match (&found, &wanted) {
            (Ok(found), Ok(wanted)) => {
                assert_eq!(found, wanted, "{document}");
                read_by_both += 1;
            }
            (Err(_), Err(_)) => {}
            _ => panic!("{document}: {found:?} in SQL, {wanted:?} in Rust"),
        }
    }
    assert!(read_by_both > 500, "{read_by_both}");
}
