//! The policy's document and its lengths of time in SQL: as strict as in Rust, and with the same words.

use super::told;
use support::prelude::*;

/// For a policy that enforces nothing.
const NOT_UNIQUE: &str = "not unique";

/// What SQL makes of a document: the claim's terms, or the error's message.
pub(super) async fn read(database: &Database, document: &Value) -> Result<String, String> {
    let text = "SELECT
            c.*,
            concat_ws(
                ' ', c.on_conflict, (c.changes).args,
                CASE
                    WHEN c.on_conflict = 'update'
                        THEN coalesce((extract(epoch FROM (c.changes).max_delay) * 1000000)::bigint, 0)
                END,
                (c.changes).max_items
            ) AS terms
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
                row.get::<&str, _>("terms"),
                row.get::<&str, _>("unique_key"),
            ))
        }
    }
}

/// What Rust makes of it.
pub(super) fn read_in_rust(document: &Value) -> Result<String, String> {
    let resolve = || {
        let policy = UniquePolicy::from_json_with_default(document, OnConflict::Ignore)?;
        let (args, meta) = (json!({"a": 1}), json!({}));
        let window_at = Some(datetime!(2026-02-12 15:15 UTC));
        let subject = Subject { kind: "k", queue: "q", args: &args, meta: &meta, window_at };
        let claim = policy.resolve(&subject)?;
        if claim.is_some() {
            let written = UniquePolicy::from_ojs(&policy.to_ojs()?)?;
            assert_eq!(written.resolve(&subject)?, claim, "{document} as it is written");
        }
        Ok(claim)
    };
    let claim = resolve().map_err(|error: uniqueue::Error| {
        let text = error.to_string();
        text.split("; hint: ").next().unwrap_or_default().to_owned()
    })?;
    let Some(claim) = claim else { return Ok(NOT_UNIQUE.to_owned()) };
    let length = |length: Option<Length>| length.map(|length| (length.parts().0, length.parts().1.as_micros()));
    let mut terms = claim.terms.on_conflict.to_string();
    if claim.terms.on_conflict == OnConflict::Update {
        let update = claim.terms.update;
        let max_delay = update.max_delay.unwrap_or_default().as_micros();
        terms += &format!(" {} {max_delay} {}", update.args, update.max_items.unwrap_or(1_000));
    }
    Ok(format!(
        "{} {:?} {:?} {} {} {} {}",
        claim.terms.states.bits(),
        length(claim.terms.period),
        length(claim.terms.ttl),
        claim.terms.until_start,
        claim.terms.on_reentry == OnReentry::Discard,
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
    let mut random = Dice::new(3, 0);
    let mut read_by_both = 0;
    for place in 0..8_000 {
        let mut document = json!({});
        // Each preset, alone and with others' members.
        if let Some(like) = ["zizq", "river", "faktory", "ojs"].get(place % 8) {
            document["like"] = json!(like);
        }
        for _ in 0..random.index(5) {
            let (name, values) = &members[random.index(members.len())];
            document[name] = values[if random.once_in(2) { random.index(values.len()) } else { 0 }].clone();
        }
        if random.once_in(4) {
            let mut chosen: Vec<_> = states.iter().filter(|_| random.once_in(3)).map(|state| json!(state)).collect();
            if random.once_in(20) {
                chosen.push(random.of(&["\"done\"", "\"Running\"", "1", "[1]"]).parse().unwrap());
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

/// Lengths at the borders of what is read.
const BORDERS: &str = "P36525D P36524DT86399.999999S P36525DT1S P36525DT0.0000001S 36525d 36526d 36525d1us 3155760000s 3155760001s \
    P100Y P100Y1D P1200M P1201M PT1.000001S PT0.000001S PT0.0000001S 0.5us 0.0s P0Y0M P0,5M P1.5Y PT18446744073709551615S \
    18446744073709s600000ms PT１S 5sé five PT P 0 5 s";

#[support::test]
async fn lengths_at_the_borders_read_as_in_rust(database: Database) {
    let many = |digit: &str, count: usize| digit.repeat(count);
    let long = [
        format!("PT{}1S", many("0", 60)),
        format!("PT{}1S", many("0", 61)),
        format!("P{}D", many("9", 140_000)),
        format!("PT1.{}S", many("1", 59)),
        format!("PT0.{}1S", many("0", 58)),
        format!("P0.5W{}D", many("9", 30)),
        format!("P5217.857142{}W", many("857142", 8)),
        format!("{}h", many("1", 63)),
        format!("1.{}w", many("3", 61)),
    ];
    for text in long.iter().map(String::as_str).chain(BORDERS.split(' ')) {
        for document in [
            json!({"period": text}),
            json!({"window": text}),
            json!({"max_delay": text}),
            json!({"debounce": text, "max_delay": "P36525D"}),
        ] {
            assert_eq!(read(&database, &document).await, read_in_rust(&document), "{document}");
        }
    }
}

#[support::test]
async fn random_lengths_read_as_in_rust(database: Database) {
    let mut random = Dice::new(5, 0);
    let mut lengths = 0;
    for _ in 0..4_000 {
        let is_iso8601 = random.once_in(2);
        let units: &[&str] =
            if is_iso8601 { &["Y", "M", "W", "D", "T", "H", "M", "S"] } else { &["w", "d", "h", "m", "s", "ms", "us"] };
        let mut text = if is_iso8601 { "P".to_owned() } else { String::new() };
        for unit in units {
            if *unit == "T" {
                text += if random.once_in(8) { "" } else { "T" };
            } else if random.once_in(3) {
                let digits = 1 + random.index(3) + if random.once_in(20) { 18 } else { 0 };
                text.extend((0..digits).map(|_| char::from(b'0' + random.index(10) as u8)));
                if random.once_in(5) {
                    text.push(if random.once_in(4) { ',' } else { '.' });
                    text.extend((0..1 + random.index(8)).map(|_| char::from(b'0' + random.index(10) as u8)));
                }
                text += unit;
            }
        }
        // Half of them have an odd character somewhere, or lack one.
        if random.once_in(2) {
            let at = random.index(text.len() + 1);
            if random.once_in(3) && at < text.len() {
                text.remove(at);
            } else {
                text.insert(at, char::from(random.of(b"PTYMWDHSwdhmsu0123456789.,+-e :\n")));
            }
        }
        let document = json!({["period", "ttl", "window", "max_delay"][random.index(4)]: text});
        let (found, wanted) = (read(&database, &document).await, read_in_rust(&document));
        assert_eq!(found, wanted, "{document}");
        lengths += usize::from(wanted.is_ok());
    }
    assert!(lengths > 300, "{lengths}");
}

#[support::test]
async fn r7_calendar_months_are_the_same_in_rust_and_in_sql(database: Database) {
    let mut connection = database.pool().acquire().await.unwrap();
    let day = 86_400_000_000;
    let mut random = Dice::new(7, 0);
    for zone in ["UTC", "America/New_York", "Pacific/Apia", "Asia/Kathmandu"] {
        sqlx::query(sqlx::AssertSqlSafe(format!("SET TimeZone = '{zone}'"))).execute(&mut *connection).await.unwrap();
        for _ in 0..500 {
            let micros = (random.number() % (80_000 * day)) as i64;
            let instant = OffsetDateTime::UNIX_EPOCH + time::Duration::microseconds(micros);
            let months = random.index(1_190) as u32;
            let length = Length::months(months).plus(Duration::from_micros(1 + random.number() % (40 * day)));
            let found: OffsetDateTime = sqlx::query_scalar(
                database.sql("SELECT {schema}._length_after($1, {schema}._policy_length($2, 'period'))"),
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
