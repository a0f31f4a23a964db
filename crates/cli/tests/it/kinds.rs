//! `uniqueue kind`, and what `job insert` and `unique explain` take from a registered kind.

use std::thread;

use test_support::prelude::*;

use crate::support::Migrated;

const REGISTER: &str = "SELECT uniqueue.register_kind(
    'mail', 'mails', priority => 3, unique_policy => '{\"keys\": [\"args\"], \"args_keys\": [\"user\"]}',
    group_policy => '{\"keys\": [\"args\"], \"args_keys\": [\"tenant\"]}', group_limit => 2, timeout => '90 s',
    registered_by => 'mailer')";

/// A migrated database with a registered kind.
async fn registered() -> Migrated {
    let kinds = Migrated::new().await;
    kinds.execute(REGISTER).await;
    kinds
}

#[test_support::test(self::registered())]
async fn kinds_are_listed_shown_and_removed(kinds: Migrated) {
    let list = kinds.text("kind list", 0);
    let line = list.lines().find(|line| line.contains("mailer")).unwrap();
    for part in ["mail", "mails", "same kind and args user", "same kind and args tenant; at most 2 at once"] {
        assert!(line.contains(part), "{part}: {list}");
    }
    let listed = kinds.json("kind list", 0);
    assert_eq!((&listed["name"], &listed["queue"], &listed["priority"]), (&json!("mail"), &json!("mails"), &json!(3)));
    assert_eq!(listed["unique_policy"], json!({"keys": ["args"], "args_keys": ["user"]}));
    assert_eq!(kinds.json("kind show mail", 0), listed);
    let shown = kinds.text("kind show mail", 0);
    for part in ["a duplicate is ignored", "1m 30s", "by mailer", "attempts   | 25"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert_eq!(kinds.json("kind remove mail", 0), json!({"name": "mail", "is": "removed"}));
    for verb in ["show", "remove"] {
        assert!(kinds.failed(["kind", verb, "mail"], 1).contains("is not registered"), "{verb}");
    }
    kinds.execute(REGISTER).await;
    assert_eq!(kinds.text("kind remove mail", 0), "kind mail is removed; its jobs stay\n");
}

#[test_support::test(self::registered())]
async fn r22_commands_that_name_only_kind_and_args_make_one_key(kinds: Migrated) {
    let args = r#"{"user":1,"tenant":"acme"}"#;
    let (line, explain) = (format!("job insert mail --args {args}"), format!("unique explain mail --args {args}"));
    let inserts = thread::scope(|scope| {
        let running: Vec<_> = (0..8).map(|_| scope.spawn(|| kinds.json(&line, 0))).collect();
        running.into_iter().map(|one| one.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(inserts.iter().filter(|answer| answer["duplicate"] == json!(false)).count(), 1);
    assert!(inserts.iter().all(|answer| answer["job"]["id"] == inserts[0]["job"]["id"]), "{inserts:?}");
    let job = &inserts[0]["job"];
    assert_eq!((&job["queue"], &job["priority"], &job["group_limit"]), (&json!("mails"), &json!(3), &json!(2)));

    let found = kinds.json(&explain, 1);
    assert_eq!((&found["outcome"], &found["holder"]["holder"]), (&json!("duplicate"), &job["id"]));

    // null gives a policy up.
    let plain = kinds.json((&line, "--policy null --group-policy null"), 0);
    let job = &plain["job"];
    assert_eq!(
        (&plain["duplicate"], &job["unique_key"], &job["group_key"]),
        (&json!(false), &json!(null), &json!(null))
    );
    let said = kinds.text((&explain, "--policy null"), 0);
    assert!(said.contains("it is not unique") && !said.contains("no job claims the key"), "{said}");
    let own = kinds.json((&line, "--queue own --priority 0"), 0);
    assert_eq!(own["duplicate"], json!(true));
    assert_eq!(kinds.texts("SELECT count(*)::text FROM uniqueue.job").await, ["2"]);
}
