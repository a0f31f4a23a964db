//! R7: period, ttl and window, by the database's clock. The other process here lives in another time zone and, where the
//! machine has `faketime` (Debian: `apt-get install faketime`), a day ahead.

use std::env;
use std::process::{Command, Stdio};

use support::prelude::*;

#[support::test]
async fn r7_an_expiry_counts_inside_a_long_transaction_too(database: Database, client: &Client) {
    let key = || UniqueKey::raw("k").scope(UniqueScope::Active).period(MINUTE);
    client.insert(job("a").unique_key(key())).await.unwrap();
    let mut tx = database.pool().begin().await.unwrap();
    sqlx::query("SELECT now()").execute(&mut *tx).await.unwrap();
    database.execute("UPDATE {schema}.job SET unique_until = clock_timestamp()").await;
    assert!(!client.insert(job("a").unique_key(key())).tx(&mut tx).await.unwrap().duplicate);
    tx.commit().await.unwrap();
}

#[support::test]
async fn r7_calendar_months_end_the_claim_on_the_same_day_of_a_later_month(database: Database, client: &Client) {
    // A summer day of New York is an hour further from UTC than a winter day, and ends a month earlier.
    let mut tx = database.pool().begin().await.unwrap();
    sqlx::query("SET LOCAL TimeZone = 'America/New_York'").execute(&mut *tx).await.unwrap();
    for (text, length) in [
        ("P1M", Length::months(1)),
        ("P1Y", Length::years(1)),
        ("P1Y2M3DT4H", Length::months(14).plus(Duration::from_secs(76 * 3_600))),
    ] {
        let by_period = UniqueKey::raw(format!("p{text}")).scope(UniqueScope::Exists).period(length);
        let one = client.insert(job("a").unique_key(by_period)).tx(&mut tx).await.unwrap().job;
        assert_eq!(one.unique_until, length.after(one.created_at), "{text}");

        let due = datetime!(2126-01-31 23:30 UTC);
        let by_ttl = || UniqueKey::raw(format!("t{text}")).ttl(length);
        let mut jobs = vec![job("a").unique_key(by_ttl()).scheduled_at(due)];
        jobs.push(job("a").unique_key(by_ttl().on_conflict(OnConflict::Replace)).scheduled_at(due));
        // One takes the key at once, a batch takes it one by one.
        let batch = client.insert_many(jobs).tx(&mut tx).await.unwrap();
        let alone = UniqueKey::raw(format!("s{text}")).ttl(length);
        let alone = client.insert(job("a").unique_key(alone).scheduled_at(due)).tx(&mut tx).await.unwrap();
        for two in [&batch[1].job, &alone.job] {
            assert_eq!(two.unique_until, length.after(due), "{text}");
        }
    }
}

#[support::test]
async fn r7_a_delay_is_counted_from_the_moment_that_decides_the_window(database: Database) {
    let minute = |window| job("a").unique(UniquePolicy::river().window(window)).scheduled_in(MINUTE);
    let inserted = database.client.insert(minute(Duration::from_secs(1))).await.unwrap().job;
    // That moment is a round trip before the insert: counted from the insert, the job could be due in another window.
    assert!(inserted.scheduled_at - MINUTE < inserted.created_at, "{inserted:?}");
    assert!(inserted.scheduled_at - MINUTE > inserted.created_at - MINUTE, "{inserted:?}");
    // Without a window there is no such moment.
    let plain = database.client.insert(job("b").scheduled_in(MINUTE)).await.unwrap().job;
    assert_eq!(plain.scheduled_at - MINUTE, plain.created_at);
}

#[support::test]
async fn r7_a_claim_begins_when_the_job_is_inserted_not_when_its_transaction_began(database: Database) {
    let mut tx = database.pool().begin().await.unwrap();
    let began: time::OffsetDateTime = sqlx::query_scalar("SELECT now()").fetch_one(&mut *tx).await.unwrap();
    sqlx::query("SELECT pg_sleep(0.1)").execute(&mut *tx).await.unwrap();
    // Both passes of the unique insert, and the plain one.
    let unique = |text: &str| job("a").unique_key(UniqueKey::raw(text).period(MINUTE));
    let pairs = [unique("1"), unique("2")];
    let mut answers = database.client.insert_many(pairs).tx(&mut tx).await.unwrap();
    answers.push(database.client.insert(unique("3")).tx(&mut tx).await.unwrap());
    answers.push(database.client.insert(job("plain")).tx(&mut tx).await.unwrap());
    for answer in answers {
        assert!(answer.job.created_at - began >= Duration::from_millis(100));
        if let Some(until) = answer.job.unique_until {
            assert_eq!(until - answer.job.created_at, MINUTE);
        }
    }
    tx.rollback().await.unwrap();
}

/// The database and schema that the other process inserts into.
const ORDER: &str = "UNIQUEUE_TEST_CLOCK";

/// Windows of six hours: a client that used its own clock would be four windows away.
fn windowed() -> NewJob {
    job("report").unique(UniquePolicy::river().window(Duration::from_secs(6 * 3600)))
}

fn key(inserted: &Inserted) -> &str {
    inserted.job.unique_key.as_deref().expect("a key")
}

#[support::test]
async fn r7_a_client_with_another_clock_and_time_zone_gets_the_same_window_key(database: Database) {
    let is_faked = Command::new("faketime").arg("--version").stdout(Stdio::null()).status().is_ok();
    loop {
        let before = database.client.insert(windowed()).await.unwrap();
        let other = other_process(is_faked, &format!("{} {}", database.schema, database.url));
        let after = database.client.insert(windowed()).await.unwrap();
        if key(&before) != key(&after) {
            // The window ended in between; the next one has hours to go.
            continue;
        }
        let [clock, answer] = other.split('\n').collect::<Vec<_>>()[..] else { panic!("{other}") };
        let ahead = clock.parse::<i64>().unwrap() - OffsetDateTime::now_utc().unix_timestamp();
        assert_eq!(ahead > 80_000, is_faked, "the other process is {ahead} s ahead");
        assert_eq!(answer, format!("{} true {}", before.id(), key(&before)));
        break;
    }
}

fn other_process(is_faked: bool, order: &str) -> String {
    let binary = env::current_exe().unwrap();
    let mut command = if is_faked {
        let mut command = Command::new("faketime");
        command.arg("-f").arg("+1d").arg(binary);
        command
    } else {
        support::tools::lacks("faketime", "apt-get install faketime");
        Command::new(binary)
    };
    let name = module_path!().split_once("::").map_or("clock", |(_, module)| module);
    let output = command
        .args(["--exact", &format!("{name}::the_other_process"), "--nocapture"])
        .env("TZ", "Pacific/Kiritimati")
        .env("PGTZ", "America/St_Johns")
        .env(ORDER, order)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let (_, answer) = text.split_once("answer: ").unwrap_or_else(|| panic!("{text}"));
    let (answer, _) = answer.split_once("\nend").unwrap();
    answer.to_owned()
}

/// Not a test of its own: the other process in the test above.
#[tokio::test]
async fn the_other_process() {
    let Ok(order) = env::var(ORDER) else { return };
    let (schema, url) = order.split_once(' ').unwrap();
    let client = Client::builder().schema(SchemaName::new(schema).unwrap()).connect(url).await.unwrap();
    let inserted = client.insert(windowed()).await.unwrap();
    let clock = OffsetDateTime::now_utc().unix_timestamp();
    println!("answer: {clock}\n{} {} {}\nend", inserted.id(), inserted.duplicate, key(&inserted));
}
