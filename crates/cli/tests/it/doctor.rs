//! `uniqueue doctor`.

use test_support::prelude::*;

use crate::support::{Migrated, has_psql, printed, run_script};

#[test_support::test(schema("jobs"))]
async fn healthy_queue_is_told_in_one_line_and_by_exit_code_0(doctor: Migrated) {
    let said = doctor.text("doctor", 0);
    assert!(said.starts_with("ok: nothing found; ") && said.lines().count() == 1, "{said}");
    let report = doctor.json("doctor", 0);
    assert_eq!((&report["worst"], &report["healthy"]), (&json!("ok"), &json!(true)));
    assert_eq!((&report["findings"], &report["skipped"]), (&json!([]), &json!([])));
}

#[test_support::test(schema("jobs"))]
async fn exit_code_tells_how_bad_it_is(doctor: Migrated) {
    let client = doctor.client().await;
    client.insert(NewJob::new("a", &json!({})).queue("nobody's")).await.unwrap();
    let said = doctor.text("doctor", 0);
    assert!(said.starts_with("notice  queue_unworked  queue nobody's\n"), "{said}");
    assert!(
        said.contains("    $ uniqueue job list --state available --queue 'nobody'\\''s' --schema jobs\n"),
        "{said}"
    );
    assert!(said.contains("\nnotice: 1 notice; "), "{said}");
    doctor.text("doctor --waiting 0s,1d", 1);
    doctor.text("doctor --waiting 0s,1d --fail-on critical", 0);
    doctor.text("doctor --waiting 0s,0s --fail-on critical", 3);
    let report = doctor.json("doctor --waiting 0s,0s", 3);
    assert_eq!(report["findings"][0]["severity"], json!("critical"));
    assert!(doctor.refused("doctor --waiting soon").contains("soon"));
}

#[test_support::test(schema("jobs"))]
async fn without_a_runner_one_finding_names_all_queues(doctor: Migrated) {
    let client = doctor.client().await;
    for queue in ["a", "b", "c", "d", "e", "f"] {
        client.insert(NewJob::new("a", &json!({})).queue(queue)).await.unwrap();
    }
    let said = doctor.text("doctor", 0);
    assert_eq!(said.matches("queue_unworked").count(), 1, "{said}");
    assert!(said.starts_with("notice  queue_unworked  schema jobs\n"), "{said}");
    assert!(
        said.contains("no runner is alive, with 6 jobs available in queues a, b, c, d, e and 1 more, the oldest "),
        "{said}"
    );
    assert!(said.contains("    $ uniqueue job list --state available --schema jobs\n"), "{said}");
    let report = doctor.json("doctor --waiting 0s,0s", 3);
    let finding = &report["findings"][0];
    assert_eq!(finding["severity"], json!("critical"));
    assert_eq!(finding["facts"]["queues"], json!(["a", "b", "c", "d", "e", "f"]));
}

#[test_support::test(unmigrated("jobs"))]
async fn schema_that_is_not_there_is_a_finding(doctor: Migrated) {
    let report = doctor.json("doctor", 3);
    assert_eq!(report["findings"][0]["code"], json!("schema_missing"));
    assert_eq!(report["findings"][0]["remedy"]["command"], json!("uniqueue migrate --schema jobs"));
}

#[test_support::test(schema("jobs"))]
async fn a_role_that_may_not_see_the_queue_is_told_so_by_exit_code_4(doctor: Migrated) {
    let (role, blind) = doctor.role("blind").await;
    for grant in ["", "USAGE ON SCHEMA jobs", "SELECT ON jobs.schema_history"] {
        if !grant.is_empty() {
            doctor.execute(&format!("GRANT {grant} TO {role}")).await;
        }
        let said = blind.text("doctor", 4);
        assert!(said.contains(&format!("not checked: role {role} may not see the queue; ")), "{grant}: {said}");
        let report = blind.json("doctor --fail-on critical", 4);
        assert_eq!((&report["sees_queue"], &report["healthy"]), (&json!(false), &json!(false)), "{grant}");
    }
    doctor.execute(&format!("GRANT SELECT ON ALL TABLES IN SCHEMA jobs TO {role}")).await;
    blind.text("doctor", 0);
}

