//! `uniqueue demo`.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sha2::{Digest, Sha256};
use sqlx::AssertSqlSafe;
use test_support::prelude::*;

use crate::support::{Foreground, command, database, directory, execute, is_root, run_json, texts, uniqueue};

/// Name under the tree, the same as the demo's table spells it, content.
const FILES: [(&[u8], &str, &[u8]); 10] = [
    (b"two_lines", "two_lines", b"a\nb\n"),
    (b"no_newline", "no_newline", b"a\nb"),
    (b"empty", "empty", b""),
    (b"a/b/c/deep", "a/b/c/deep", b"\n\n\n"),
    (b"a/same", "a/same", b"a\nb\n"),
    (b"not utf-8 \xff", "not utf-8 %FF", b"1"),
    (b"new\nline", "new%0Aline", b"2"),
    (b"per%25cent", "per%2525cent", b"3"),
    ("caf\u{e9}".as_bytes(), "caf\u{e9}", b"4"),
    ("cafe\u{301}".as_bytes(), "cafe%CC%81", b"5"),
];

fn write(root: &Path, name: &[u8], content: &[u8]) -> PathBuf {
    let path = root.join(OsStr::from_bytes(name));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, content).unwrap();
    path
}

fn line(content: &[u8], path: &str) -> String {
    let lines = content.split_inclusive(|byte| *byte == b'\n').count();
    let sha256: String = Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{path} {} {lines} {sha256}", content.len())
}

fn numbers(report: &Value, names: &[&str]) -> Vec<u64> {
    names.iter().map(|name| report[name].as_u64().unwrap_or_else(|| panic!("{name}: {report}"))).collect()
}

const COUNTS: [&str; 6] = ["files", "inserted", "duplicates", "completed", "discarded", "stored_twice"];

#[tokio::test]
async fn every_file_is_accounted_for_and_its_checksum_is_right() {
    let scratch = directory();
    let tree = scratch.path().join("tree");
    for (name, _, content) in FILES {
        write(&tree, name, content);
    }
    fs::create_dir(tree.join("empty_directory")).unwrap();
    symlink("two_lines", tree.join("link")).unwrap();
    write(&tree, b"target/built", b"left out");
    assert!(Command::new("mkfifo").arg(tree.join("pipe")).status().unwrap().success());
    let closed = write(&tree, b"closed", b"secret");
    fs::set_permissions(&closed, Permissions::from_mode(0o000)).unwrap();

    // No permission stops root, so the command runs as nobody, from where nobody can reach it.
    let binary = scratch.path().join("uniqueue");
    fs::copy(env!("CARGO_BIN_EXE_uniqueue"), &binary).unwrap();
    let mut demo = command(&binary);
    if is_root(&scratch) {
        demo.uid(65534).gid(65534);
    }
    let kept = Foreground::start(demo.arg("demo").arg(&tree).args(["--json", "--keep"]));

    let report = &kept.object;
    assert_eq!(numbers(report, &COUNTS), [11, 11, 11, 10, 1, 0], "{report}");
    let bytes: u64 = FILES.iter().map(|(_, _, content)| content.len() as u64).sum();
    assert_eq!(numbers(report, &["bytes", "bytes_read", "retried", "attempts"]), [bytes + 6, bytes, 1, 13]);
    assert_eq!((&report["accounted"], &report["problems"]), (&json!(true), &json!([])));
    let left_out = json!({
        "excluded_names": [".git", "target"],
        "excluded_directories": 1,
        "symbolic_links": 1,
        "special_files": 1,
        "unreadable": []
    });
    assert_eq!(report["left_out"], left_out);
    let root = tree.canonicalize().unwrap().display().to_string();
    let failure = json!({
        "path": format!("{root}/closed"), "attempts": 3, "error": "Permission denied (os error 13)"
    });
    assert_eq!(report["failures"], json!([failure]));

    let url = report["database"]["url"].as_str().unwrap();
    let stored = texts(
        url,
        "SELECT concat_ws(' ', f.path, c.bytes, c.lines, encode(c.sha256, 'hex'))
         FROM uniqueue_demo.file AS f JOIN uniqueue_demo.checksum AS c USING (job_id) ORDER BY f.path COLLATE \"C\"",
    )
    .await;
    let expected: BTreeMap<_, _> = FILES
        .iter()
        .map(|(_, text, content)| (format!("{root}/{text}"), line(content, &format!("{root}/{text}"))))
        .collect();
    assert_eq!(stored, expected.into_values().collect::<Vec<_>>());

    // A second run in the kept database: new jobs, for the first are final and claim nothing.
    let home = PathBuf::from(url.split_once("host=").unwrap().1.replace("%2F", "/"));
    let mut again = command(&binary);
    if is_root(&scratch) {
        again.uid(65534).gid(65534);
    }
    let (code, second) = run_json(again.arg("demo").arg(&tree).args(["--json", "--all", "--database-url", url]));
    assert_eq!((code, numbers(&second, &COUNTS)), (0, vec![12, 12, 12, 11, 1, 0]));
    assert_eq!(second["database"]["url"], Value::Null);
    assert_eq!(texts(url, "SELECT count(*)::text FROM uniqueue.job").await, ["23"]);

    assert_eq!(kept.stop("INT").code(), Some(0));
    assert!(!home.exists(), "{}", home.display());
}

