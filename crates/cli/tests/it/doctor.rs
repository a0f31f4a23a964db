//! `uniqueue doctor`.

use std::process::Command;

use test_support::prelude::*;

use crate::support::{database, execute, has_psql, migrated, run_json, texts, uniqueue};

async fn with_client() -> (String, Client) {
    let url = migrated("jobs").await;
    let client = Client::builder().schema("jobs".parse().unwrap()).connect(&url).await.unwrap();
    (url, client)
}

fn doctor(url: &str, arguments: &[&str]) -> Command {
    let mut command = uniqueue();
    command.args(["doctor", "--schema", "jobs", "--database-url", url]).args(arguments);
    command
}

fn text(command: &mut Command) -> (Option<i32>, String) {
    let output = command.output().unwrap();
    assert!(output.stderr.is_empty(), "{output:?}");
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[tokio::test]
async fn healthy_queue_is_told_in_one_line_and_by_exit_code_0() {
    let (url, _) = with_client().await;
    let (code, said) = text(&mut doctor(&url, &[]));
    assert_eq!(code, Some(0), "{said}");
    assert!(said.starts_with("ok: nothing found; ") && said.lines().count() == 1, "{said}");
    let (code, report) = run_json(&mut doctor(&url, &["--json"]));
    assert_eq!((code, &report["worst"], &report["healthy"]), (0, &json!("ok"), &json!(true)));
    assert_eq!((&report["findings"], &report["skipped"]), (&json!([]), &json!([])));
}

#[tokio::test]
async fn exit_code_tells_how_bad_it_is() {
    let (url, client) = with_client().await;
    client.insert(NewJob::new("a", &json!({})).queue("nobody's")).await.unwrap();
    let (code, said) = text(&mut doctor(&url, &[]));
    assert_eq!(code, Some(0), "a notice is fine: {said}");
    assert!(said.starts_with("notice  queue_unworked  queue nobody's\n"), "{said}");
    assert!(
        said.contains("    $ uniqueue job list --state available --queue 'nobody'\\''s' --schema jobs\n"),
        "{said}"
    );
    assert!(said.contains("\nnotice: 1 notice; "), "{said}");
    assert_eq!(text(&mut doctor(&url, &["--waiting", "0s,1d"])).0, Some(1));
    assert_eq!(text(&mut doctor(&url, &["--waiting", "0s,1d", "--fail-on", "critical"])).0, Some(0));
    assert_eq!(text(&mut doctor(&url, &["--waiting", "0s,0s", "--fail-on", "critical"])).0, Some(3));
    let (code, report) = run_json(&mut doctor(&url, &["--waiting", "0s,0s", "--json"]));
    assert_eq!((code, &report["findings"][0]["severity"]), (3, &json!("critical")));
    let bad = doctor(&url, &["--waiting", "soon"]).output().unwrap();
    assert_eq!(bad.status.code(), Some(2));
}

#[tokio::test]
async fn without_a_runner_one_finding_names_all_queues() {
    let (url, client) = with_client().await;
    for queue in ["a", "b", "c", "d", "e", "f"] {
        client.insert(NewJob::new("a", &json!({})).queue(queue)).await.unwrap();
    }
    let (code, said) = text(&mut doctor(&url, &[]));
    assert_eq!((code, said.matches("queue_unworked").count()), (Some(0), 1), "{said}");
    assert!(said.starts_with("notice  queue_unworked  schema jobs\n"), "{said}");
    assert!(
        said.contains("no runner is alive, with 6 jobs available in queues a, b, c, d, e and 1 more, the oldest "),
        "{said}"
    );
    assert!(said.contains("    $ uniqueue job list --state available --schema jobs\n"), "{said}");
    let (code, report) = run_json(&mut doctor(&url, &["--waiting", "0s,0s", "--json"]));
    let finding = &report["findings"][0];
    assert_eq!((code, &finding["severity"]), (3, &json!("critical")));
    assert_eq!(finding["facts"]["queues"], json!(["a", "b", "c", "d", "e", "f"]));
}

#[tokio::test]
async fn schema_that_is_not_there_is_a_finding() {
    let url = database().await;
    let (code, report) = run_json(&mut doctor(&url, &["--json"]));
    assert_eq!((code, &report["findings"][0]["code"]), (3, &json!("schema_missing")));
    assert_eq!(report["findings"][0]["remedy"]["command"], json!("uniqueue migrate --schema jobs"));
}

#[tokio::test]
async fn a_role_that_may_not_see_the_queue_is_told_so_by_exit_code_4() {
    let (url, _) = with_client().await;
    let role = format!("blind_{}", url.rsplit_once("/test_").and_then(|(_, rest)| rest.split_once('?')).unwrap().0);
    execute(&url, &format!("CREATE ROLE {role} LOGIN")).await;
    let own = url.replace("postgres@", &format!("{role}@"));
    for grant in ["", "USAGE ON SCHEMA jobs", "SELECT ON jobs.schema_history"] {
        if !grant.is_empty() {
            execute(&url, &format!("GRANT {grant} TO {role}")).await;
        }
        let (code, said) = text(&mut doctor(&own, &[]));
        assert_eq!(code, Some(4), "{grant}: {said}");
        assert!(said.contains(&format!("not checked: role {role} may not see the queue; ")), "{grant}: {said}");
        let (code, report) = run_json(&mut doctor(&own, &["--json", "--fail-on", "critical"]));
        assert_eq!((code, &report["sees_queue"], &report["healthy"]), (4, &json!(false), &json!(false)), "{grant}");
    }
    execute(&url, &format!("GRANT SELECT ON ALL TABLES IN SCHEMA jobs TO {role}")).await;
    let (code, said) = text(&mut doctor(&own, &[]));
    assert_eq!(code, Some(0), "{said}");
}

#[tokio::test]
async fn a_terminal_gets_lines_that_end_after_words_and_a_pipe_gets_whole_ones() {
    let (url, client) = with_client().await;
    client.insert(NewJob::new("a", &json!({})).queue("q")).await.unwrap();
    // So long that its age is the same in both reports.
    execute(
        &url,
        "UPDATE jobs.job SET created_at = now() - interval '3 days', scheduled_at = now() - interval '3 days'",
    )
    .await;
    let prose = |said: &str| -> Vec<String> {
        let is_prose = |line: &&str| line.starts_with("  ") && !line.starts_with("    ");
        said.lines().filter(is_prose).map(str::to_owned).collect()
    };
    let (_, whole) = text(&mut doctor(&url, &[]));
    let (_, wrapped) = text(doctor(&url, &[]).env("COLUMNS", "40"));
    assert!(prose(&whole).iter().any(|line| line.len() > 60), "{whole}");
    assert!(prose(&wrapped).iter().all(|line| line.chars().count() <= 40), "{wrapped}");
    let words = |said: &str| prose(said).join(" ").split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert!(words(&wrapped).iter().all(|word| words(&whole).contains(word)), "{wrapped}");
    // A command stays on one line, so that it can be copied.
    assert!(wrapped.contains("    $ uniqueue job list --state available --queue q --schema jobs\n"), "{wrapped}");
}

/// The remedies are one script that psql takes, long function bodies and all.
#[tokio::test]
async fn remedies_run_as_they_are_printed() {
    let (url, _) = with_client().await;
    let broken = [
        "DROP FUNCTION jobs.release_claim",
        "DROP INDEX jobs.job_waiting",
        "ALTER TABLE jobs.job ALTER COLUMN priority SET DEFAULT 5",
    ];
    for statement in broken {
        execute(&url, statement).await;
    }
    let mut holder = PgConnection::connect(&url).await.unwrap();
    sqlx::raw_sql("BEGIN; INSERT INTO jobs.queue (name) VALUES ('held')").execute(&mut holder).await.unwrap();
    let (code, said) = text(&mut doctor(&url, &["--transaction", "0s"]));
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("more lines: uniqueue doctor --remedies"), "{said}");
    assert!(said.contains("warning  blocking_transaction  session "), "{said}");
    assert!(said.contains("rows of queue; its last statement: BEGIN; INSERT INTO jobs.queue"), "{said}");

    let (_, script) = text(&mut doctor(&url, &["--transaction", "0s", "--remedies"]));
    if !has_psql() {
        return;
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), script).unwrap();
    let ran = Command::new("psql").args(["-Xq", "-v", "ON_ERROR_STOP=1", "-f"]).arg(file.path()).arg(&url).output();
    let ran = ran.unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let (code, said) = text(&mut doctor(&url, &["--transaction", "0s"]));
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(texts(&url, "SELECT count(*)::text FROM jobs.queue").await, ["0"], "rolled back");
}