#[test_support::test(schema("jobs"))]
async fn a_terminal_gets_lines_that_end_after_words_and_a_pipe_gets_whole_ones(doctor: Migrated) {
    let client = doctor.client().await;
    client.insert(NewJob::new("a", &json!({})).queue("q")).await.unwrap();
    // So long that its age is the same in both reports.
    let update = "UPDATE jobs.job SET created_at = now() - interval '3 days', scheduled_at = now() - interval '3 days'";
    doctor.execute(update).await;
    let prose = |said: &str| -> Vec<String> {
        let is_prose = |line: &&str| line.starts_with("  ") && !line.starts_with("    ");
        said.lines().filter(is_prose).map(str::to_owned).collect()
    };
    let whole = doctor.text("doctor", 3);
    let wrapped = printed(doctor.command("doctor").env("COLUMNS", "40"), 3);
    assert!(prose(&whole).iter().any(|line| line.len() > 60), "{whole}");
    assert!(prose(&wrapped).iter().all(|line| line.chars().count() <= 40), "{wrapped}");
    let words = |said: &str| prose(said).join(" ").split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert!(words(&wrapped).iter().all(|word| words(&whole).contains(word)), "{wrapped}");
    // A command stays on one line, so that it can be copied.
    assert!(wrapped.contains("    $ uniqueue job list --state available --queue q --schema jobs\n"), "{wrapped}");
}

/// The remedies are one script that psql takes, long function bodies and all.
#[test_support::test(schema("jobs"))]
async fn remedies_run_as_they_are_printed(doctor: Migrated) {
    let broken = [
        "DROP FUNCTION jobs.release_claim",
        "DROP INDEX jobs.job_waiting",
        "ALTER TABLE jobs.job ALTER COLUMN priority SET DEFAULT 5",
    ];
    for statement in broken {
        doctor.execute(statement).await;
    }
    let _holder = doctor.session("BEGIN; INSERT INTO jobs.queue (name) VALUES ('held')").await;
    let said = doctor.text("doctor --transaction 0s", 3);
    assert!(said.contains("more lines: uniqueue doctor --remedies"), "{said}");
    assert!(said.contains("warning  blocking_transaction  session "), "{said}");
    assert!(said.contains("rows of queue; its last statement: BEGIN; INSERT INTO jobs.queue"), "{said}");

    let script = doctor.text("doctor --transaction 0s --remedies", 3);
    if !has_psql() {
        return;
    }
    run_script(&doctor.url, &script);
    doctor.text("doctor --transaction 0s", 0);
    assert_eq!(doctor.texts("SELECT count(*)::text FROM jobs.queue").await, ["0"], "rolled back");
}

#[test_support::test(schema("jobs"))]
async fn a_command_that_it_gives_can_be_pasted_whatever_the_key(doctor: Migrated) {
    let client = doctor.client().await;
    for key in ["plain", "-dash", "--yes", "it's $HOME"] {
        let pending = NewJob::new("a", &json!({})).pending().unique_key(UniqueKey::raw(key));
        client.insert(pending).await.unwrap();
        let report = doctor.json("doctor --claim 0s", 0);
        let idle = report["findings"].as_array().unwrap().iter().find(|finding| finding["code"] == "claim_idle");
        let command = idle.expect("a finding")["remedy"]["command"].as_str().unwrap();
        let release = format!("{} unique release --yes", env!("CARGO_BIN_EXE_uniqueue"));
        let line = command.replacen("uniqueue unique release", &release, 1);
        let pasted = printed(Command::new("sh").args(["-c", &line]).env("DATABASE_URL", &doctor.url), 0);
        assert!(pasted.ends_with(&format!("gave up its claim on {key}\n")), "{command}");
    }
}

/// The database has the defaults of a diagnosis, and the command names them in its help and sends them.
#[test_support::test(schema("jobs"))]
async fn the_defaults_of_the_options_are_those_of_the_database(doctor: Migrated) {
    let defaults = &doctor.texts("SELECT jobs._thresholds()::text").await[0];
    let defaults: serde_json::Map<String, Value> = serde_json::from_str(defaults).unwrap();
    let help = doctor.text("doctor --help", 0).split_whitespace().collect::<Vec<_>>().join(" ");
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
