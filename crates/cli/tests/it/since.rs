//! `uniqueue stats --since`, and the deploys that it names.

use test_support::prelude::*;
use test_support::process::Killed;

use crate::support::Migrated;

/// Each time becomes `TIME`, and of equal lines that follow one another the first one stays.
fn without_times(text: &str) -> String {
    let mut lines: Vec<_> = text
        .lines()
        .map(|line| {
            let (indent, line) = line.split_at(line.len() - line.trim_start().len());
            let is_time = line.get(..20).is_some_and(|start| start.starts_with("20") && start.ends_with('Z'));
            let line = if is_time { format!("TIME{}", &line[20..]) } else { line.to_owned() };
            format!("{indent}{}", line.trim_end())
        })
        .collect();
    lines.dedup();
    lines.join("\n")
}

#[test_support::test]
async fn stats_since_print_steps_deploys_and_kinds(stats: Migrated) {
    let history = r#"SELECT uniqueue.register_kind('mail', queue => 'mails');
        SELECT uniqueue._add_history(now() - interval '5 minutes', jsonb_build_array(
            '{"kind": "mail", "queue": "mails", "inserted": 4000, "duplicates": 5, "completed": 30, "failed": 7, "discarded": 1, "waits": [0, 0, 0, 0, 0, 0, 0, 37], "runs": [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 37]}'::jsonb,
            '{"kind": "", "queue": "mails", "inserted": 4000, "duplicates": 5, "completed": 30, "failed": 7, "discarded": 1, "waits": [0, 0, 0, 0, 0, 0, 0, 37], "runs": [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 37]}'::jsonb,
            '{"kind": "", "queue": "", "inserted": 4000, "duplicates": 5, "completed": 30, "failed": 7, "discarded": 1, "waits": [0, 0, 0, 0, 0, 0, 0, 37], "runs": [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 37]}'::jsonb
        ))"#;
    stats.execute(history).await;
    // A runner that works no job.
    let mut work = stats.command(("work --queue mails --app-version", ["1.4 \u{1b}[31m", "--", "cat"]));
    let _working = Killed(work.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    eventually!(!stats.texts("SELECT version FROM uniqueue.deploy").await.is_empty(), "no deploy was noted");
    let steps = r" from                 | inserted | duplicates | completed | failed | discarded | wait 50% | 95% | 99% | run 50% |   95% |   99%
----------------------+----------+------------+-----------+--------+-----------+----------+-----+-----+---------+-------+-------
 TIME |        0 |          0 |         0 |      0 |         0 |          |     |     |         |       |
 TIME |    4,000 |          5 |        30 |      7 |         1 |      4ms | 4ms | 4ms |   177ms | 177ms | 177ms
 TIME |        0 |          0 |         0 |      0 |         0 |          |     |     |         |       |

in steps of 1m; the last two minutes are incomplete
TIME: version 1.4 \u{1b}[31m began to run";
    let kinds = r" kind | inserted | duplicates | completed | failed | discarded
------+----------+------------+-----------+--------+-----------
 mail |    4,000 |          5 |        30 |      7 |         1";
    let since = "stats --since 10m";
    assert_eq!(without_times(&stats.text(since, 0)), format!("{steps}\n\n{kinds}"));
    assert_eq!(without_times(&stats.text((since, "--kind mail"), 0)), steps);
    let numbers = stats.json(since, 0);
    let point = numbers["points"].as_array().unwrap().iter().find(|point| point["inserted"] != 0).unwrap();
    assert_eq!((&numbers["step"], numbers["points"].as_array().unwrap().len()), (&json!(60), 11));
    let counts = json!({"inserted": 4000, "duplicates": 5, "completed": 30, "failed": 7, "discarded": 1});
    for (name, value) in counts.as_object().unwrap() {
        assert_eq!((&point[name], &numbers["kinds"][0][name]), (value, value), "{name}");
    }
    assert_eq!(point["wait"], json!({"p50": 0.004444444, "p95": 0.004444444, "p99": 0.004444444}));
    assert_eq!(point["run"], json!({"p50": 0.177777778, "p95": 0.177777778, "p99": 0.177777778}));
    assert_eq!(numbers["deploys"][0]["version"], "1.4 \u{1b}[31m");
    assert_eq!(numbers["kinds"][0]["kind"], "mail");
}
