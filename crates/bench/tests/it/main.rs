//! `uniqueue-bench`: every workload runs, is checked and leaves nothing behind. Speed is not tested.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

mod support;

use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};
use test_support::eventually;
use uniqueue::{Client, NewJob};

use crate::support::{command, database, execute, texts};

const SCHEMAS: &str = "SELECT nspname::text FROM pg_namespace WHERE nspname = 'uniqueue_bench'";

fn bench(url: &str, arguments: &str) -> Command {
    let mut bench = command();
    bench.args(["--database-url", url]).args(arguments.split_whitespace());
    // Not read: a bench in an application's database by mistake would fill it.
    bench.env("DATABASE_URL", "postgres://nobody@nowhere.invalid/nothing");
    bench
}

/// Runs it, and reads the lines that it prints.
fn lines(command: &mut Command) -> Vec<Value> {
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*stderr), (Some(0), ""), "{output:?}");
    let stdout = String::from_utf8(output.stdout).unwrap();
    stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn number(line: &Value, name: &str) -> f64 {
    line[name].as_f64().unwrap_or_else(|| panic!("{name}: {line}"))
}

/// The message of a bench that did not run.
fn refused(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), &b""[..]), "{stderr}");
    stderr
}

/// The workloads that insert, and the variants of each in `SMALL`.
const INSERTS: [(&str, usize); 13] = [
    ("insert_bulk", 1),
    ("insert_bulk_unique", 1),
    ("insert_bulk_half", 1),
    ("insert_tx", 1),
    ("insert_tx_unique", 1),
    ("insert_tx_half", 1),
    ("insert_notified", 1),
    ("insert_single", 2),
    ("insert_unique", 2),
    ("insert_half", 2),
    ("insert_duplicate", 2),
    ("insert_update", 2),
    ("insert_run_again", 1),
];

/// The workloads that work jobs.
const WORK: [(&str, usize); 13] = [
    ("work", 1),
    ("work_delete", 1),
    ("work_unique", 1),
    ("work_queues", 1),
    ("work_slots", 4),
    ("work_backlog", 1),
    ("work_grouped", 1),
    ("work_in_order", 1),
    ("work_fair", 1),
    ("work_rate", 1),
    ("work_blocked", 1),
    ("work_held_snapshot", 1),
    ("end_to_end", 2),
];

/// The workloads that measure delays.
const DELAYS: [(&str, usize); 4] = [("scheduled", 1), ("latency", 1), ("release", 1), ("release_busy", 1)];

/// Every workload, as small as it gets.
const SMALL: &str = "--rounds 1 --duration 1 --backlog 50 --tasks 4,8 --concurrency 30 --slots 2,5 --runners 1,3 \
    --queues 7 --groups 9 --rate 200";

/// Runs workloads of `n` jobs on a database of their own. Each prints a line a variant, and they leave nothing behind.
async fn run(workloads: &[(&str, usize)], n: u32) -> Vec<Value> {
    let url = database().await;
    let names: Vec<_> = workloads.iter().map(|(name, _)| *name).collect();
    let lines = lines(&mut bench(&url, &format!("--json --n {n} {SMALL} --workload {}", names.join(","))));
    let found: Vec<_> = lines.iter().map(|line| line["workload"].as_str().unwrap()).collect();
    let expected: Vec<_> =
        workloads.iter().flat_map(|(name, variants)| std::iter::repeat_n(*name, *variants)).collect();
    assert_eq!(found, expected);
    for line in &lines {
        assert_eq!(number(line, "n"), f64::from(n), "{line}");
        let (rate, seconds) = (number(line, "jobs_per_second"), number(line, "seconds"));
        assert!(rate > 0.0 && seconds > 0.0 && number(line, "connections") > 0.0, "{line}");
        // Other tests write into the same server, so only the least that it can be is known.
        let least = if ["insert_duplicate", "insert_run_again"].iter().any(|name| line["workload"] == *name) {
            0.0
        } else {
            100.0
        };
        assert!(number(line, "wal_bytes_per_job") >= least, "{line}");
        assert_eq!(line["bare"].is_null(), line["workload"] == "release", "{line}");
        assert_eq!(line["ratio"], line["bare"]["ratio"], "{line}");
        assert_eq!((&line["embedded"], &line["durable"]), (&json!(false), &json!(false)), "{line}");
        assert_eq!(line["bare"]["server_cpu_ratio"], Value::Null, "a server that is not ours: {line}");
    }
    assert_eq!(texts(&url, SCHEMAS).await, [""; 0]);
    lines
}

