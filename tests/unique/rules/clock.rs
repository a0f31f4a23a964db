//! R7: the database's clock decides. The other process here lives in another time zone and, where the machine has
//! `faketime` (Debian: `apt-get install faketime`), a day ahead.

use std::env;
use std::process::{Command, Stdio};
use std::time::Duration;

use time::OffsetDateTime;
use uniqueue::{Client, Inserted, NewJob, SchemaName, UniquePolicy};

use support::{Database, job};

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
        return;
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
