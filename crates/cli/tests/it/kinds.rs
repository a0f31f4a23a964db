//! `uniqueue kind`, and what `job insert` and `unique explain` take from a registered kind.

use std::thread;

use test_support::prelude::*;

use crate::support::{Migrated, execute, texts};

const REGISTER: &str = "SELECT uniqueue.register_kind(
    'mail', 'mails', priority => 3, unique_policy => '{\"keys\": [\"args\"], \"args_keys\": [\"user\"]}',
    group_policy => '{\"keys\": [\"args\"], \"args_keys\": [\"tenant\"]}', group_limit => 2, timeout => '90 s',
    registered_by => 'mailer')";

/// A migrated database with a registered kind.
async fn registered() -> Migrated {
    let kinds = Migrated::new().await;
    execute(&kinds.url, REGISTER).await;
    kinds
}

#[tokio::test]
async fn kinds_are_listed_shown_and_removed() {
    let kinds = registered().await;
    let list = kinds.text(&["kind", "list"], 0);
    let line = list.lines().find(|line| line.contains("mailer")).unwrap();
    for part in ["mail", "mails", "same kind and args user", "same kind and args tenant; at most 2 at once"] {
        assert!(line.contains(part), "{part}: {list}");
    }
    let listed = kinds.json(&["kind", "list"], 0);
    assert_eq!((&listed["name"], &listed["queue"], &listed["priority"]), (&json!("mail"), &json!("mails"), &json!(3)));
    assert_eq!(listed["unique_policy"], json!({"keys": ["args"], "args_keys": ["user"]}));
    assert_eq!(kinds.json(&["kind", "show", "mail"], 0), listed);
    let shown = kinds.text(&["kind", "show", "mail"], 0);
    for part in ["a duplicate is ignored", "1m 30s", "by mailer", "attempts   | 25"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert_eq!(kinds.json(&["kind", "remove", "mail"], 0), json!({"name": "mail", "is": "removed"}));
    for verb in ["show", "remove"] {
        let output = kinds.command(&["kind", verb, "mail"]).output().unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{verb}");
        assert!(String::from_utf8(output.stderr).unwrap().contains("is not registered"), "{verb}");
    }
    execute(&kinds.url, REGISTER).await;
    assert_eq!(kinds.text(&["kind", "remove", "mail"], 0), "kind mail is removed; its jobs stay\n");
}

#[tokio::test]
async fn r22_commands_that_name_only_kind_and_args_make_one_key() {
    let kinds = registered().await;
    let line = ["job", "insert", "mail", "--args", r#"{"user": 1, "tenant": "acme"}"#];
    let inserts = thread::scope(|scope| {
        let running: Vec<_> = (0..8).map(|_| scope.spawn(|| kinds.json(&line, 0))).collect();
        running.into_iter().map(|one| one.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(inserts.iter().filter(|answer| answer["duplicate"] == json!(false)).count(), 1);
    assert!(inserts.iter().all(|answer| answer["job"]["id"] == inserts[0]["job"]["id"]), "{inserts:?}");
    let job = &inserts[0]["job"];
    assert_eq!((&job["queue"], &job["priority"], &job["group_limit"]), (&json!("mails"), &json!(3), &json!(2)));

    let explain = ["unique", "explain", "mail", "--args", r#"{"user": 1, "tenant": "acme"}"#];
    let found = kinds.json(&explain, 1);
    assert_eq!((&found["outcome"], &found["holder"]["holder"]), (&json!("duplicate"), &job["id"]));

    // null gives a policy up.
    let plain = kinds.json(&[&line[..], &["--policy", "null", "--group-policy", "null"]].concat(), 0);
    let job = &plain["job"];
    assert_eq!(
        (&plain["duplicate"], &job["unique_key"], &job["group_key"]),
        (&json!(false), &json!(null), &json!(null))
    );
    let said = kinds.text(&[&explain[..], &["--policy", "null"]].concat(), 0);
    assert!(said.contains("it is not unique") && !said.contains("no job claims the key"), "{said}");
    let own = kinds.json(&[&line[..], &["--queue", "own", "--priority", "0"]].concat(), 0);
    assert_eq!(own["duplicate"], json!(true));
    assert_eq!(texts(&kinds.url, "SELECT count(*)::text FROM uniqueue.job").await, ["2"]);
}
