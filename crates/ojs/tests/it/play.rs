//! Plays the steps of one test of the suites.

use serde_json::Map;
use test_support::prelude::*;

use crate::fixture::{Answer, Door};
use crate::matcher::{check_body, is_same, matches};
use crate::path::{Found, find};

/// The most requests at once. Without a limit the tests that begin at once would take each other's time, and the delays of the
/// suites would pass meanwhile.
static REQUESTS: Semaphore = Semaphore::const_new(6);

/// The members of a step that are followed. Another one fails the test.
const KNOWN: [&str; 14] = [
    "id",
    "action",
    "intent",
    "description",
    "path",
    "headers",
    "body",
    "raw_body",
    "assertions",
    "delay_ms",
    "duration_ms",
    "parallel_with",
    "captures",
    "name",
];

/// Plays a test. Returns what is wrong.
pub(crate) async fn play(door: &Door, test: &Value) -> Vec<String> {
    let mut answers: HashMap<String, Answer> = HashMap::new();
    let steps: Vec<_> = test["steps"].as_array().unwrap().iter().collect();
    let mut place = 0;
    while place < steps.len() {
        let mut together = vec![steps[place]];
        if let Some(with) = steps[place].get("parallel_with") {
            together.extend(steps[place + 1..].iter().copied().filter(|step| &step["id"] == with));
            assert_eq!(together.len(), 2, "{with}");
        }
        place += together.len();
        let playing = together.iter().map(|step| take(door, step, &answers));
        let mut taken = Vec::new();
        for answer in join_all(playing.collect()).await {
            taken.push(answer);
        }
        for (step, answer) in together.into_iter().zip(taken) {
            let id = step["id"].as_str().unwrap();
            let problems = match answer {
                Some(answer) => {
                    answers.insert(id.to_owned(), answer.clone());
                    check(&answer, &step["assertions"], &answers)
                }
                None => check_all(&step["assertions"], &answers),
            };
            if !problems.is_empty() {
                let answer = answers.get(id).map(|answer| (answer.status, answer.body.clone()));
                return problems.into_iter().map(|problem| format!("{id}: {problem}; answer: {answer:?}")).collect();
            }
        }
    }
    Vec::new()
}

async fn join_all<F: Future>(all: Vec<F>) -> Vec<F::Output> {
    let mut all: Vec<_> = all.into_iter().map(Box::pin).collect();
    match all.len() {
        1 => vec![all.remove(0).await],
        2 => {
            let (second, first) = (all.pop().unwrap(), all.pop().unwrap());
            let (first, second) = tokio::join!(first, second);
            vec![first, second]
        }
        others => panic!("{others} steps at once"),
    }
}

/// The delays of cron entries, which run once a minute. The schedules and the jobs of the test get older by most of a delay at
/// once. The remaining time is longer than the pause between two rounds of the service of periodic jobs.
const LONG: Duration = Duration::from_secs(60);
const REST: Duration = Duration::from_secs(15);

/// Waits as long as a step declares.
async fn wait(door: &Door, delay: Duration) {
    let is_real = std::env::var("UNIQUEUE_OJS_DELAYS").is_ok_and(|delays| delays == "real");
    if delay < LONG || is_real {
        return tokio::time::sleep(delay).await;
    }
    door.database.pass(delay - REST).await;
    let seconds = (delay - REST).as_secs_f64();
    let moved = ["created_at", "placed_at", "starts_at", "next_at", "last_at"];
    let moved = moved.map(|column| format!("{column} = {column} - interval '{seconds} s'")).join(", ");
    door.database.execute(&format!("UPDATE {{schema}}.periodic SET {moved}")).await;
    tokio::time::sleep(REST).await;
}

/// Takes a step. `None`: it sends nothing.
async fn take(door: &Door, step: &Value, answers: &HashMap<String, Answer>) -> Option<Answer> {
    let members = step.as_object().unwrap();
    assert!(
        members.keys().all(|name| KNOWN.contains(&name.as_str())),
        "a step has a member that is not followed: {step}"
    );
    for name in ["delay_ms", "duration_ms"] {
        if let Some(delay) = step.get(name) {
            wait(door, Duration::from_millis(delay.as_u64().unwrap())).await;
        }
    }
    let action = step["action"].as_str().unwrap();
    if action == "WAIT" {
        assert!(step.get("duration_ms").is_some() && step.get("assertions").is_none_or(|none| none == &json!({})));
        return None;
    }
    if action == "ASSERT" {
        return None;
    }
    assert!(["GET", "POST", "PUT", "DELETE"].contains(&action), "unknown action: {action}");
    let headers = step.get("headers").and_then(Value::as_object).cloned().unwrap_or_default();
    let headers: Vec<_> = headers.into_iter().map(|(name, value)| (name, value.as_str().unwrap().to_owned())).collect();
    let path = filled(&step["path"], answers);
    let body = match (step.get("raw_body"), step.get("body")) {
        (Some(raw), _) => raw.as_str().unwrap().as_bytes().to_vec(),
        (None, Some(body)) => filled(body, answers).to_string().into_bytes(),
        (None, None) => Vec::new(),
    };
    let _permit = REQUESTS.acquire().await.unwrap();
    Some(door.send(action, path.as_str().unwrap(), &headers, body).await)
}

