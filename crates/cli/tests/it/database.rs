//! `uniqueue db`.

use std::net::TcpListener;
use std::process::Command;

use test_support::prelude::*;
use test_support::tools::lacks;
use uniqueue::embedded::Postgres;

use crate::support::{Foreground, database, directory, execute, has_psql, run, run_json, texts, uniqueue};

#[tokio::test]
async fn a_server_that_wants_tls_is_reached_and_its_certificate_is_checked() {
    let home = directory();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let data = home.path().join("data");
    let server = Postgres::builder().data_dir(&data).port(port.try_into().unwrap()).start().await.unwrap();
    let make = "openssl req -new -x509 -days 2 -nodes -subj /CN=localhost -out server.crt -keyout server.key \
        && chmod 600 server.key && chown --reference=. server.key server.crt \
        && echo 'hostssl all all all trust' > pg_hba.conf";
    let made = Command::new("sh").args(["-c", make]).current_dir(server.data_dir()).output().unwrap();
    if !made.status.success() {
        return lacks("openssl", &format!("{made:?}"));
    }
    execute(server.url(), "ALTER SYSTEM SET ssl = on").await;
    execute(server.url(), "SELECT pg_reload_conf()").await;
    let migrate = |mode: &str| {
        let url = format!("postgres://postgres@127.0.0.1:{port}/postgres?sslmode={mode}");
        let output = uniqueue().args(["migrate", "--database-url", &url]).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    // The server may take a moment to read its settings.
    eventually!(migrate("require") == (Some(0), String::new()), "{:?}", migrate("require"));
    let (code, stderr) = migrate("disable");
    assert!(code == Some(2) && stderr.contains("no encryption"), "{stderr}");
    // No root that this machine trusts has signed the certificate.
    let (code, stderr) = migrate("verify-full");
    assert!(code == Some(2) && stderr.contains("certificate") && stderr.contains("sslmode"), "{stderr}");
    server.stop().await.unwrap();
}

#[tokio::test]
async fn the_schema_comes_from_the_environment_as_well() {
    let url = database().await;
    let run = |schema: &str, words: &[&str]| {
        let output = uniqueue().args(words).env("DATABASE_URL", &url).env("UNIQUEUE_SCHEMA", schema).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(run("jobs", &["migrate"]), (Some(0), String::new()));
    assert_eq!(run("jobs", &["queue", "list"]), (Some(0), String::new()));
    let (code, stderr) = run("jobs", &["queue", "list", "--schema", "other"]);
    assert!(code == Some(2) && stderr.contains("schema other is not migrated"), "{stderr}");
    // Empty means unset.
    let (code, stderr) = run("", &["queue", "list"]);
    assert!(code == Some(2) && stderr.contains("schema uniqueue is not migrated"), "{stderr}");
    let (code, stderr) = run("no spaces", &["queue", "list"]);
    assert!(code == Some(2) && stderr.contains("invalid schema: "), "{stderr}");
}

#[test]
fn a_password_is_in_no_error_wherever_its_url_stands() {
    const URL: &str = "postgres://ada:p@S3/xyz@db.invalid/app";
    for words in [
        &["migrate", URL][..],
        &["migrate", "--database-urll", URL],
        &["--database-url", URL, "stats"],
        &["job", "show", URL],
        &["job", "list", "--after", URL],
        &["demo", URL],
        &["queue", "list", "--database-url", URL],
        &["serve", "--database-url", URL],
        &["db", "psql", "--database-url", URL],
        &["doctor", &format!("--database-url={URL}")],
    ] {
        let output = uniqueue().args(words).output().unwrap();
        let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
        assert!(
            said.contains("error") && !["S3", "s3", "xyz"].iter().any(|part| said.contains(part)),
            "{words:?}: {said}"
        );
    }
}

#[tokio::test]
async fn data_stay_across_starts() {
    let scratch = directory();
    let data_dir = scratch.path().join("data");
    let start = |extra: &[&str]| {
        let mut command = uniqueue();
        Foreground::start(command.args(["db", "start", "--json", "--data-dir"]).arg(&data_dir).args(extra))
    };
    let first = start(&[]);
    let url = first.object["url"].as_str().unwrap();
    execute(url, "CREATE TABLE kept AS SELECT 'still here' AS what").await;
    assert_eq!(first.object["data_dir"], json!(data_dir.canonicalize().unwrap()));
    assert_eq!(first.stop("INT").code(), Some(0));

    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let second = start(&["--port", &port.to_string()]);
    let url = second.object["url"].as_str().unwrap();
    assert_eq!(url, format!("postgres://postgres@127.0.0.1:{port}/postgres"));
    assert_eq!(texts(url, "SELECT what FROM kept").await, ["still here"]);

    let taken = run(&["db", "start", "--data-dir", data_dir.to_str().unwrap()]);
    let stderr = String::from_utf8_lossy(&taken.stderr);
    assert!(stderr.starts_with("error: the data directory is in use by another server: "), "{stderr}");
    assert_eq!((taken.status.code(), taken.stdout), (Some(2), Vec::new()));
    assert_eq!(second.stop("TERM").code(), Some(0));
}

#[tokio::test]
async fn stop_ends_the_server_of_another_terminal_in_order() {
    let scratch = directory();
    let data_dir = scratch.path().join("data");
    let stop = || {
        let mut command = uniqueue();
        command.args(["db", "stop", "--json", "--data-dir"]).arg(&data_dir);
        run_json(&mut command)
    };
    // Nothing there, not even the directory.
    assert_eq!(stop(), (1, json!({ "stopped": false, "data_dir": data_dir })));
    let mut start = uniqueue();
    let server = Foreground::start(start.args(["db", "start", "--json", "--data-dir"]).arg(&data_dir));
    assert_eq!(stop().0, 0);
    assert!(!data_dir.join("postmaster.pid").exists());
    assert_eq!(server.wait().code(), Some(0), "it was asked to");
    assert_eq!(stop().0, 1);

    // A file that a crash left behind, with the number of a process that is not the server: this one's.
    let left = format!("{}\n{}\n1\n5432\n/nowhere\n\n0 0\nready\n", std::process::id(), data_dir.display());
    std::fs::write(data_dir.join("postmaster.pid"), left).unwrap();
    let output = run(&["db", "stop", "--data-dir", data_dir.to_str().unwrap()]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.starts_with("error: the server does not answer") && stderr.contains("\nhint: "), "{stderr}");
}

#[tokio::test]
async fn psql_opens_on_the_running_server_with_the_schema_in_reach() {
    if !has_psql() {
        return;
    }
    let scratch = directory();
    let data_dir = scratch.path().join("data");
    let psql = |arguments: &[&str]| {
        let mut command = uniqueue();
        command.args(["db", "psql", "--schema", "my-jobs"]).args(arguments);
        command
    };
    let path = data_dir.to_str().unwrap();
    let output = psql(&["--data-dir", path]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr.starts_with("error: no server runs in ") && stderr.contains("`uniqueue db start`"), "{stderr}");

    let mut start = uniqueue();
    let server = Foreground::start(start.args(["db", "start", "--json", "--data-dir"]).arg(&data_dir));
    let url = server.object["url"].as_str().unwrap();
    let migrate = run(&["migrate", "--schema", "my-jobs", "--database-url", url]);
    assert!(migrate.status.success(), "{migrate:?}");
    for place in [["--data-dir", path], ["--database-url", url]] {
        let count = "SELECT count(*) || ' ' || current_setting('work_mem') FROM job";
        let mut command = psql(&[&place[..], &["--", "-XAtc", count]].concat());
        let output =
            command.env("PGOPTIONS", "-c work_mem=1MB").env("DATABASE_URL", "postgres://127.0.0.1:1/x").output();
        let output = output.unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "0 1MB\n", "{output:?}");
    }
    // psql's own exit code.
    assert_eq!(psql(&["--database-url", url, "--", "-Xc", "dance"]).output().unwrap().status.code(), Some(1));

    let none = psql(&["--database-url", url]).env("PATH", "/nowhere").env_remove("PG_BINDIR").output().unwrap();
    let stderr = String::from_utf8_lossy(&none.stderr);
    assert_eq!(none.status.code(), Some(2));
    assert!(stderr.starts_with("error: cannot run psql: ") && stderr.contains("\nhint: install psql"), "{stderr}");
    assert_eq!(server.stop("INT").code(), Some(0));
}