fn assert_ratios(lines: &[Value]) {
    for line in lines {
        // Of one round, whose rates are the medians. The ratio is printed with three decimals.
        let ratio = number(line, "jobs_per_second") / number(&line["bare"], "jobs_per_second");
        assert!((number(&line["bare"], "ratio") - ratio).abs() < 0.001 + 0.01 * ratio, "{line}");
    }
}

/// A number of each variant of a workload.
fn numbers_of(lines: &[Value], name: &str, part: &str) -> Vec<u64> {
    let lines = lines.iter().filter(|line| line["workload"] == name);
    lines.map(|line| line[part].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn each_workload_that_inserts_prints_one_line_a_variant_and_leaves_nothing() {
    let lines = run(&INSERTS, 40).await;
    assert_ratios(&lines);
    for name in ["insert_single", "insert_unique", "insert_half", "insert_duplicate", "insert_update"] {
        assert_eq!(numbers_of(&lines, name, "tasks"), [4, 8], "{name}");
    }
}

#[tokio::test]
async fn each_workload_that_works_prints_one_line_a_variant_and_leaves_nothing() {
    let lines = run(&WORK, 40).await;
    assert_ratios(&lines);
    assert_eq!(numbers_of(&lines, "end_to_end", "tasks"), [4, 8]);
    let [slots, runners] = ["slots", "runners"].map(|part| numbers_of(&lines, "work_slots", part));
    assert_eq!([slots, runners], [[2, 2, 5, 5], [1, 3, 1, 3]]);
}

#[tokio::test]
async fn each_workload_that_measures_delays_prints_one_line_and_leaves_nothing() {
    // `release` waits between its jobs, for 0.7 s after each second one.
    for line in run(&DELAYS, 6).await {
        assert_eq!(line["bare"]["ratio"], Value::Null, "the clock sets the rate: {line}");
    }
}

#[test]
fn the_lists_name_each_workload() {
    let message = refused(&mut bench("postgres://nowhere.invalid", "--workload none"));
    let (_, known) = message.split_once("[possible values: ").expect(&message);
    let (known, _) = known.split_once(']').unwrap();
    let mut known: Vec<_> = known.split(", ").collect();
    let mut listed: Vec<_> = [&INSERTS[..], &WORK, &DELAYS].concat().into_iter().map(|(name, _)| name).collect();
    known.sort_unstable();
    listed.sort_unstable();
    assert_eq!(listed, known);
}

#[tokio::test]
async fn every_side_has_its_delays() {
    let url = database().await;
    let lines = lines(&mut bench(&url, "--json --n 30 --rounds 1 --rate 100 --workload scheduled,latency"));
    for line in &lines {
        for side in [line, &line["bare"]] {
            let [p50, p99, max] = ["p50_ms", "p99_ms", "max_ms"].map(|name| number(side, name));
            assert!(0.0 <= p50 && p50 <= p99 && p99 <= max && max < 30_000.0, "{line}");
        }
    }
    // 30 jobs at 100 a second, the first of them due half a second after the start.
    assert!(number(&lines[0], "seconds") >= 0.79, "{}", lines[0]);
    assert!(number(&lines[1]["delays_from_call"], "p50_ms") > 0.0, "{}", lines[1]);
    assert_eq!(lines[1]["target_p99_ms"], json!(2.0), "{}", lines[1]);
}

#[tokio::test]
async fn line_has_the_medians_and_the_rounds_of_each_side() {
    let url = database().await;
    let output = bench(&url, "--json --n 3 --rounds 2 --workload work").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), 1);
    let line: Value = serde_json::from_str(&text).unwrap();
    let rounds = line["rounds"].as_array().unwrap();
    assert_eq!(rounds.len(), 2);
    for (side, median) in [("ours", "jobs_per_second"), ("bare", "bare_per_second")] {
        let sum: f64 = rounds.iter().map(|round| number(&round[side], "jobs_per_second")).sum();
        assert!((number(&line, median) * 2.0 / sum - 1.0).abs() < 0.01, "{line}");
    }
    let [least, greatest] = [0, 1].map(|at: usize| line["bare"]["ratio_range"][at].as_f64().unwrap());
    assert!(least <= number(&line, "ratio") && number(&line, "ratio") <= greatest, "{line}");
}

