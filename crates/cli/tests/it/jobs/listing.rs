//! `job list`.

use test_support::prelude::*;

use crate::support::Migrated;

#[test_support::test]
async fn list_finds_by_every_condition_and_takes_no_text_for_sql(jobs: Migrated) {
    let odd = r#"'; DROP TABLE uniqueue.job; -- "%s" \ 漢字 🎉"#;
    let odd_id = {
        let args = json!({ "it's": [odd, 1] }).to_string();
        jobs.insert([odd, "--queue", odd, "--key", odd, "--args", &args])
    };
    let plain = jobs.insert("plain --group customer:1");
    let failed = jobs.insert("fails --queue emails --priority 7 --meta {\"tenant\":7}");
    jobs.set(
        &failed,
        r#"state = 'discarded', finalized_at = now() - interval '3 hours', attempt = 9,
        errors = '[{"attempt": 9, "at": "2026-01-01T00:00:00Z", "error": "no", "code": "declined"}]'"#,
    )
    .await;
    let old = jobs.insert("old --in 2h --group customer:1");
    jobs.set(&old, "created_at = now() - interval '2 days'").await;
    let running = jobs.insert("runs --group customer:12");
    jobs.set(
        &running,
        "state = 'running', worker = gen_random_uuid(), attempt = 1, attempted_at = now() - interval '90 minutes'",
    )
    .await;
    let all = [&odd_id, &plain, &failed, &old, &running].map(String::as_str);
    let [odd_id, plain, failed, old, running] = all;
    for (line, more, found) in [
        ("", &[][..], &all[..]),
        ("--state discarded,running", &[], &[failed, running]),
        ("--state discarded --state scheduled", &[], &[failed, old]),
        ("--queue", &[odd], &[odd_id]),
        ("--kind", &[odd], &[odd_id]),
        ("--key", &[odd], &[odd_id]),
        ("--key", &["' OR true --"], &[]),
        ("--queue", &["' OR ''='"], &[]),
        ("--group customer:1", &[], &[plain, old]),
        ("--group customer:1 --state scheduled", &[], &[old]),
        ("--group customer:12 --queue default", &[], &[running]),
        ("--group customer", &[], &[]),
        ("--group", &["' OR true --"], &[]),
        ("--args", &[&json!({ "it's": [odd] }).to_string()], &[odd_id]),
        ("--args {\"it's\":[2]}", &[], &[]),
        ("--meta {\"tenant\":7} --priority 7", &[], &[failed]),
        ("--attempts-at-least 9", &[], &[failed]),
        ("--code declined", &[], &[failed]),
        ("--code", &["' OR true --"], &[]),
        ("--older-than 1d", &[], &[old]),
        ("--newer-than 1d --kind old", &[], &[]),
        ("--created-before 1h", &[], &[old]),
        ("--created-after 1h --kind plain", &[], &[plain]),
        ("--scheduled-after +1h", &[], &[old]),
        ("--attempted-before 1h --state running", &[], &[running]),
        ("--attempted-after 1h --state running", &[], &[]),
        ("--finalized-after 4h --finalized-before 2h", &[], &[failed]),
        ("--finalized-after 2026-01-01T00:00:00+01:00", &[], &[failed]),
        (&format!("{plain} {old}"), &[], &[plain, old]),
        (&format!("{plain} {old} --kind old"), &[], &[old]),
    ] {
        let listed = jobs.lines(("job list --oldest-first", (line, more)));
        let ids: Vec<_> = listed.iter().map(|job| job["id"].as_str().unwrap()).collect();
        assert_eq!(ids, found, "{line} {more:?}");
    }
    let text = jobs.text("job list --state discarded", 0);
    assert!(text.starts_with(" id "), "{text}");
    assert!(
        text.contains("fails") && text.contains("9/25") && text.contains("3h ago") && text.ends_with("(1 row)\n"),
        "{text}"
    );
    // Control characters are escaped, because a row may hold names that the library would refuse.
    jobs.set(plain, "kind = E'\\x1b[2Jevil\\n'").await;
    let text = jobs.text("job list", 0);
    assert!(text.contains(r"\u{1b}[2Jevil\n") && !text.contains('\u{1b}'), "{text}");

    jobs.refuses(&[
        (
            "job list --state done",
            "error: invalid value 'done' for '--state <STATE>'\n  [possible values: pending, scheduled, available, ",
        ),
        ("job list --args {", "error: --args is not JSON"),
        ("job list --group", "error: a value is required for '--group <KEY>'"),
        ("job list --limit 0", "error: invalid value '0' for '--limit <N>'"),
        (
            "job list --after x",
            "error: invalid value 'x' for '--after <ID>': invalid job id: \"x\"; hint: a job id is a UUID",
        ),
        (
            "job list --older-than 2h --created-before 1h",
            "error: the argument '--older-than <DURATION>' cannot be used with",
        ),
        ("job list --created-before 9001-01-01", "error: invalid created_before: must be in the years 1 to 9000"),
        ("job list --schema x;y", "error: invalid value 'x;y' for '--schema <NAME>'"),
        ("job list --schema other", "error: schema other is not migrated: this uniqueue needs version "),
    ]);
}

#[test_support::test]
async fn pages_follow_each_other_and_name_the_next(jobs: Migrated) {
    jobs.execute(
        "INSERT INTO uniqueue.job (id, kind) SELECT uniqueue.new_job_id(), 'page' FROM generate_series(1, 25)",
    )
    .await;
    let mut line = "job list --kind page --limit 10".to_owned();
    let (mut pages, mut ids) = (0, Vec::new());
    loop {
        let text = jobs.text(&line, 0);
        pages += 1;
        ids.extend(text.lines().filter(|line| line.starts_with(" 0")).map(|line| line[..38].to_owned()));
        match text
            .lines()
            .last()
            .and_then(|last| last.strip_prefix(concat!("next: ", env!("CARGO_BIN_EXE_uniqueue"), " ")))
        {
            Some(next) => line = next.to_owned(),
            None => break,
        }
    }
    let (count, mut sorted) = (ids.len(), ids.clone());
    sorted.sort_unstable();
    sorted.dedup();
    sorted.reverse();
    assert_eq!((pages, count, sorted), (3, 25, ids));
}
