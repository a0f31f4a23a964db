//! Text that a job brings along, on every page that shows it.

use axum::http::StatusCode;
use test_support::prelude::*;
use uniqueue_web::Web;

use crate::support::{coded, get, request, send};

/// Text that would run as a script, leave its attribute, or turn the text around it.
const HOSTILE: &str = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>\u{202e}gpj\u{1b}[31m";

/// Inserts a job whose kind, queue, key, group, args and meta are hostile.
async fn insert(database: &Database) -> JobId {
    let job = NewJob::new(HOSTILE.replace('\u{1b}', ""), &json!({ HOSTILE: HOSTILE }))
        .queue(HOSTILE.replace('\u{1b}', ""))
        .meta(HOSTILE, HOSTILE)
        .max_attempts(1)
        .group(HOSTILE)
        .group_limit(3)
        .unique_key(UniqueKey::raw(HOSTILE));
    database.client.insert(job).await.unwrap().id()
}

/// Gives a running and a failed job hostile errors, output and progress, and hostile runners.
async fn work(database: &Database, running: JobId, failed: JobId) {
    let hostile = HOSTILE.replace('\u{1b}', "");
    let runner = "INSERT INTO {schema}.runner (id, name, leased_until, queues, knows_groups)
        VALUES ($1, $2::text, now() + interval '1 hour', ARRAY[$2::text], true)";
    let job = "UPDATE {schema}.job SET
            state = CASE WHEN id = $1 THEN 'running' ELSE 'discarded' END::{schema}.job_state, attempt = 1, worker = $3,
            attempted_at = now(), finalized_at = CASE WHEN id = $2 THEN now() END, output = to_jsonb($4::text),
            progress = jsonb_build_object($4::text, $4::text),
            errors = jsonb_build_array(jsonb_build_object('attempt', 1, 'at', now(), 'error', $4::text))
        WHERE id IN ($1, $2)";
    let sql = |text: &str| database.sql(text);
    let worker = JobId::generate().as_uuid();
    sqlx::query(sql(runner)).bind(worker).bind(&hostile).execute(database.pool()).await.unwrap();
    let update = sqlx::query(sql(job)).bind(running.as_uuid()).bind(failed.as_uuid()).bind(worker).bind(HOSTILE);
    assert_eq!(update.execute(database.pool()).await.unwrap().rows_affected(), 2);
    let job = NewJob::new(hostile.clone(), &json!({})).queue(hostile.clone());
    database.client.define_periodic(PeriodicJob::cron(hostile.clone(), "0 3 * * *", job)).await.unwrap();
    let register =
        "SELECT {schema}.register_kind($1, $1, unique_policy => jsonb_build_object('key', $1), registered_by => $1)";
    sqlx::query(sql(register)).bind(&hostile).execute(database.pool()).await.unwrap();
}

#[test_support::test]
async fn hostile_text_is_text_on_every_page(database: Database) {
    let id = insert(&database).await;
    Admin::new(&database.client).audit_duplicates(&HOSTILE.replace('\u{1b}', ""), None).await.unwrap();
    insert(&database).await;
    let queue = HOSTILE.replace('\u{1b}', "");
    database.client.queue(&queue).hold_group(HOSTILE, std::time::Duration::from_secs(3_600)).await.unwrap();
    let other = || NewJob::new(queue.clone(), &json!({})).queue(queue.clone());
    let failed = database.client.insert(other()).await.unwrap().id();
    let running = database.client.insert(other()).await.unwrap().id();
    work(&database, running, failed).await;
    let router = Web::new(database.client.clone()).access(|_| uniqueue_web::Access::all().user(HOSTILE)).router();
    let post = async |path: &str, body: &str| send(&router, request("POST", path, body)).await;
    let kind = coded(&queue);
    let plan = post("/bulk", &format!("verb=retry&whole=yes&kind={kind}")).await.header("location").to_owned();
    let third = database.client.insert(other()).await.unwrap().id();
    let ran = post("/bulk", &format!("verb=cancel&id={third}")).await.header("location").to_owned();
    assert_eq!(post(&format!("{ran}/run"), "").await.status, StatusCode::SEE_OTHER);
    let form = format!("queue={kind}&verb=pause");
    assert_eq!(post("/queues/change", &form).await.status, StatusCode::SEE_OTHER);
    let coded = coded(HOSTILE);
    for path in [
        "/".to_owned(),
        "/jobs?since=all".to_owned(),
        format!("/jobs?since=all&args=%7B%22a%22%3A%22{coded}%22%7D"),
        format!("/jobs?kind={coded}&queue={coded}&key={coded}&state=available"),
        format!("/jobs?args={coded}"),
        format!("/jobs?state={coded}"),
        format!("/jobs/{id}"),
        format!("/jobs/{id}?did={coded}"),
        format!("/jobs/{failed}"),
        format!("/jobs/{running}"),
        plan,
        ran,
        "/changes".to_owned(),
        format!("/changes?actor={coded}"),
        "/runners".to_owned(),
        "/periodic".to_owned(),
        "/kinds".to_owned(),
        format!("/kind?kind={}", coded.replace("%1B", "")),
        format!("/key?key={coded}"),
        format!("/keys?prefix={coded}"),
        "/keys".to_owned(),
        "/groups".to_owned(),
        format!("/groups?queue={}", coded.replace("%1B", "")),
        format!("/groups?queue={coded}"),
        format!("/jobs?since=all&group={coded}"),
        format!("/group?queue={}&group={coded}", coded.replace("%1B", "")),
        format!("/group?queue={coded}&group={coded}"),
        "/queues".to_owned(),
        format!("/queue?queue={}", coded.replace("%1B", "")),
        "/duplicates".to_owned(),
        format!("/explain?kind={coded}&args={coded}&policy={coded}&what=lab"),
        format!("/insert?kind={coded}&args={coded}&policy={coded}"),
        "/waiting".to_owned(),
        "/running".to_owned(),
        "/failing".to_owned(),
        "/doctor".to_owned(),
    ] {
        let page = get(&router, &path).await;
        assert!(!page.body.contains("<script>alert"), "{path}: {}", page.body);
        assert!(!page.body.contains("<img src=x"), "{path}");
        assert!(page.body.len() < 100_000, "{path}: {} bytes", page.body.len());
        // Fields of a form keep what was typed. Nowhere else is the text turned around.
        let outside: String = without_values(&page.body);
        assert!(!outside.contains('\u{202e}'), "{path}: {outside}");
    }
    // Those that must show some of it do.
    let job = format!("/jobs/{running}");
    for path in [
        &format!("/jobs/{id}"),
        &job,
        "/runners",
        "/periodic",
        "/kinds",
        "/running",
        "/failing",
        "/changes",
        "/waiting",
    ] {
        let page = get(&router, path).await;
        assert_eq!(page.body.contains("U+202E</span>"), path != "/waiting", "{path}: {}", page.body);
    }
    let page = get(&router, &job).await.body;
    assert!(page.matches("&lt;script&gt;alert(1)").count() >= 5, "args of its own, progress, output, errors: {page}");
}

/// A page without the values of its fields and the targets of its links, which are no text on the page.
fn without_values(html: &str) -> String {
    let mut out = String::new();
    let mut rest = html;
    while let Some(at) = ["value=\"", "<textarea", "href=\""].iter().filter_map(|start| rest.find(start)).min() {
        out.push_str(&rest[..at]);
        let (skip, end) = if rest[at..].starts_with("<textarea") { (0, "</textarea>") } else { (7, "\"") };
        let after = &rest[(at + skip).min(rest.len())..];
        rest = after.find(end).map_or("", |end_at| &after[end_at + end.len()..]);
    }
    out + rest
}

#[test_support::test]
async fn a_nul_is_a_mistake_of_the_request(database: Database) {
    let router = uniqueue_web::router(database.client.clone());
    for path in [
        "/jobs?kind=%00",
        "/jobs?queue=a%00b",
        "/jobs?key=%00",
        "/jobs?group=%00",
        "/jobs?args=%7B%22a%22%3A%22%5Cu0000%22%7D",
        "/key?key=%00",
        "/keys?prefix=%00",
        "/groups?queue=%00",
        "/group?queue=a&group=%00",
        "/groups?after_queue=a&after=%00",
    ] {
        let page = get(&router, path).await;
        assert_eq!(page.status, StatusCode::BAD_REQUEST, "{path}: {}", page.body);
        assert!(page.body.contains("This cannot be done"), "{path}: {}", page.body);
    }
}
