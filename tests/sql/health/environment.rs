//! Poolers, the guide, and no finding in a healthy database.

use support::bouncer;
use support::prelude::*;
use uniqueue_admin::Severity;

#[support::test]
async fn nothing_is_found_in_a_healthy_busy_database(database: Database) {
    database.start(database.runner().queue("default", 20).queue("limited", 5).worker(at_once)).await;
    database.client.queue("limited").limit(Some(3)).await.unwrap();
    for round in 0..20_u32 {
        let jobs = (0..100).map(|n| {
            let queue = if n % 10 == 0 { "limited" } else { "default" };
            NewJob::from(Task { n }).queue(queue).unique_key(UniqueKey::raw(format!("{round} {}", n / 2)))
        });
        database.client.insert_many(jobs).await.unwrap();
        let diagnosis = Admin::new(&database.client).diagnose().await.unwrap();
        assert!(diagnosis.findings.is_empty(), "{:#?}", diagnosis.findings);
        assert!(diagnosis.skipped.is_empty(), "{:#?}", diagnosis.skipped);
        assert!(diagnosis.is_healthy() && diagnosis.worst() == Severity::Ok);
        let said = diagnosis.to_string();
        assert!(said.starts_with("ok: nothing found; ") && said.ends_with(" checks"), "{said}");
    }
}

#[support::test]
async fn a_pooler_is_told_by_whether_statements_survive_it(database: Database) {
    for (setting, severity) in
        [("max_prepared_statements = 200", Severity::Notice), ("max_prepared_statements = 0", Severity::Critical)]
    {
        let Some(pooler) = bouncer::Bouncer::start(setting).await else { return };
        let pool = sqlx::postgres::PgPoolOptions::new()
            .acquire_timeout(WAIT)
            .connect(&pooler.url(&database.url))
            .await
            .unwrap();
        let client = Client::builder().schema(database.client.schema().clone()).pool(pool);
        let diagnosis = Admin::new(&client).diagnose().await;
        let Ok(diagnosis) = diagnosis else {
            assert_eq!(severity, Severity::Critical, "{diagnosis:?}");
            continue;
        };
        let found = diagnosis.findings.iter().find(|finding| finding.code == "pooler");
        assert_eq!(found.map(|finding| finding.severity), Some(severity), "{diagnosis:#?}");
    }
}

/// That each finding of a test is in the guide, `find` checks.
#[test]
fn the_guide_names_each_code_once_and_none_that_is_never_found() {
    let (_, table) = super::GUIDE.split_once("## Findings").unwrap();
    let named: Vec<_> = table.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    let mut sources = String::new();
    for (directory, part) in [("migrations", "_find_"), ("migrations", "V38"), ("crates/admin/src/health", "")] {
        for file in std::fs::read_dir(format!("{}/{directory}", env!("CARGO_MANIFEST_DIR"))).unwrap() {
            let path = file.unwrap().path();
            if path.file_name().unwrap().to_str().unwrap().contains(part) {
                sources.push_str(&std::fs::read_to_string(path).unwrap());
            }
        }
    }
    for code in &named {
        assert!(sources.contains(&format!("'{code}'")) || sources.contains(&format!("\"{code}\"")), "{code}");
    }
    assert_eq!(named.iter().collect::<BTreeSet<_>>().len(), named.len(), "each once");
}

