//! Numbers of args, which pass through.

use std::path::Path;

use test_support::dice::numbers;
use test_support::prelude::*;

use crate::support::{Server, with};

#[derive(Deserialize)]
struct Fetched<'a> {
    #[serde(borrow)]
    args: &'a RawValue,
}

#[test_support::test]
async fn numbers_of_args_come_back_with_every_digit(server: Server) {
    let mut worker = server.worker("w").await;
    let args = numbers(&mut Dice::new(20, 1), 300);
    assert_eq!(worker.send(&format!("PUSH {{\"jid\":\"12345678\",\"jobtype\":\"t\",\"args\":{args}}}")).await, "OK");
    let sent = worker.send("FETCH default").await;
    let stored = server.database.text(&format!("SELECT '{args}'::jsonb::text")).await;
    assert_eq!(serde_json::from_str::<Fetched>(&sent).unwrap().args.get(), stored.replace(' ', ""));
}

#[test_support::test]
async fn a_number_that_a_double_would_change_is_refused_in_a_key_and_in_custom(server: Server) {
    let mut client = server.client().await;
    for number in ["12345678901234567890123", "1e400", "0.1234567890123456789"] {
        let push = async |client: &mut crate::support::Raw, args: &str, custom: &str| {
            let job = format!("{{\"jid\":\"12345678\",\"jobtype\":\"t\",\"args\":{args},\"custom\":{custom}}}");
            client.send(&format!("PUSH {job}")).await
        };
        let args = format!("[{number}]");
        let refused = push(&mut client, &args, r#"{"unique_for":600}"#).await;
        assert!(refused.starts_with("-ERR ") && refused.contains("make it a string"), "{refused}");
        let refused = push(&mut client, "[]", &format!("{{\"n\":{number}}}")).await;
        assert!(refused.starts_with("-ERR invalid custom: n: "), "{refused}");
        assert_eq!(push(&mut client, &args, "{}").await, "OK");
    }
    let fits = with(
        with(crate::support::job("12345678", "t"), "args", json!([0.1, 1e3])),
        "custom",
        json!({"n": 1.5, "unique_for": 600}),
    );
    assert_eq!(client.push(fits).await, "OK");
}

#[test]
fn no_damaged_command_panics() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/faktory");
    test_support::mutations::feed(&seeds, uniqueue_faktory::fuzz);
}
