//! `register_kind`, and what inserts by SQL take from a registered kind.

use super::{insert, told};
use support::prelude::*;

#[derive(Debug, Deserialize, Job, Serialize)]
#[job(kind = "mail", queue = "mails", priority = 3, max_attempts = 5, group(tenant), limit = 2)]
struct Mail {
    #[job(unique)]
    user: u32,
    tenant: String,
}

const ARGS: &str = r#"'{"user": 1, "tenant": "acme"}'"#;

async fn job(database: &Database, id: Uuid) -> JobRow {
    database.client.job(JobId::from(id)).await.unwrap().unwrap()
}

/// What a job has from its kind.
fn of_kind(job: &JobRow) -> (&str, i16, u16, Option<&str>, Option<u16>, bool) {
    let key = job.group_key.as_deref();
    (job.queue.as_str(), job.priority, job.max_attempts, key, job.group_limit, job.unique_key.is_some())
}

/// Inserts a batch of jobs as `insert_jobs` takes it. Answers with the first one's id.
async fn insert_jobs(database: &Database, jobs: serde_json::Value) -> Uuid {
    let text = database.sql("SELECT i.id FROM {schema}.insert_jobs($1) AS i ORDER BY i.index LIMIT 1");
    sqlx::query(text).bind(jobs).fetch_one(database.pool()).await.unwrap().get("id")
}

#[support::test]
async fn r22_an_insert_takes_from_its_kind_what_it_leaves_out(database: Database) {
    let typed = database.client.insert(Mail { user: 0, tenant: "acme".to_owned() }).await.unwrap();
    database.client.register::<Mail>().await.unwrap();
    let wanted = of_kind(&typed.job);
    assert_eq!((wanted.0, wanted.1, wanted.2, wanted.4, wanted.5), ("mails", 3, 5, Some(2), true));
    let one = insert(&database, &format!("'mail', {ARGS}")).await.unwrap();
    assert_eq!(of_kind(&job(&database, one.id).await), wanted);
    let many = insert_jobs(&database, json!([{"kind": "mail", "args": {"user": 2, "tenant": "acme"}}])).await;
    assert_eq!(of_kind(&job(&database, many).await), wanted);
    // The same key by every door.
    let again = database.client.insert(Mail { user: 2, tenant: "other".to_owned() }).await.unwrap();
    assert_eq!((again.duplicate, again.id().as_uuid()), (true, many));

    // What it says itself counts.
    let own = r#"queue => 'own', priority => -1, max_attempts => 1, unique_policy => '{"key": "own"}', group_key => 'g', group_limit => 7"#;
    let own = insert(&database, &format!("'mail', {ARGS}, {own}")).await.unwrap();
    assert_eq!(of_kind(&job(&database, own.id).await), ("own", -1, 1, Some("g"), Some(7), true));
    assert_eq!(own.unique_key.as_deref(), Some("own"));
    // The limit of the kind counts for a group that the insert names.
    let grouped =
        insert(&database, &format!("'mail', {ARGS}, unique_policy => 'null', group_key => 'g'")).await.unwrap();
    assert_eq!(of_kind(&job(&database, grouped.id).await), ("mails", 3, 5, Some("g"), Some(2), false));
}

#[support::test]
async fn r22_an_explicit_null_gives_a_default_up(database: Database) {
    database.client.register::<Mail>().await.unwrap();
    let plain = ("mails", 3, 5, None, None, false);
    let one =
        insert(&database, &format!("'mail', {ARGS}, unique_policy => 'null', group_policy => 'null'")).await.unwrap();
    assert_eq!(of_kind(&job(&database, one.id).await), plain);
    let args = json!({"user": 1, "tenant": "acme"});
    let policies = json!([{"kind": "mail", "args": args, "unique_policy": null, "group_policy": null}]);
    assert_eq!(of_kind(&job(&database, insert_jobs(&database, policies).await).await), plain);
    let all = json!([{
        "kind": "mail", "args": args, "queue": null, "priority": null, "max_attempts": null, "unique_policy": null,
        "group_policy": null,
    }]);
    assert_eq!(
        of_kind(&job(&database, insert_jobs(&database, all).await).await),
        ("default", 0, 25, None, None, false)
    );
    // In insert_job a null is an argument that is left out.
    let nulls = format!(
        "'mail', {ARGS}, queue => NULL, priority => NULL, max_attempts => NULL, unique_policy => NULL, group_policy => NULL"
    );
    let one = insert(&database, &nulls).await.unwrap();
    assert_eq!(of_kind(&job(&database, one.id).await).0, "mails");
    assert!(one.unique_key.is_some());
    // Of a kind that is not registered, it is the default of every kind.
    let one = insert(&database, "'other', queue => NULL, priority => NULL").await.unwrap();
    assert_eq!(of_kind(&job(&database, one.id).await), ("default", 0, 25, None, None, false));
}