#[tokio::test]
async fn one_file_and_no_file_are_fine_and_text_reads_well() {
    let url = database().await;
    let tree = directory();
    let mut demo = uniqueue();
    let demo = demo.arg("demo").arg(tree.path()).args(["--database-url", &url]);
    let output = demo.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("Worked      0 jobs in 0s: 0 completed, 0 discarded, 0 retried\n"), "{text}");
    assert!(text.contains("\nEvery file is accounted for.\n\nNext:\n"), "{text}");
    printed_commands_work(&text);
    assert!(!text.contains("(1 row)"), "the tables are behind --tables: {text}");

    let file = write(tree.path(), b"file", b"x");
    let (code, report) = run_json(uniqueue().arg("demo").arg(file).arg("--json").env("DATABASE_URL", &url));
    assert_eq!((code, numbers(&report, &COUNTS)), (0, vec![1, 1, 1, 1, 0, 0]));
    assert_eq!(report["duplicate_example"]["holder_state"], json!("available"));

    let output = demo.arg("--tables").env("COLUMNS", "80").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("\n queue |") && text.contains("\n id   ") && text.contains("| demo.file |"), "{text}");
    let (summary, _) = text.split_once("\nEvery file is accounted for.\n").expect(&text);
    for part in [
        "\nInserted    1 job in ",
        "\nDuplicates  1: all jobs were inserted again in ",
        "which is free when it is completed, cancelled or discarded",
        "\nWorked      1 job in ",
        ": 1 completed, 0 discarded, 0 retried; ",
    ] {
        let (part, summary) = (part.trim_start(), summary.split_whitespace().collect::<Vec<_>>().join(" "));
        assert!(summary.contains(&part.split_whitespace().collect::<Vec<_>>().join(" ")), "{part}: {summary}");
    }
    assert!(summary.lines().all(|line| line.chars().count() <= 80), "{summary}");
}

/// Runs each command that the text prints below "Next", but `top`, which needs a terminal.
fn printed_commands_work(text: &str) {
    let (_, next) = text.split_once("\nNext:\n").expect(text);
    // A purpose stands behind two blanks.
    let lines: Vec<_> = next.lines().map(|line| line.trim_start().split("  ").next().unwrap()).collect();
    assert!(lines.len() >= 3, "{text}");
    for line in lines.into_iter().filter(|line| !line.contains(" top")) {
        let ran = Command::new("sh").args(["-c", line]).env_remove("DATABASE_URL").output().unwrap();
        assert!(ran.status.success(), "{line}: {ran:?}");
    }
}

/// Waits until a session of the demo waits for a lock.
async fn until_it_waits(url: &str) {
    let waits = "SELECT count(*)::text FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'uniqueue' AND wait_event_type = 'Lock'";
    eventually!(texts(url, waits).await != ["0"], "it does not wait");
}

