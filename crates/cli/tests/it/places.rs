//! The commands over several places.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use test_support::prelude::*;

use crate::support::{Foreground, database, directory, execute, uniqueue};

/// Runs a command with a map. Answers with its exit code and its output.
fn run(map: &str, arguments: &[&str]) -> (i32, String, String) {
    let output = uniqueue().args(arguments).args(["--places", map]).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// The map of two places `a` and `b` with their schemas, as JSON, and their URLs.
async fn two_places() -> (String, [String; 2]) {
    let [a, b] = [database().await, database().await];
    let map = json!({"places": [{"name": "a", "url": a}, {"name": "b", "url": b}]}).to_string();
    assert_eq!(run(&map, &["places", "migrate"]).0, 0);
    (map, [a, b])
}

#[tokio::test]
async fn every_command_asks_all_places_or_one() {
    let directory = directory();
    let (a, b) = (database().await, database().await);
    let write = |name: &str, document: Value| {
        let path = directory.path().join(name);
        fs::write(&path, document.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let place = |name: &str, url: &str| json!({"name": name, "url": url});
    let map = write("map.json", json!({"places": [place("a", &a), place("b", &b)], "hashed": ["a", "b"]}));

    let (code, text, _) = run(&map, &["places", "check"]);
    assert!(code == 1 && text.contains("has no name yet"), "{text}");
    let (code, text, error) = run(&map, &["places", "migrate"]);
    assert!(code == 0 && text.matches("migrations applied").count() == 2, "{text}{error}");
    assert_eq!(run(&map, &["places", "migrate"]).1.matches("up to date").count(), 2);
    assert_eq!(run(&map, &["places", "init"]).0, 0);
    assert_eq!(run(&map, &["places", "check"]).0, 0);

    // A change names its place.
    let (code, _, error) = run(&map, &["job", "insert", "email"]);
    assert!(
        code == 2 && error.contains("this command works in one place at a time\nhint: name it with --place"),
        "{error}"
    );
    for name in ["a", "b", "a"] {
        let (code, _, error) = run(&map, &["job", "insert", "email", "--place", name]);
        assert_eq!((code, error.as_str()), (0, ""));
    }
    let (code, _, error) = run(&map, &["job", "list", "--place", "c"]);
    assert!(code == 2 && error.contains("unknown place: \"c\"\nhint: the places are a, b"), "{error}");

    // An address beside the map would reach another database than that of the place.
    for option in [["--database-url", &b], ["--schema", "other"]] {
        for place in [&["--place", "a"][..], &[]] {
            let (code, _, error) = run(&map, &[&["job", "list"][..], &option, place].concat());
            let refused = "error: --places names the databases\nhint: leave out --database-url and --schema\n";
            assert_eq!((code, error.as_str()), (2, refused));
        }
    }

    // Lists are merged, in order.
    let (code, text, error) = run(&map, &["job", "list", "--json"]);
    assert_eq!((code, error.as_str()), (0, ""));
    let jobs: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(jobs.iter().map(|job| job["place"].as_str().unwrap()).collect::<Vec<_>>(), ["a", "b", "a"]);
    assert!(jobs.is_sorted_by(|one, next| one["id"].as_str() > next["id"].as_str()));
    let (_, text, _) = run(&map, &["job", "list"]);
    assert!(text.starts_with(" place | id ") && text.ends_with("(3 rows)\n"), "{text}");
    let (code, text, error) = run(&map, &["--color", "never", "job", "list"]);
    assert!(code == 0 && text.ends_with("(3 rows)\n"), "{text}{error}");
    // A page has the first jobs of all places, and the next one goes on behind its last.
    let (_, text, _) = run(&map, &["job", "list", "--limit", "2"]);
    let next = format!("--limit 2 --places {map} --after={}\n", jobs[1]["id"].as_str().unwrap());
    assert!(text.contains("\n(2 rows)\nnext: ") && text.ends_with(&next), "{text}");
    let (_, text, _) =
        run(&map, &["job", "list", "--json", "--limit", "1", "--after", jobs[1]["id"].as_str().unwrap()]);
    assert_eq!(text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect::<Vec<_>>(), jobs[2..]);
    let (_, text, _) = run(&map, &["queue", "list"]);
    assert!(text.contains(" a     | default") && text.contains(" b     | default"), "{text}");
    let (_, text, _) = run(&map, &["places", "status"]);
    assert!(text.contains(" all   |       0 |         3 |"), "{text}");
    let (_, text, _) = run(&map, &["places", "status", "--json"]);
    let available = |line: &str| serde_json::from_str::<Value>(line).unwrap()["jobs"]["available"]["exactly"].as_u64();
    assert_eq!(text.lines().filter_map(available).sum::<u64>(), 3, "{text}");
    let (code, text, _) = run(&map, &["doctor", "--json"]);
    let each: Vec<Value> = serde_json::Deserializer::from_str(&text).into_iter().map(Result::unwrap).collect();
    let named: Vec<_> = each.iter().map(|line| line["place"].as_str()).collect();
    assert_eq!((code, named), (0, vec![Some("a"), Some("b"), None]), "{text}");
    assert_eq!((&each[2]["worst"], &each[2]["findings"]), (&json!("ok"), &json!([])));
    // Findings that need a comparison of places.
    assert_eq!(run(&map, &["queue", "limit", "email", "3", "--place", "a"]).0, 0);
    let (code, text, _) = run(&map, &["doctor"]);
    let found = "all places\nwarning  place_settings  queue email\n  limit is 3 in a, and not set in b\n";
    assert!(code == 1 && text.contains(found), "{text}");
    assert_eq!(run(&map, &["doctor", "--fail-on", "critical"]).0, 0);

    // Counts are summed.
    let (code, text, error) = run(&map, &["stats", "--json"]);
    let stats: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &stats["jobs"]["available"]["exactly"], error.as_str()), (0, &json!(3), ""), "{text}");
    let (_, text, _) = run(&map, &["stats", "--since", "1h", "--json"]);
    let past: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(past["kinds"][0]["inserted"], 3, "{text}");

    for (arguments, problem) in [
        (["doctor", "--remedies"].as_slice(), "works in one place at a time"),
        (&["places", "status", "--place", "a"], "takes no --place"),
    ] {
        let (code, _, error) = run(&map, arguments);
        assert!(code == 2 && error.contains(problem), "{arguments:?}: {error}");
    }
    let (code, script, _) = run(&map, &["doctor", "--remedies", "--place", "a"]);
    assert!(code == 0 && script.lines().all(|line| !line.starts_with("place ")), "{script}");

    // An error names a place that does not answer. The jobs of the other places are listed.
    let gone = place("gone", "postgres://user@127.0.0.1:1/none");
    let hole = write("hole.json", json!({"places": [place("a", &a), place("b", &b), gone], "hashed": ["a", "b"]}));
    let (code, text, error) = run(&hole, &["job", "list"]);
    assert!(
        code == 1 && text.ends_with("(3 rows)\n") && error.contains("place gone: error: place gone is down"),
        "{error}"
    );
    let (code, text, error) = run(&hole, &["stats"]);
    assert!(
        code == 1 && text.contains(" available |    3\n") && error.contains("place gone: error: place gone is down"),
        "{text}{error}"
    );
    let (code, text, _) = run(&hole, &["doctor", "--json"]);
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert!(code == 1 && last["findings"].to_string().contains("place_down"), "{text}");
    // Another map is refused.
    let other = write("other.json", json!({"places": [place("a", &a), place("b", &b)], "hashed": ["b", "a"]}));
    let (code, text, _) = run(&other, &["places", "check"]);
    assert!(code == 1 && text.matches("is a schema that says it is place").count() == 2, "{text}");
    let (code, text, _) = run(&other, &["places", "init", "--json"]);
    assert!(code == 1 && text.lines().all(|line| line.contains("\"ok\":false")), "{text}");
    let (code, _, error) = run("{}", &["places", "check"]);
    assert!(code == 2 && error.contains("invalid map of places"), "{error}");
}

#[tokio::test]
async fn the_dashboard_serves_all_places() {
    let (map, _) = two_places().await;
    let map = map.as_str();
    assert_eq!(run(map, &["job", "insert", "email", "--place", "b"]).0, 0);
    let mut command = uniqueue();
    command.args(["serve", "--json", "--listen", "127.0.0.1:0", "--places", map]);
    let server = Foreground::start(&mut command);
    let address = server.object["url"].as_str().unwrap().split("://").nth(1).unwrap().trim_end_matches('/').to_owned();
    let get = |path: &str| {
        let mut stream = TcpStream::connect(&address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(get("/").contains("href=\"/place:b\""));
    assert!(get("/jobs").contains("href=\"/place:b/jobs/"));
    assert!(get("/metrics").contains("uniqueue_jobs{place=\"b\",queue=\"default\",state=\"available\"} 1"));
    drop(server);
    // Other doors serve one place.
    let (code, _, error) = run(map, &["serve", "--ojs", "127.0.0.1:0", "--listen", "127.0.0.1:0"]);
    assert!(code == 2 && error.contains("--ojs serves one place"), "{error}");
}

#[tokio::test]
async fn a_watch_checks_each_schema_once() {
    let (map, [a, b]) = two_places().await;
    let map = map.as_str();
    for place in ["a", "b"] {
        assert_eq!(run(map, &["job", "insert", "email", "--place", place]).0, 0);
    }
    let mut command = uniqueue();
    command.args(["stats", "--watch", "50ms", "--json", "--places", map]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut available = || {
        let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        line["jobs"]["available"]["exactly"].as_u64()
    };
    assert_eq!(available(), Some(2));
    // The next check of a schema fails.
    for url in [&a, &b] {
        execute(url, "ALTER TABLE uniqueue.schema_history RENAME TO hidden").await;
    }
    assert_ne!(run(map, &["stats"]).0, 0);
    execute(&b, "SELECT FROM uniqueue.insert_job('email')").await;
    // The lines until then were printed before.
    while available() != Some(3) {}
    // It ends when its output is closed.
    drop(lines);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
}

#[tokio::test]
async fn a_copy_of_a_place_is_refused_until_it_is_adopted() {
    let (map, [a, _]) = two_places().await;
    execute(&a, "UPDATE uniqueue.place SET database_id = 'of another cluster'").await;
    let (code, text, _) = run(&map, &["places", "check"]);
    assert!(code == 1 && text.contains("the schema of place a is a copy"), "{text}");
    let (code, text, error) = run(&map, &["places", "adopt", "a"]);
    assert_eq!((code, text.as_str(), error.as_str()), (0, "place a is in this database now\n", ""));
    assert_eq!(run(&map, &["places", "check"]).0, 0);
    let (code, _, error) = run(&map, &["places", "adopt", "c"]);
    assert!(code == 2 && error.contains("unknown place: \"c\""), "{error}");
}