#[support::test]
async fn r22_a_kind_s_delay_counts_unless_the_insert_names_a_time(database: Database) {
    database.execute("SELECT {schema}.register_kind('later', delay => '1 hour')").await;
    let due = async |id| {
        let job = job(&database, id).await;
        (job.state.as_str(), ((job.scheduled_at - job.created_at).as_seconds_f64() / 60.0).round() as i64)
    };
    assert_eq!(due(insert(&database, "'later'").await.unwrap().id).await, ("scheduled", 60));
    assert_eq!(due(insert_jobs(&database, json!([{"kind": "later"}])).await).await, ("scheduled", 60));
    assert_eq!(due(insert(&database, "'later', scheduled_at => now()").await.unwrap().id).await.0, "available");
    assert_eq!(due(insert(&database, "'later', pending => true").await.unwrap().id).await, ("pending", 0));
}

#[support::test]
async fn r22_explain_and_unique_key_begin_from_the_kind(database: Database) {
    database.client.register::<Mail>().await.unwrap();
    let holder = insert(&database, &format!("'mail', {ARGS}")).await.unwrap();
    let explain = |rest: &str| {
        format!(
            "SELECT e.outcome || coalesce(' ' || e.holder, '') FROM {{schema}}.explain_unique('mail', {ARGS}{rest}) AS e"
        )
    };
    assert_eq!(database.text(&explain("")).await, format!("duplicate {}", holder.id));
    assert_eq!(database.text(&explain(", unique_policy => 'null'")).await, "inserted");
    let key = |arguments: &str| format!("SELECT coalesce({{schema}}.unique_key({arguments}), 'none')");
    assert_eq!(database.text(&key(&format!("'mail', {ARGS}"))).await, holder.unique_key.unwrap());
    assert_eq!(database.text(&key(&format!("'mail', {ARGS}, unique_policy => 'null'"))).await, "none");
    database.execute("SELECT {schema}.register_kind('plain', 'q')").await;
    assert_eq!(database.text(&key("'plain'")).await, "none", "as insert_job makes it");
    assert_eq!(
        database.text(&key("'unregistered'")).await,
        database.text(&key("'unregistered', unique_policy => '{}'")).await
    );
}

#[support::test(with_connections(60))]
async fn r22_a_hundred_producers_that_name_only_kind_and_args_make_one_key(database: Database) {
    database.client.register::<Mail>().await.unwrap();
    let produce = |producer| {
        let client = database.client.clone();
        let one = database.sql("SELECT i.id, i.duplicate FROM {schema}.insert_job('mail', $1) AS i");
        let many = database.sql("SELECT i.id, i.duplicate FROM {schema}.insert_jobs(jsonb_build_array(jsonb_build_object('kind', 'mail', 'args', $1))) AS i");
        async move {
            let args = json!({"user": 1, "tenant": "acme"});
            match producer % 4 {
                0 | 1 => {
                    let text = if producer % 4 == 0 { one } else { many };
                    let row = sqlx::query(text).bind(args).fetch_one(client.pool()).await.unwrap();
                    (row.get::<Uuid, _>("id"), row.get::<bool, _>("duplicate"))
                }
                2 => {
                    let named = client.fill_in(NewJob::new("mail", &args)).await.unwrap();
                    let inserted = client.insert(named).await.unwrap();
                    (inserted.id().as_uuid(), inserted.duplicate)
                }
                _ => {
                    let inserted = client.insert(Mail { user: 1, tenant: "acme".to_owned() }).await.unwrap();
                    (inserted.id().as_uuid(), inserted.duplicate)
                }
            }
        }
    };
    let answers = together((0..soak(40, 100)).map(produce)).await;
    let (id, _) = answers[0];
    assert!(answers.iter().all(|(one, _)| *one == id), "{answers:?}");
    assert_eq!(answers.iter().filter(|(_, duplicate)| !duplicate).count(), 1);
    assert_eq!(database.client.jobs(JobFilter::all()).await.unwrap().len(), 1);
}

