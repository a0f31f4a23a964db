//! The commands over several places.

use std::fs;

use serde_json::{Value, json};

use crate::support::{database, directory, uniqueue};

/// Runs a command with a map. Answers with its exit code and its output.
fn run(map: &str, arguments: &[&str]) -> (i32, String, String) {
    let output = uniqueue().args(arguments).args(["--places", map]).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
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
    assert!(code == 0 && text.contains(" a     | uniqueue | 3"), "{text}{error}");
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

    // Lists are merged, in order.
    let (code, text, error) = run(&map, &["job", "list", "--json"]);
    assert_eq!((code, error.as_str()), (0, ""));
    let jobs: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(jobs.iter().map(|job| job["place"].as_str().unwrap()).collect::<Vec<_>>(), ["a", "b", "a"]);
    assert!(jobs.is_sorted_by(|one, next| one["id"].as_str() > next["id"].as_str()));
    let (_, text, _) = run(&map, &["job", "list"]);
    assert!(text.starts_with(" place | id ") && text.ends_with("(3 rows)\n"), "{text}");
    let (_, text, _) = run(&map, &["queue", "list"]);
    assert!(text.contains(" a     | default") && text.contains(" b     | default"), "{text}");
    let (_, text, _) = run(&map, &["places", "status"]);
    assert!(text.contains(" all   |       0 |         3 |"), "{text}");
    let (code, text, _) = run(&map, &["doctor", "--json"]);
    let first: Value = serde_json::Deserializer::from_str(&text).into_iter().next().unwrap().unwrap();
    assert_eq!((code, first["place"].as_str()), (0, Some("a")), "{text}");

    // A place that does not answer is named, and the others are listed.
    let gone = place("gone", "postgres://nobody@127.0.0.1:1/none");
    let hole = write("hole.json", json!({"places": [place("a", &a), place("b", &b), gone], "hashed": ["a", "b"]}));
    let (code, text, error) = run(&hole, &["job", "list"]);
    assert!(
        code == 1 && text.ends_with("(3 rows)\n") && error.contains("place gone: error: cannot connect to"),
        "{error}"
    );
    // Another map is refused.
    let other = write("other.json", json!({"places": [place("a", &a), place("b", &b)], "hashed": ["b", "a"]}));
    let (code, text, _) = run(&other, &["places", "check"]);
    assert!(code == 1 && text.matches("is a schema that says it is place").count() == 2, "{text}");
    let (code, text, _) = run(&other, &["places", "init", "--json"]);
    assert!(code == 1 && text.lines().all(|line| line.contains("\"ok\":false")), "{text}");
    let (code, _, error) = run("{}", &["places", "check"]);
    assert!(code == 2 && error.contains("invalid map of places"), "{error}");
}
