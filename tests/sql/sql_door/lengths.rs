//! Lengths of time in a policy's document: read in SQL as in Rust, or refused in the same words.

use std::time::Duration;

use serde_json::json;
use time::OffsetDateTime;
use uniqueue::period::Length;

use super::policies::{read, read_in_rust};
use super::random::Random;
use support::Database;

/// Lengths, and texts that look like one.
const TEXTS: [&str; 132] = [
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
    "P0M1D",
    "P36525DT0.0000001S",
    "0",
    "5",
    "s",
    "5s",
    "90s",
    "15m",
    "1h30m",
    "1.5h",
    "1,5h",
    "1.5h1m",
    "1d",
    "7d",
    "2w1d",
    "2w1d3h4m5s6ms7us",
    "500ms",
    "0.5ms",
    "0.5us",
    "1s5us",
    "1m5ms",
    "1m5s",
    "5ms1s",
    "5ms1m",
    "0h1m",
    "0s",
    "0.0s",
    "5S",
    "5 s",
    "-5s",
    "+5s",
    "5s1m",
    "1m1m",
    "1mo",
    "1mon",
    "1y",
    "1min",
    "1us1us",
    "five",
    "5sé",
    "1.h",
    ".5h",
    "36525d",
    "36526d",
    "36525d1us",
    "12345678s",
    "3155760000s",
    "3155760001s",
    "99999999999999999999s",
    "18446744073709s600000ms",
    "T5S",
    "5Ts",
    "PT5s",
    "P5d",
    "1d\n",
];

#[tokio::test]
async fn a_window_of_parts_of_a_second_is_refused_by_name() {
    let database = Database::new().await;
    for text in ["PT0.5S", "500ms", "1.5s"] {
        let found = read(&database, &json!({"window": text})).await.unwrap_err();
        assert_eq!(found, format!("invalid unique policy: window: must be whole seconds: \"{text}\""));
        assert_eq!(read_in_rust(&json!({"window": text})).unwrap_err(), found);
    }
}

#[tokio::test]
async fn every_period_reads_as_in_rust() {
    let database = Database::new().await;
    let many = |digit: &str, count: usize| digit.repeat(count);
    let long = [
        format!("PT{}1S", many("0", 60)),
        format!("PT{}1S", many("0", 61)),
        format!("P{}D", many("9", 62)),
        format!("P{}D", many("9", 140_000)),
        format!("PT1.{}S", many("1", 59)),
        format!("PT1,{}S", many("0", 59)),
        format!("PT0.{}1S", many("0", 58)),
        format!("P0.5W{}D", many("9", 30)),
        format!("P{}.5W1D", many("9", 30)),
        format!("P5217.857142{}W", many("857142", 8)),
        format!("{}h", many("1", 63)),
        format!("1.{}w", many("3", 61)),
    ];
    for text in long.iter().map(String::as_str).chain(TEXTS) {
        for member in ["period", "ttl", "window"] {
            let document = json!({member: text});
            assert_eq!(read(&database, &document).await, read_in_rust(&document), "{document}");
        }
        for document in [json!({"max_delay": text}), json!({"debounce": text, "max_delay": "P36525D"})] {
            assert_eq!(read(&database, &document).await, read_in_rust(&document), "{document}");
        }
    }
}

#[tokio::test]
async fn random_lengths_read_as_in_rust() {
    let database = Database::new().await;
    let mut random = Random::new(5);
    let mut lengths = 0;
    for _ in 0..2_000 {
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
        let document = json!({["period", "ttl", "window", "max_delay"][random.below(4)]: text});
        let (found, wanted) = (read(&database, &document).await, read_in_rust(&document));
        assert_eq!(found, wanted, "{document}");
        lengths += usize::from(wanted.is_ok());
    }
    assert!(lengths > 300, "{lengths}");
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