#[support::test]
async fn r22_a_registration_is_as_strict_as_an_insert(database: Database) {
    for (arguments, message) in [
        ("NULL", "invalid kind: must not be null"),
        ("''", "invalid kind: must not be empty: \"\""),
        ("'k', queue => ''", "invalid queue: must not be empty: \"\""),
        ("'k', priority => 40000", "invalid priority: must be -32768 to 32767: 40000"),
        ("'k', max_attempts => 0", "invalid max_attempts: must be 1 to 32767: 0"),
        ("'k', delay => '-1 s'", "invalid delay: must be 0 to 100 years: -00:00:01"),
        ("'k', timeout => '101 years'", "invalid timeout: must be 0 to 100 years: 101 years"),
        (
            "'k', unique_policy => '{\"keys\": [\"dance\"]}'",
            "invalid unique policy: keys: must be one of type, queue, args, meta: \"dance\"",
        ),
        ("'k', unique_policy => '[]'", "invalid unique policy: unique_policy: must be an object: []"),
        ("'k', group_policy => '{\"window\": \"PT1H\"}'", "invalid group_policy: window: a group has none"),
        ("'k', group_limit => 0", "invalid group_limit: must be 1 to 32767: 0"),
        ("'k', backoff => '[]'", "invalid backoff: must be an object: []"),
        (
            "'k', backoff => '{\"wait\": 1}'",
            "invalid backoff: wait: unknown member; the members are first, factor, max_interval and jitter: 1",
        ),
        (
            "'k', backoff => '{\"first\": \"soon\"}'",
            "invalid backoff: first: must be a length of time, such as 30s: \"soon\"",
        ),
        (
            "'k', backoff => '{\"max_interval\": 5}'",
            "invalid backoff: max_interval: must be a length of time, such as 30s: 5",
        ),
        ("'k', backoff => '{\"factor\": 0.5}'", "invalid backoff: factor: must be 1 to 1000: 0.5"),
        ("'k', backoff => '{\"jitter\": \"a\"}'", "invalid backoff: jitter: must be a number: \"a\""),
        ("'k', group_limit => 2, in_order => true", "invalid group_limit: must be 1 for a job that is in_order: 2"),
    ] {
        let statement = database.sql(&format!("SELECT {{schema}}.register_kind({arguments})"));
        let (code, said, _) = told(&sqlx::query(statement).execute(database.pool()).await.unwrap_err());
        assert_eq!((code.as_str(), said.as_str()), ("22023", message), "{arguments}");
    }
    assert_eq!(database.number("SELECT count(*) FROM {schema}.kind").await, 0);
}

#[support::test]
async fn r22_two_ways_to_write_one_definition_have_one_digest(database: Database) {
    assert!(database.client.register::<Mail>().await.unwrap());
    let changed_at = async || Admin::new(&database.client).kind("mail").await.unwrap().unwrap().changed_at;
    let typed = changed_at().await;
    let by_hand = "SELECT (r.changed_at = r.registered_at)::text FROM {schema}.register_kind(
        'mail', 'mails', 3, 5, unique_policy => '{\"args_keys\": [\"user\"], \"keys\": [\"args\"]}',
        group_policy => '{\"keys\": [\"type\", \"args\"], \"args_keys\": [\"tenant\"]}', group_limit => 2) AS r";
    assert_eq!(database.text(by_hand).await, "false", "nothing changed");
    assert_eq!(changed_at().await, typed);
    let another =
        "SELECT (r.changed_at = r.registered_at)::text FROM {schema}.register_kind('mail', 'mails', 4, 5) AS r";
    assert_eq!(database.text(another).await, "true");
}

