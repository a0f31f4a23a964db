//! `uniqueue db start`.

use std::net::TcpListener;

use serde_json::json;

use crate::support::{Foreground, directory, execute, run, texts, uniqueue};

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
