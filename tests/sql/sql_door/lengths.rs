//! Lengths of time in a policy's document: read in SQL as in Rust, or refused in the same words.

use std::time::Duration;

use serde_json::json;
use time::OffsetDateTime;
use uniqueue::period::Length;

use super::policies::{read, read_in_rust};
use super::random::Random;
use support::Database;

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
    let mut random = Random::new(5);
    let mut lengths = 0;
    for _ in 0..4_000 {
        let is_iso8601 = random.one_in(2);
        let units: &[&str] =
            if is_iso8601 { &["Y", "M", "W", "D", "T", "H", "M", "S"] } else { &["w", "d", "h", "m", "s", "ms", "us"] };
        let mut text = if is_iso8601 { "P".to_owned() } else { String::new() };
        for unit in units {
            if *unit == "T" {
                text += if random.one_in(8) { "" } else { "T" };
            } else if random.one_in(3) {
                let digits = 1 + random.below(3) + if random.one_in(20) { 18 } else { 0 };
                text.extend((0..digits).map(|_| char::from(b'0' + random.below(10) as u8)));
                if random.one_in(5) {
                    text.push(if random.one_in(4) { ',' } else { '.' });
                    text.extend((0..1 + random.below(8)).map(|_| char::from(b'0' + random.below(10) as u8)));
                }
                text += unit;
            }
        }
        // Half of them have an odd character somewhere, or lack one.
        if random.one_in(2) {
            let at = random.below(text.len() + 1);
            if random.one_in(3) && at < text.len() {
                text.remove(at);
            } else {
                text.insert(at, char::from(random.pick(b"PTYMWDHSwdhmsu0123456789.,+-e :\n")));
            }
        }
        let document = json!({["period", "ttl", "window", "max_delay"][random.below(4)]: text});
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
    let mut random = Random::new(7);
    for zone in ["UTC", "America/New_York", "Pacific/Apia", "Asia/Kathmandu"] {
        sqlx::query(sqlx::AssertSqlSafe(format!("SET TimeZone = '{zone}'"))).execute(&mut *connection).await.unwrap();
        for _ in 0..500 {
            let micros = (random.bits() % (80_000 * day)) as i64;
            let instant = OffsetDateTime::UNIX_EPOCH + time::Duration::microseconds(micros);
            let months = random.below(1_190) as u32;
            let length = Length::months(months).plus(Duration::from_micros(1 + random.bits() % (40 * day)));
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