/// A DBA asks in psql, and gets the sentences of the command.
#[support::test]
async fn diagnose_in_sql_finds_what_the_client_finds_and_goes_on_past_a_check_that_fails(database: Database) {
    database.client.insert(job("a").queue("it's")).await.unwrap();
    let own = Admin::new(&database.client).diagnose().await.unwrap().findings;
    let asked = "SELECT concat_ws(' ', code, severity, subject, seen, advice, command) FROM {schema}.diagnose()";
    let [one] = &own[..] else { panic!("{own:#?}") };
    let remedy = &one.remedy;
    let line = [&one.code, one.severity.as_str(), &one.subject, &one.seen, &remedy.advice].join(" ");
    let line = format!("{line} {}", remedy.command.as_ref().unwrap());
    let without_age = |line: &str| line.split("the oldest for").next().unwrap().to_owned();
    assert_eq!(without_age(&database.text(asked).await), without_age(&line));
    let strict = "SELECT severity FROM {schema}.diagnose('{\"waiting\": [0, \"1 hour\"]}')";
    assert_eq!(database.text(strict).await, "warning");
    let never = "SELECT severity FROM {schema}.diagnose('{\"waiting\": [0, null]}')";
    assert_eq!(database.text(never).await, "warning");
    for (wrong, text) in [
        ("{\"waitin\": [0, 1]}", "unknown threshold: waitin"),
        ("{\"waiting\": 5}", "invalid threshold: waiting: must be as [\"5 min\", \"1 hour\"]: 5"),
    ] {
        let call = database.sql(&format!("SELECT FROM {{schema}}.diagnose('{wrong}')"));
        let error = sqlx::query(call).execute(database.pool()).await.unwrap_err();
        assert_eq!(error.as_database_error().unwrap().message(), text);
    }
    database.execute("ALTER TABLE {schema}.periodic RENAME TO gone").await;
    let failed = "SELECT string_agg(code || ' ' || subject, ', ') FROM {schema}.diagnose()";
    assert_eq!(
        database.text(failed).await,
        "check_failed check maintenance, check_failed check schedules, queue_unworked queue it's"
    );
}

#[support::test]
async fn a_diagnosis_is_an_object_for_machines(database: Database) {
    database.client.insert(job("a")).await.unwrap();
    let diagnosis = serde_json::to_value(Admin::new(&database.client).diagnose().await.unwrap()).unwrap();
    assert_eq!(diagnosis["schema"], database.schema.as_str());
    let finding = &diagnosis["findings"][0];
    assert_eq!((&finding["code"], &finding["severity"]), (&"queue_unworked".into(), &"notice".into()));
    assert_eq!((&finding["subject"], &finding["facts"]["runners"]), (&"queue default".into(), &0.into()));
    let command = format!("uniqueue job list --state available --queue default --schema {}", database.schema);
    assert_eq!(finding["remedy"]["command"], command);
}

#[support::test]
async fn the_words_of_findings_are_short_and_cannot_break_out_of_their_quotes(database: Database) {
    for (call, expected) in [
        (
            "string_agg(_age_text(s), ',') FROM unnest('{-1, 0.5, 3.9, 61, 599, 725, 7200, 19260, 90000, 259200}'::float8[]) AS s",
            "under a second,under a second,3s,1m 1s,9m 59s,12m 5s,2h,5h 21m,1d 1h,3d",
        ),
        (
            "concat_ws(',', _jobs_text(1), _jobs_text(5120, 10000), _jobs_text(10001, 10000), _jobs_text(10001, 10000, 537261))",
            "1 job,5,120 jobs,more than 10,000 jobs,about 537,000 jobs",
        ),
        ("concat_ws(' ', _rate_text(5, '1 min', 5), _rate_text(5, '0.5 s', 9))", "5/1m 5/0.5s, burst 9"),
        ("_shell_word('default')", "default"),
        ("_shell_word('a''; rm -rf ~')", r"'a'\''; rm -rf ~'"),
        ("_shell_word('')", "''"),
        (r"_shell_word(E'a\x1bb''\\')", r"$'a\u001bb\'\\'"),
        (r"_plain_text(E'a\x1b[31mb\n\u009b')", "a [31mb  "),
        ("_call('release_claim', quote_literal('it''s'))", "SELECT * FROM {schema}.release_claim('it''s');"),
    ] {
        let path = database.sql("SET LOCAL search_path = {schema}");
        let mut tx = database.pool().begin().await.unwrap();
        sqlx::raw_sql(path).execute(&mut *tx).await.unwrap();
        let text: String =
            sqlx::query_scalar(sqlx::AssertSqlSafe(format!("SELECT {call}"))).fetch_one(&mut *tx).await.unwrap();
        assert_eq!(text, expected.replace("{schema}", &database.schema), "{call}");
    }
}
