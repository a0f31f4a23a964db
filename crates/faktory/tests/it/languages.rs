//! Clients of Faktory for Node.js and Python, as they come from npm and PyPI.

use std::path::Path;
use std::process::Command;

use test_support::clients::{Program, node_with_faktory, python_with_faktory, text_of};
use test_support::prelude::*;

use crate::support::Server;

#[derive(Debug, serde::Deserialize, serde::Serialize, uniqueue::Job)]
#[job(kind = "native", queue = "rust")]
struct Native {
    user: i64,
}

fn source(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/languages").join(name)
}

/// Runs a program that prints one object.
async fn object(mut command: Command) -> Value {
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert!(output.status.success(), "{}", text_of(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    serde_json::from_str(text.lines().last().unwrap_or_default()).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Works the native job with a runner in Rust.
async fn work_natively(server: &Server) {
    let (sent, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let worker = move |job: RunningJob<Native>| {
        let sent = sent.clone();
        async move { Ok::<_, BoxError>(sent.send(job.args.user)?) }
    };
    let runner = Runner::new(server.database.client.clone()).queue("rust", 1).worker(worker).start().await.unwrap();
    assert_eq!(timeout(WAIT, seen.recv()).await.unwrap(), Some(7));
    server.database.until_state(server.job("native").await.id, JobState::Completed).await;
    runner.stop().await.unwrap();
}

/// Waits until a worker has completed all jobs of the kind `ok` and failed one of the kind `bad`.
async fn until_worked(server: &Server, completed: i64) {
    let query = "SELECT count(*) FROM {schema}.job WHERE kind = 'ok' AND state = 'completed'";
    server.database.until(query, completed).await;
    eventually!(
        let failed = server.database.number("SELECT count(*) FROM {schema}.job WHERE kind = 'bad' AND jsonb_array_length(errors) > 0").await;
        failed > 0, "no job has failed"
    );
    let error =
        "SELECT errors #>> '{0,error}' FROM {schema}.job WHERE kind = 'bad' AND jsonb_array_length(errors) > 0 LIMIT 1";
    assert_eq!(server.database.text(error).await, "no luck");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_on_npm_pushes_works_and_changes_jobs() {
    let Some(directory) = node_with_faktory() else { return };
    let server = Server::new().await;
    let program = directory.join("client.mjs");
    std::fs::copy(source("client.mjs"), &program).unwrap();
    let node = |verb: &str| {
        let mut command = Command::new("node");
        command.arg(&program).args([verb, &format!("tcp://{}", server.address)]);
        command
    };
    let pushed = object(node("push")).await;
    for name in ["ok", "bad", "later", "native", "unique"] {
        assert_eq!(pushed[name], true, "{pushed}");
    }
    assert!(pushed["again"].as_str().unwrap().contains("NOTUNIQUE"), "{pushed}");
    assert_eq!((&pushed["bulk"], &pushed["killed"]), (&json!(["NOTUNIQUE Job not unique"]), &json!("OK")));
    assert_eq!(pushed["enqueued"], 5, "{pushed}");
    assert_eq!(server.job("later").await.state, JobState::Discarded);
    work_natively(&server).await;
    let worker = Program::start(&mut node("work"));
    server.database.client.insert(test_support::job("ok").queue("node")).await.unwrap();
    until_worked(&server, 3).await;
    worker.signal("TERM");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_clients_on_pypi_push_work_and_change_jobs() {
    if python_with_faktory().is_none() {
        return;
    }
    let server = Server::new().await;
    let python = |verb: &str| {
        let mut command = python_with_faktory().unwrap();
        command.arg(source("client.py")).args([verb, &format!("tcp://{}", server.address)]);
        command
    };
    let pushed = object(python("push")).await;
    for name in ["ok", "bad", "dead", "later", "unique", "discard"] {
        assert_eq!(pushed[name], true, "{pushed}");
    }
    assert!(pushed["again"].as_str().unwrap().contains("NOTUNIQUE"), "{pushed}");
    assert_eq!((&pushed["bulk"], &pushed["queues"]["python"]), (&json!({}), &json!(6)));
    assert_eq!(server.job("later").await.state, JobState::Cancelled);
    work_natively(&server).await;
    let worker = Program::start(&mut python("work"));
    until_worked(&server, 4).await;
    server.database.until("SELECT count(*) FROM {schema}.job WHERE kind = 'bad' AND state = 'discarded'", 1).await;
    worker.signal("TERM");
}