#[tokio::test]
async fn a_signal_ends_the_demo_at_every_step() {
    let url = database().await;
    let tree = directory();
    write(tree.path(), b"file", b"x");
    let demo = || {
        let mut demo = uniqueue();
        demo.arg("demo").arg(tree.path()).args(["--database-url", &url]).stdout(Stdio::piped()).stderr(Stdio::piped());
        demo
    };
    assert!(demo().output().unwrap().status.success());
    for (step, lock, signals) in [
        ("the tables", "SELECT pg_advisory_xact_lock(hashtextextended('uniqueue demo tables', 0))", &["TERM"][..]),
        ("the inserts", "LOCK uniqueue.job", &["INT"]),
        ("the work, in order", "LOCK uniqueue_demo.checksum IN SHARE MODE", &["TERM"]),
        ("the work, at once", "LOCK uniqueue_demo.checksum IN SHARE MODE", &["INT", "INT"]),
    ] {
        let mut holder = PgConnection::connect(&url).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(format!("BEGIN; {lock}"))).execute(&mut holder).await.unwrap();
        let child = demo().spawn().unwrap();
        until_it_waits(&url).await;
        for signal in signals {
            let sent = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status();
            assert!(sent.unwrap().success(), "{step}");
            // Two equal signals at once would count as one.
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        let output = tokio::task::spawn_blocking(|| child.wait_with_output()).await.unwrap().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(130), 0), "{step}: {stderr}");
        let left = "error: interrupted: jobs that were inserted stay in the queue, and the next demo works them\n";
        assert!(stderr.ends_with(left), "{step}: {stderr}");
        holder.close().await.unwrap();
    }
    assert!(demo().output().unwrap().status.success());
}

#[tokio::test]
async fn jobs_of_an_interrupted_run_are_taken_over() {
    let url = database().await;
    let tree = directory();
    let file = write(tree.path(), b"file", b"x").canonicalize().unwrap();
    let client = Client::builder().schema("jobs".parse().unwrap()).connect(&url).await.unwrap();
    client.migrate().await.unwrap();
    let left = NewJob::new("demo.file", &json!({"path": file, "size": 1}))
        .queue("demo")
        .unique(UniquePolicy::default().by_arg_fields(["path", "size"]));
    client.insert_many([left]).await.unwrap();

    let mut demo = uniqueue();
    let demo = demo.arg("demo").arg(tree.path()).args(["--json", "--schema", "jobs", "--database-url", &url]);
    let (code, report) = run_json(demo);
    assert_eq!((code, numbers(&report, &COUNTS)), (0, vec![1, 0, 1, 1, 0, 0]));
    assert_eq!(report["adopted"], json!(1));
    assert_eq!(texts(&url, "SELECT state::text FROM jobs.job").await, ["completed"]);
}

#[tokio::test]
async fn unaccounted_file_is_told_by_the_exit_code() {
    let url = database().await;
    let tree = directory();
    write(tree.path(), b"file", b"x");
    let mut demo = uniqueue();
    let demo = demo.arg("demo").arg(tree.path()).args(["--json", "--database-url", &url]);
    assert_eq!(run_json(demo).0, 0);
    let create = "CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
         CREATE TRIGGER lose BEFORE INSERT ON uniqueue_demo.checksum FOR EACH ROW EXECUTE FUNCTION lose()";
    execute(&url, create).await;
    let (code, report) = run_json(demo);
    assert_eq!((code, &report["accounted"]), (1, &json!(false)));
    assert_eq!(report["problems"], json!(["1 completed job without a checksum"]));
}

#[tokio::test]
async fn second_demo_at_once_is_refused() {
    let url = database().await;
    let tree = directory();
    let pool = sqlx::PgPool::connect(&url).await.unwrap();
    let mut lock = pool.begin().await.unwrap();
    let take = "SELECT pg_advisory_xact_lock(hashtextextended('uniqueue demo uniqueue', 0))";
    sqlx::query(take).execute(&mut *lock).await.unwrap();
    let output = uniqueue().arg("demo").arg(tree.path()).args(["--database-url", &url]).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.starts_with("error: another demo is running in this database and schema: uniqueue\nhint: "),
        "{stderr}"
    );
    assert!(output.stdout.is_empty());
}