#[tokio::test]
async fn a_command_that_it_gives_can_be_pasted_whatever_the_key() {
    let (url, client) = with_client().await;
    for key in ["plain", "-dash", "--yes", "it's $HOME"] {
        let pending = NewJob::new("a", &json!({})).pending().unique_key(UniqueKey::raw(key));
        client.insert(pending).await.unwrap();
        let (_, report) = run_json(&mut doctor(&url, &["--json", "--claim", "0s"]));
        let idle = report["findings"].as_array().unwrap().iter().find(|finding| finding["code"] == "claim_idle");
        let command = idle.expect("a finding")["remedy"]["command"].as_str().unwrap();
        let release = format!("{} unique release --yes", env!("CARGO_BIN_EXE_uniqueue"));
        let line = command.replacen("uniqueue unique release", &release, 1);
        let pasted = Command::new("sh").args(["-c", &line]).env("DATABASE_URL", &url).output().unwrap();
        assert_eq!(pasted.status.code(), Some(0), "{command}: {pasted:?}");
        assert!(
            String::from_utf8(pasted.stdout).unwrap().ends_with(&format!("gave up its claim on {key}\n")),
            "{command}"
        );
    }
}

/// The database has the defaults of a diagnosis, and the command names them in its help and sends them.
#[tokio::test]
async fn the_defaults_of_the_options_are_those_of_the_database() {
    let (url, _) = with_client().await;
    let defaults = &texts(&url, "SELECT jobs._thresholds()::text").await[0];
    let defaults: serde_json::Map<String, serde_json::Value> = serde_json::from_str(defaults).unwrap();
    let help = uniqueue().args(["doctor", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    let number = |text: &str| text.parse().unwrap_or_else(|_| uniqueue::period::parse(text).unwrap().as_secs_f64());
    for (name, value) in defaults.iter().filter(|(name, _)| *name != "bloat_bytes") {
        let (_, option) = help.split_once(&format!("--{} <", name.replace('_', "-"))).expect(name);
        let (_, shown) = option.split_once("[default: ").unwrap();
        let shown: Vec<f64> = shown.split(']').next().unwrap().split(',').map(number).collect();
        let expected: Vec<f64> = match value.as_array() {
            Some(pair) => pair.iter().map(|one| one.as_f64().unwrap()).collect(),
            None => vec![value.as_f64().unwrap()],
        };
        assert_eq!(shown, expected, "{name}");
    }
}