#[tokio::test]
async fn tables_fit_into_100_columns_and_name_targets() {
    let url = database().await;
    let workloads = "insert_bulk,insert_half,work_unique,work_slots,scheduled,latency,work_held_snapshot";
    let output = bench(&url, &format!("--n 40 {SMALL} --workload {workloads}")).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (facts, tables) = text.split_once("\n\n").unwrap();
    assert!(facts.contains("NOT durable") && facts.contains("fsync off"), "{text}");
    let widest = tables.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(widest <= 100, "{widest}: {text}");
    // Rates, then delays by side, then the costs of all.
    let rows: Vec<_> = tables.lines().filter(|line| line.ends_with(" rows)")).collect();
    assert_eq!(rows, ["(9 rows)", "(4 rows)", "(11 rows)"], "{text}");
    assert!(tables.contains("| 3 x 5 ") && tables.contains("| p99 <= 2 ms |"), "{text}");
    for (workload, target) in [("insert_bulk ", "0.9"), ("insert_half ", "0.8"), ("work_unique ", "0.75")] {
        let row = tables.lines().find(|line| line.starts_with(&format!(" {workload}"))).unwrap();
        assert!(row.contains(&format!("| >= {target} ")), "{row}");
    }
    assert_eq!(tables.matches("* the counterpart is the library itself").count(), 1, "{text}");
}

#[tokio::test]
async fn check_answers_with_the_exit_code() {
    let url = database().await;
    let output = bench(&url, "--n 20 --rounds 1 --workload insert_bulk,work --check").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let is_missed = text.lines().any(|line| line.ends_with("| NO"));
    assert_eq!(output.status.code(), Some(i32::from(is_missed)), "{text}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("warning: this server is not durable"));
}

#[tokio::test]
async fn server_of_its_own_is_durable() {
    let output = bench("", "--json --n 20000 --rounds 1 --workload insert_bulk").output().unwrap();
    let line: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&line["embedded"], &line["durable"]), (&json!(true), &json!(true)), "{line}");
    let settings = ["fsync", "full_page_writes", "synchronous_commit"].map(|name| line["settings"][name].clone());
    assert_eq!(settings, ["on", "on", "on"].map(Value::from), "{line}");
    if cfg!(target_os = "linux") {
        // Its processes are metered, too.
        let ratio = number(&line["bare"], "server_cpu_per_job") / number(&line, "server_cpu_per_job");
        assert!((number(&line["bare"], "server_cpu_ratio") / ratio - 1.0).abs() < 0.01, "{line}");
    }
}

#[tokio::test]
async fn schema_with_jobs_of_others_is_left_alone() {
    let url = database().await;
    let client = Client::builder().schema("uniqueue_bench".parse().unwrap()).connect(&url).await.unwrap();
    client.migrate().await.unwrap();
    client.insert(NewJob::new("precious", &json!({}))).await.unwrap();
    let expected = "error: the bench did not make this schema, or not all that is in it: uniqueue_bench\nhint: ";
    let stderr = refused(&mut bench(&url, "--n 3 --rounds 1 --workload work"));
    assert!(stderr.starts_with(expected), "{stderr}");
    // Not even where it looks like the bench's own.
    execute(&url, "COMMENT ON SCHEMA uniqueue_bench IS 'made by uniqueue bench, which drops it'").await;
    let stderr = refused(&mut bench(&url, "--n 3 --rounds 1 --workload work"));
    assert!(stderr.starts_with(expected), "{stderr}");
    assert_eq!(texts(&url, "SELECT kind FROM uniqueue_bench.job").await, ["precious"]);

    execute(&url, "UPDATE uniqueue_bench.job SET kind = 'bench'").await;
    let lines = lines(&mut bench(&url, "--json --n 3 --rounds 1 --workload work"));
    assert_eq!(lines.len(), 1, "what a killed bench left is taken over");
    assert_eq!(texts(&url, SCHEMAS).await, [""; 0]);
}

