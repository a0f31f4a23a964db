//! What an insert says of a group, by each way into the table, and what it refuses.

use support::prelude::*;

#[support::test]
async fn a_job_is_stored_with_its_group_by_every_way_of_inserting(database: Database, client: &Client) {
    let grouped = || NewJob::from(Task { n: 1 }).group("customer:1").group_limit(3);
    let unique = || grouped().unique_key(UniqueKey::raw(uniqueue::JobId::generate().to_string()));
    let mut tx = database.pool().begin().await.unwrap();
    let mut jobs = vec![
        client.insert(grouped()).await.unwrap().job,
        client.insert(unique()).await.unwrap().job,
        client.insert(grouped()).tx(&mut tx).await.unwrap().job,
        client.insert(unique()).tx(&mut tx).await.unwrap().job,
        client.insert(unique().id(uniqueue::JobId::generate())).tx(&mut tx).await.unwrap().job,
    ];
    tx.commit().await.unwrap();
    for batch in
        [[grouped(), job("task")], [unique(), job("task")], [unique().id(uniqueue::JobId::generate()), job("task")]]
    {
        let inserted = client.insert_many(batch).await.unwrap();
        assert_eq!((inserted[1].job.group_key.as_deref(), inserted[1].job.group_limit), (None, None));
        let stored = client.job(inserted[1].id()).await.unwrap().unwrap();
        assert_eq!(stored.group_key, None);
        jobs.push(inserted[0].job.clone());
    }
    for inserted in jobs {
        let stored = client.job(inserted.id).await.unwrap().unwrap();
        for row in [inserted, stored] {
            assert_eq!((row.group_key.as_deref(), row.group_limit, row.in_order), (Some("customer:1"), Some(3), false));
        }
    }
}

#[support::test]
async fn a_policy_makes_a_key_of_a_group_that_people_can_read_in_rust_and_in_sql(database: Database) {
    let policy = UniquePolicy::new().by_arg_fields(["customer"]);
    let of = |customer: u32, n: u32| {
        NewJob::new("bill", &json!({"customer": customer, "n": n})).group_by(policy.clone()).in_order()
    };
    let (one, two, other) = (of(1, 1), of(1, 2), of(2, 1));
    let in_json = serde_json::to_string(&[&one]).unwrap();
    let inserted = database.client.insert_many([one, two, other]).await.unwrap();
    let key = |place: usize| inserted[place].job.group_key.clone().unwrap();
    assert_eq!(key(0), r#"{"args":{"customer":1},"type":"bill"}"#);
    assert_eq!(key(0), key(1));
    assert_ne!(key(0), key(2));
    assert!(inserted[0].job.in_order);
    let sql = format!("SELECT count(*) FROM {{schema}}.insert_jobs('{in_json}')");
    assert_eq!(database.number(&sql).await, 1);
    let sql = r#"SELECT count(*) FROM {schema}.insert_job(
        'bill', '{"customer": 1, "n": 4}', group_policy => '{"keys": ["args"], "args_keys": ["customer"]}')"#;
    assert_eq!(database.number(sql).await, 1);
    let sql = format!("SELECT count(*) FROM {{schema}}.job WHERE group_key = '{}'", key(0));
    assert_eq!(database.number(&sql).await, 4);
}

#[support::test]
async fn a_long_key_of_a_group_is_a_hash_in_rust_and_in_sql(database: Database) {
    let policy = UniquePolicy::new().by_arg_fields(["customer"]).exclude_kind();
    // In UTF-8 the text has 128 bytes, and then one more.
    for (customer, bytes) in [("é".repeat(52), 128), (format!("{}x", "é".repeat(52)), 64)] {
        let job = NewJob::new("bill", &json!({"customer": customer})).group_by(policy.clone());
        let key = database.client.insert(job).await.unwrap().job.group_key.unwrap();
        assert_eq!(key.len(), bytes, "{key}");
        let sql = format!(
            r#"SELECT count(*) FROM {{schema}}.insert_job('bill', '{{"customer": "{customer}"}}',
                group_policy => '{{"keys": ["args"], "args_keys": ["customer"], "exclude_type": true}}')"#
        );
        assert_eq!(database.number(&sql).await, 1);
        let sql = format!("SELECT count(*) FROM {{schema}}.job WHERE group_key = '{key}'");
        assert_eq!(database.number(&sql).await, 2);
    }
}

#[support::test]
async fn a_group_that_can_never_work_is_an_error_that_says_so_in_rust_and_in_sql(database: Database) {
    let long = "x".repeat(513);
    for (job, arguments, problem) in [
        (
            job("task").group("a").group_limit(0),
            "group_key => 'a', group_limit => 0",
            "invalid group_limit: must be 1 to 32767: 0",
        ),
        (
            job("task").group("a").group_limit(2).in_order(),
            "group_key => 'a', group_limit => 2, in_order => true",
            "invalid group_limit: must be 1 for a job that is in_order: 2",
        ),
        (job("task").group(""), "group_key => ''", "must be 1 to 512 bytes: 0"),
        (job("task").group(&long), &format!("group_key => '{long}'"), "must be 1 to 512 bytes: 513"),
        (job("task").group_limit(2), "group_limit => 2", "invalid group_limit: needs a group"),
        (job("task").in_order(), "in_order => true", "invalid in_order: needs a group"),
        (
            job("task").group_by(UniquePolicy::new().window(MINUTE)),
            r#"group_policy => '{"window": "PT60S"}'"#,
            "a group has none",
        ),
    ] {
        let refused = database.client.insert(job).await.unwrap_err().to_string();
        assert!(refused.contains(problem), "{refused}");
        let sql = format!("SELECT count(*) FROM {{schema}}.insert_job('task', {arguments})");
        let refused = sqlx::query(database.sql(&sql)).execute(database.pool()).await.unwrap_err().to_string();
        assert!(refused.contains(problem), "{refused}");
    }
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 0);
}

#[support::test]
async fn a_runner_that_does_not_know_groups_is_refused(database: Database) {
    let enter = "INSERT INTO {schema}.runner (id, name, queues, leased_until) VALUES (gen_random_uuid(), 'old', '{default}', now())";
    let refused = sqlx::query(database.sql(enter)).execute(database.pool()).await.unwrap_err().to_string();
    assert!(refused.contains("knows_groups"), "{refused}");
}

#[support::test]
async fn the_jobs_of_a_periodic_job_have_its_group(database: Database) {
    let job = NewJob::from(Task { n: 1 }).group("reports").group_limit(2);
    database.client.define_periodic(PeriodicJob::cron("report", "0 9 * * *", job)).await.unwrap();
    Admin::new(&database.client).periodic().run_now("report").await.unwrap();
    let group = "SELECT concat_ws(' ', group_key, group_limit, in_order) FROM {schema}.job";
    assert_eq!(database.text(group).await, "reports 2");
}
