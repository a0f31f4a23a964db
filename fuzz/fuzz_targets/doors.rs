//! Args and policy documents through both doors: Rust and SQL make the same key or refuse both, and no error of the
//! database comes out raw.
#![no_main]

mod database;

use libfuzzer_sys::fuzz_target;
use serde_json::value::RawValue;
use uniqueue::json::parse_json;
use uniqueue::{Error, NewJob, OnConflict, UniquePolicy};

use self::database::DATABASE;

// The first line is the args, the rest the policy.
fuzz_target!(|input: &str| {
    let Some((args, policy)) = input.split_once('\n') else { return };
    // What is no JSON, PostgreSQL's own parser refuses before the function is called.
    let Ok(raw) = RawValue::from_string(args.to_owned()) else { return };
    let Ok(document) = parse_json(policy) else { return };
    // The two inserts could fall into two windows.
    if document.get("window").is_some() {
        return;
    }
    let database = &*DATABASE;
    database.runtime.block_on(async {
        let mut tx = database.client.pool().begin().await.expect("a transaction");
        let in_rust = match UniquePolicy::from_json_with_default(&document, OnConflict::Ignore) {
            Ok(policy) => {
                let inserting = database.client.insert(NewJob::from_json("k", raw)).unique(policy).tx(&mut tx);
                inserting.await.map(|inserted| inserted.job.unique_key)
            }
            Err(error) => Err(error),
        };
        if let Err(error) = &in_rust {
            assert!(!matches!(error, Error::Database(_)), "{error}");
        }
        tx.rollback().await.expect("a rollback");
        let one = "SELECT i.unique_key FROM uniqueue.insert_job('k', $1::text::jsonb, unique_policy => $2) AS i";
        let many = "SELECT i.unique_key FROM uniqueue.insert_jobs(jsonb_build_array(jsonb_build_object(
            'kind', 'k', 'args', $1::text::jsonb, 'unique_policy', $2::jsonb))) AS i";
        for insert in [one, many] {
            let mut tx = database.client.pool().begin().await.expect("a transaction");
            let inserting = sqlx::query_scalar::<_, Option<String>>(insert).bind(args).bind(&document);
            match (inserting.fetch_one(&mut *tx).await, &in_rust) {
                (Ok(key), Ok(expected)) => assert_eq!(&key, expected),
                (Err(error), rust) => {
                    let code = error.as_database_error().and_then(|error| error.code().map(|code| code.into_owned()));
                    let is_refused = matches!(code.as_deref(), Some("22023" | "22P02" | "22P05" | "22003"));
                    assert!(is_refused && rust.is_err(), "{error}: {rust:?}");
                }
                // A JSON null stands for no policy in a batch.
                (Ok(None), Err(_)) if document.is_null() => {}
                (Ok(key), Err(error)) => panic!("{key:?}: {error}"),
            }
            tx.rollback().await.expect("a rollback");
        }
    });
});