/// Returns each assertion of a step that its response does not meet.
fn check(answer: &Answer, expected: &Value, answers: &HashMap<String, Answer>) -> Vec<String> {
    let expected = expected.as_object().cloned().unwrap_or_default();
    let mut problems = Vec::new();
    for (name, wanted) in filled(&Value::Object(expected), answers).as_object().unwrap() {
        match name.as_str() {
            "status" => {
                if !matches(Some(&answer.status.into()), wanted) {
                    problems.push(format!("expected status {wanted}"));
                }
            }
            "headers" => {
                for (header, wanted) in wanted.as_object().unwrap() {
                    let value = answer.headers.get(header).map(|value| json!(value.to_str().unwrap()));
                    if !matches(value.as_ref(), wanted) {
                        problems.push(format!("header {header}: expected {wanted}, found {value:?}"));
                    }
                }
            }
            "body" => problems.extend(check_body(answer.body.as_ref(), answer.is_empty, wanted)),
            other => panic!("unknown assertion: {other}"),
        }
    }
    problems
}

/// Returns each assertion over several steps that their responses do not meet.
fn check_all(expected: &Value, answers: &HashMap<String, Answer>) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, wanted) in expected.as_object().into_iter().flatten() {
        match name.as_str() {
            "exclusive_claim" => {
                let wanted = filled(wanted, answers);
                let members: Vec<_> = wanted.as_object().unwrap().keys().map(String::as_str).collect();
                assert_eq!(members, ["exactly_one_empty", "exactly_one_has_job", "fetches", "job_id"]);
                assert!(wanted["exactly_one_has_job"] == true && wanted["exactly_one_empty"] == true);
                let fetches = wanted["fetches"].as_array().unwrap();
                let has_job = |jobs: &&Value| jobs.as_array().unwrap().iter().any(|job| job["id"] == wanted["job_id"]);
                let is_empty = |jobs: &&Value| jobs.as_array().unwrap().is_empty();
                let counts = (fetches.iter().filter(has_job).count(), fetches.iter().filter(is_empty).count());
                if counts != (1, 1) || fetches.len() != 2 {
                    problems.push(format!("not one fetch with the job and one without: {fetches:?}"));
                }
            }
            "equality" => {
                let root = root(answers);
                for (path, other) in wanted.as_object().unwrap() {
                    let Found::One(Some(one)) = find(&root, path) else { panic!("nothing at {path}") };
                    let other = filled(other, answers);
                    if !is_same(one, &other) {
                        problems.push(format!("{path} differs: {one} and {other}"));
                    }
                }
            }
            other => panic!("unknown assertion: {other}"),
        }
    }
    problems
}

/// The answers as the paths of the suites name them.
fn root(answers: &HashMap<String, Answer>) -> Value {
    let step = |answer: &Answer| json!({ "response": { "status": answer.status, "body": answer.body } });
    let steps: Map<_, _> = answers.iter().map(|(id, answer)| (id.clone(), step(answer))).collect();
    json!({ "steps": steps })
}

/// A value with what earlier answers had in place of `{{steps.ID.response.body.PATH}}`, in names as well.
fn filled(value: &Value, answers: &HashMap<String, Answer>) -> Value {
    match value {
        Value::String(text) => fill(text, answers),
        Value::Array(items) => items.iter().map(|item| filled(item, answers)).collect(),
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| (plain(&fill(name, answers)), filled(value, answers)))
            .collect::<Map<_, _>>()
            .into(),
        other => other.clone(),
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn fill(text: &str, answers: &HashMap<String, Answer>) -> Value {
    let Some((before, rest)) = text.split_once("{{") else { return json!(text) };
    let (path, after) = rest.split_once("}}").unwrap();
    let root = root(answers);
    let Found::One(Some(found)) = find(&root, &format!("$.{path}")) else { panic!("nothing at {path} in {root}") };
    if before.is_empty() && after.is_empty() {
        return found.clone();
    }
    json!(format!("{before}{}{}", plain(found), plain(&fill(after, answers))))
}