#[support::test]
async fn r22_a_registration_of_a_name_alone_registers_nothing(database: Database) {
    let row = "SELECT coalesce((SELECT to_jsonb(k)::text FROM {schema}.kind AS k), 'none')";
    database.execute("SELECT {schema}.register_kind('mail', registered_by => 'a')").await;
    assert_eq!(database.text(row).await, "none");
    database.client.register::<Mail>().await.unwrap();
    let before = database.text(row).await;
    // Of the same program and of another one.
    database.execute("SELECT {schema}.register_kind('mail')").await;
    let answer = "SELECT r.queue FROM {schema}.register_kind('mail', registered_by => 'a') AS r";
    assert_eq!(database.text(answer).await, "mails", "it answers with what is registered");
    assert_eq!(database.text(row).await, before);
}

#[support::test]
async fn r22_a_registration_replaces_what_its_program_declared_and_not_what_others_did(database: Database) {
    let register = async |arguments: &str| {
        let text = "SELECT concat_ws(' ', r.queue, r.priority, r.max_attempts, r.delay, r.timeout, r.unique_policy, r.group_limit)
            FROM {schema}.register_kind('k', ";
        database.text(&format!("{text}{arguments}) AS r")).await
    };
    let (producer, worker) =
        ("registered_by => 'p 1', program => 'producer'", "registered_by => 'w 1', program => 'worker'");
    assert_eq!(
        register(&format!("'q', 3, unique_policy => '{{\"keys\": [\"args\"]}}', {producer}")).await,
        r#"q 3 {"keys": ["args"]}"#
    );
    assert_eq!(
        register(&format!("timeout => '5 s', max_attempts => 2, {worker}")).await,
        r#"q 3 2 00:00:05 {"keys": ["args"]}"#
    );
    // The next version of the producer has no priority, and another process name.
    let next = "registered_by => 'p 2', program => 'producer'";
    assert_eq!(
        register(&format!("'q2', unique_policy => '{{\"keys\": [\"args\"]}}', {next}")).await,
        r#"q2 2 00:00:05 {"keys": ["args"]}"#
    );
    // The newest declaration of a member counts, and the member belongs to its program.
    assert_eq!(register(&format!("'q3', {worker}")).await, r#"q3 00:00:05 {"keys": ["args"]}"#);
    assert_eq!(register(&format!("delay => '1 min', {next}")).await, "q3 00:01:00 00:00:05");
    // Two that name no program, on one role, retire nothing. A policy of null says that there is none, and a length of 0 as well.
    assert_eq!(register("unique_policy => '{}'").await, "q3 00:01:00 00:00:05 {}");
    assert_eq!(register("group_limit => 2").await, "q3 00:01:00 00:00:05 {} 2");
    let none = "unique_policy => 'null', delay => '0', timeout => '0', program => 'other'";
    assert_eq!(register(none).await, "q3 2");
    let owners = "SELECT owners::text FROM {schema}.kind";
    assert_eq!(database.text(owners).await, r#"{"delay": "other", "queue": "worker", "unique_policy": "other"}"#);
}

#[support::test(with_connections(20))]
async fn r22_programs_that_register_a_kind_at_once_lose_nothing_of_each_other(database: Database) {
    let members = [
        "queue => 'q'",
        "priority => 1",
        "max_attempts => 2",
        "group_limit => 3",
        "in_order => false",
        "expires_in => '1 h'",
    ];
    let register = |(n, member)| {
        let pool = database.pool().clone();
        let register = database.sql(&format!("SELECT {{schema}}.register_kind('k', {member}, program => 'p{n}')"));
        async move { sqlx::query(register).execute(&pool).await.unwrap() }
    };
    together(members.into_iter().chain(members).enumerate().map(register)).await;
    let row =
        "SELECT concat_ws(' ', queue, priority, max_attempts, group_limit, in_order, expires_in) FROM {schema}.kind";
    assert_eq!(database.text(row).await, "q 1 2 3 f 01:00:00");
}
