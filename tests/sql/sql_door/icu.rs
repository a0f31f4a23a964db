//! Keys do not depend on the locale of the database.

use serde_json::{Value, json};
use uniqueue::{NewJob, UniquePolicy};

use super::equality::{compare_batch, vectors_hold};
use super::insert;
use support::Database;

/// Each orders letters in a way of its own; in Turkish `i` and `I` are no pair.
const LOCALES: [&str; 4] = ["en-US", "tr", "sv", "da"];

#[tokio::test]
async fn rust_and_sql_make_one_key_in_a_database_of_each_locale() {
    for locale in LOCALES {
        let Some(database) = Database::of_locale(locale).await else { return };
        // A text that the locale orders in another way than its bytes.
        let odd = database.number("SELECT ('a' < 'B')::integer::bigint").await;
        assert_eq!(odd, 1, "{locale}");
        vectors_hold(&database).await;
        for seed in 1..=2 {
            compare_batch(&database, seed).await;
        }
        let args = r#"{"userId":1,"user_id":2,"B":3,"a":4,"é":5,"I":6,"ı":7,"å":8,"z":9}"#;
        let policy = r#"{"keys": ["args"]}"#;
        let by_sql = insert(&database, &format!("'user.sync', '{args}', unique_policy => '{policy}'")).await.unwrap();
        let value: Value = serde_json::from_str(args).unwrap();
        let job = NewJob::new("user.sync", &value).unique(UniquePolicy::new().by_args());
        let by_rust = database.client.insert(job).await.unwrap();
        assert!(by_rust.duplicate && by_rust.id().to_string() == by_sql.id.to_string(), "{locale}");
    }
}

#[tokio::test]
async fn lists_and_cursors_follow_bytes_in_every_locale() {
    let Some(database) = Database::of_locale("en-US").await else { return };
    for queue in ["a", "B", "é", "_", "Z"] {
        for group in ["b", "A", "ä", "z"] {
            let job = NewJob::new("k", &json!({})).queue(queue).group(group);
            database.client.insert(job).await.unwrap();
        }
    }
    let names: Vec<String> =
        database.client.queues().await.unwrap().into_iter().map(|queue| queue.settings.name.to_string()).collect();
    assert_eq!(names, ["B", "Z", "_", "a", "é"]);
}