#[tokio::test]
async fn second_bench_at_once_is_refused() {
    let url = database().await;
    let mut lock = PgConnection::connect(&url).await.unwrap();
    let take = "SELECT pg_advisory_lock(hashtextextended('uniqueue bench uniqueue_bench', 0))";
    sqlx::query(take).execute(&mut lock).await.unwrap();
    let stderr = refused(&mut bench(&url, "--n 3 --rounds 1 --workload work"));
    assert!(stderr.starts_with("error: another bench is running in this database and schema"), "{stderr}");
}

#[tokio::test]
async fn interrupted_bench_leaves_nothing() {
    for workload in ["latency", "insert_single", "work"] {
        let url = database().await;
        let arguments = format!("--json --n 5000000 --workload {workload}");
        let child = bench(&url, &arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let jobs = "SELECT to_regclass('uniqueue_bench.job')::text";
        eventually!(within Duration::from_secs(60); texts(&url, jobs).await == ["uniqueue_bench.job"], "it does not begin");
        assert!(Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(130), &b""[..]), "{workload}: {stderr}");
        assert_eq!(stderr, "error: interrupted: nothing is left of the bench in the database\n");
        assert_eq!(texts(&url, SCHEMAS).await, [""; 0], "{workload}");
    }
}

/// Whether a plan reads the job table, or calls the one function of its verb.
fn is_of_jobs(plan: &str) -> bool {
    plan.contains("job") || plan.contains("Function Scan on _")
}

#[tokio::test]
async fn sweeps_give_points_with_the_plans_of_their_statements() {
    let url = database().await;
    let points = lines(&mut bench(
        &url,
        "--json --n 30 --rounds 1 --sweep table-size,runners,queues,args-size,keys --points 2,5",
    ));
    let count = |sweep: &str| points.iter().filter(|point| point["sweep"] == sweep).count();
    let counts = ["table-size", "runners", "queues", "args-size", "keys"].map(count);
    assert_eq!(counts, [8, 2, 2, 4, 4], "{points:?}");
    for point in &points {
        let micros = number(point, "us_per_job");
        assert!((micros * number(point, "jobs_per_second") / 1e6 - 1.0).abs() < 0.01, "{point}");
        assert!([2.0, 5.0].contains(&number(point, "x")), "{point}");
        assert_eq!(point["bare_us_per_job"].is_null(), point["sweep"] == "queues", "{point}");
        let plans: Vec<_> = point["plans"].as_object().unwrap().values().map(Value::to_string).collect();
        assert!(!plans.is_empty() && plans.iter().all(|plan| is_of_jobs(plan)), "{point}");
        assert!(plans.iter().all(|plan| !plan.contains("Seq Scan on job")), "{point}");
    }
}

#[test]
fn a_wrong_url_is_an_error_with_a_hint() {
    let stderr = refused(command().args(["--database-url", "mysql://x"]));
    let expected = "error: invalid database URL: it must start with postgres://";
    assert!(stderr.starts_with(expected) && stderr.contains("\nhint: "), "{stderr}");
}

#[test]
fn a_wrong_command_line_is_refused() {
    for arguments in [
        &["--workload", "dance"][..],
        &["--n", "0"],
        &["--n", "many"],
        &["--rounds", "0"],
        &["--connections", "0"],
        &["--tasks", "0"],
        &["--duration", "0"],
        &["--points", "10"],
        &["--sweep", "keys", "--points", "0"],
        &["--sweep", "keys", "--workload", "work"],
        &["--schema", "no spaces"],
    ] {
        refused(command().args(arguments));
    }
}
