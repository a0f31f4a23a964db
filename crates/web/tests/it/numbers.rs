//! Numbers and times of every size in every form: an answer, and never a panic.

use test_support::prelude::*;
use uniqueue_web::{Access, Web};

use crate::support::{request, send};

/// Numbers that a type does not hold, or that are beyond a calendar.
const NUMBERS: [&str; 20] = [
    "0",
    "-0",
    "-1",
    "1",
    "0.5",
    "32768",
    "2147483648",
    "4294967295",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "18446744073709551615",
    "18446744073709551616",
    "1e18",
    "1e308",
    "1e309",
    "-1e308",
    "NaN",
    "inf",
    "-inf",
];

/// Forms, and the place of a number in them.
const FORMS: [(&str, &str); 24] = [
    ("/jobs/{id}/change", "verb=reschedule&minutes={}"),
    ("/jobs/{id}/change", "verb=priority&priority={}"),
    ("/queues/change", "queue=a&verb=hold&hold_for={}&hold_for_unit=s"),
    ("/queues/change", "queue=a&verb=hold&hold_for={}&hold_for_unit=d"),
    ("/queues/change", "queue=a&verb=limit&limit={}"),
    ("/queues/change", "queue=a&verb=limit_groups&limit={}"),
    ("/queues/change", "queue=a&verb=max_waiting&limit={}"),
    ("/queues/change", "queue=a&verb=rate&count={}&period=1&period_unit=s"),
    ("/queues/change", "queue=a&verb=rate&count=1&period={}&period_unit=d"),
    ("/queues/change", "queue=a&verb=rate&count=1&period=1&burst={}"),
    ("/queues/change", "queue=a&verb=rate_groups&count=1&period={}&period_unit=h"),
    ("/queues/change", "queue=a&verb=keep&state=completed&days={}"),
    ("/groups/change", "queue=a&group=b&verb=hold&hold_for={}&hold_for_unit=d"),
    ("/insert", "verb=insert&kind=a&minutes={}"),
    ("/insert", "verb=explain&kind=a&minutes={}&policy={\"keys\":[\"type\"],\"window\":\"PT1H\"}"),
    ("/insert", "verb=insert&kind=a&priority={}"),
    ("/insert", "verb=insert&kind=a&max_attempts={}"),
    ("/insert", "verb=insert&kind=a&args={\"n\":{}}&policy={\"keys\":[\"args\"]}"),
    ("/insert", "verb=explain&kind=a&policy={\"keys\":[\"type\"],\"period\":{}}"),
    ("/insert", "verb=explain&kind=a&policy={\"keys\":[\"type\"],\"ttl\":\"PT{}S\"}"),
    ("/insert", "verb=explain&kind=a&policy={\"keys\":[\"type\"],\"window\":\"P{}D\"}"),
    ("/bulk", "verb=retry&whole=yes&attempts={}"),
    ("/bulk", "verb=retry&whole=yes&args={\"n\":{}}"),
    ("/periodic/change", "verb=run&name={}"),
];

/// Queries with numbers.
const QUERIES: [&str; 8] = [
    "/jobs?attempts={}",
    "/jobs?since=all&args={\"n\":{}}",
    "/jobs?after=ffffffff-ffff-7fff-bfff-ffffffffffff&since=all&order=oldest&attempts={}",
    "/jobs?after=00000000-0000-0000-0000-000000000000&args={\"n\":{}}",
    "/explain?kind=a&what=insert&args={\"n\":{}}&policy={\"keys\":[\"args\"],\"ttl\":\"P{}Y\"}",
    "/explain?kind=a&what=lab&policy={\"keys\":[\"args\"],\"period\":\"P{}M\"}&since=all",
    "/groups?after_queue=a&after={}",
    "/changes?after={}",
];

/// Text as it stands in a form or a query.
fn coded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._&=?/".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[test_support::test]
async fn no_number_of_a_form_or_a_query_is_a_panic(database: Database, client: &Client) {
    client.define_periodic(PeriodicJob::cron("1", "0 9 * * *", NewJob::new("a", &json!({})))).await.unwrap();
    let router = Web::new(client.clone()).access(|_| Access::all().user("ada")).router();
    for number in NUMBERS {
        for (path, form) in FORMS {
            let id = client.insert(NewJob::new("a", &json!({})).pending()).await.unwrap().id();
            let (path, form) = (path.replace("{id}", &id.to_string()), coded(&form.replace("{}", number)));
            let answer = send(&router, request("POST", &path, &form)).await;
            assert!(!answer.status.is_server_error(), "{path} {form}: {} {}", answer.status, answer.body);
        }
        for query in QUERIES {
            let path = coded(&query.replace("{}", number));
            let answer = send(&router, request("GET", &path, "")).await;
            assert!(!answer.status.is_server_error(), "{path}: {} {}", answer.status, answer.body);
        }
    }
}

/// The database takes times of 4713 BC to the year 294276, and `infinity`.
#[test_support::test]
async fn no_time_of_a_row_is_a_panic(database: Database) {
    let router = Web::new(database.client.clone()).access(|_| Access::all()).router();
    for time in ["infinity", "-infinity", "294276-12-31", "4713-01-01 BC", "9999-12-31 23:59:59.999999", "10000-01-01"]
    {
        // A job that began has a time that can be subtracted.
        let ended = if time.contains("infinity") { "now()".to_owned() } else { format!("timestamptz '{time}'") };
        let rows = format!(
            "INSERT INTO {{schema}}.job (id, kind, queue, state, scheduled_at, created_at, finalized_at, attempted_at, attempt, run, worker, group_key)
            SELECT gen_random_uuid(), 'a', 'q', s::{{schema}}.job_state, '{time}', '{time}',
                CASE WHEN s = 'completed' THEN {ended} END, CASE WHEN s IN ('running', 'completed') THEN {ended} END, 1, 1,
                CASE WHEN s IN ('running', 'completed') THEN gen_random_uuid() END, 'g'
            FROM unnest(ARRAY['available', 'scheduled', 'retryable', 'pending', 'running', 'completed']) AS s
            RETURNING id::text"
        );
        let ids: Vec<String> = sqlx::query_scalar(database.sql(&rows)).fetch_all(database.pool()).await.expect(time);
        let paths =
            ["/", "/jobs?since=all", "/running", "/groups", "/queues", "/failing", "/queue?queue=q", "/metrics"];
        let paths = paths.into_iter().map(ToOwned::to_owned).chain(ids.iter().map(|id| format!("/jobs/{id}")));
        for path in
            paths.chain(["/explain?kind=a&what=lab&since=all&policy=%7B%22keys%22%3A%5B%22type%22%5D%7D".to_owned()])
        {
            let answer = send(&router, request("GET", &path, "")).await;
            assert!(answer.status.is_success(), "{time}: {path}: {} {}", answer.status, answer.body);
        }
    }
}
