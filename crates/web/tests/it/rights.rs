//! Every route against every kind of request.

use axum::Router;
use axum::http::{HeaderValue, StatusCode, header};
use test_support::prelude::*;
use uniqueue_web::{Access, Needs, Web};

use crate::support::{get, request, send};

/// A request of each route: method, path as in the table, path and body of the request.
const REQUESTS: &[(&str, &str, &str, &str)] = &[
    ("GET", "/", "/", ""),
    ("GET", "/jobs", "/jobs?state=available", ""),
    ("GET", "/jobs/export", "/jobs/export?format=csv", ""),
    ("GET", "/search", "/search?q=a", ""),
    ("GET", "/suggest", "/suggest?q=a", ""),
    ("GET", "/jobs/{id}", "/jobs/00000000-0000-0000-0000-000000000000", ""),
    ("POST", "/jobs/{id}/change", "/jobs/00000000-0000-0000-0000-000000000000/change", "verb=retry"),
    ("POST", "/jobs/{id}/delete", "/jobs/00000000-0000-0000-0000-000000000000/delete", ""),
    ("POST", "/bulk", "/bulk", "verb=retry&whole=yes"),
    ("GET", "/bulk/{id}", "/bulk/00000000-0000-0000-0000-000000000000", ""),
    ("POST", "/bulk/{id}/run", "/bulk/00000000-0000-0000-0000-000000000000/run", ""),
    ("POST", "/bulk/{id}/stop", "/bulk/00000000-0000-0000-0000-000000000000/stop", ""),
    ("GET", "/keys", "/keys", ""),
    ("GET", "/key", "/key?key=a", ""),
    ("POST", "/key/release", "/key/release", "key=a"),
    ("GET", "/groups", "/groups?queue=a", ""),
    ("GET", "/group", "/group?queue=a&group=b", ""),
    ("POST", "/groups/change", "/groups/change", "queue=a&group=b&verb=hold&hold_for=1"),
    ("GET", "/queues", "/queues", ""),
    ("GET", "/queue", "/queue?queue=a", ""),
    ("POST", "/queues/change", "/queues/change", "queue=a&verb=pause"),
    ("GET", "/explain", "/explain?kind=a&what=insert", ""),
    ("GET", "/waiting", "/waiting", ""),
    ("GET", "/duplicates", "/duplicates", ""),
    ("POST", "/duplicates/audit", "/duplicates/audit", "kind=a&verb=start"),
    ("GET", "/history", "/history", ""),
    ("GET", "/kinds", "/kinds", ""),
    ("GET", "/kind", "/kind?kind=a", ""),
    ("GET", "/failing", "/failing", ""),
    ("GET", "/running", "/running", ""),
    ("GET", "/runners", "/runners", ""),
    ("GET", "/changes", "/changes", ""),
    ("GET", "/periodic", "/periodic", ""),
    ("POST", "/periodic/change", "/periodic/change", "name=a&verb=pause"),
    ("GET", "/doctor", "/doctor", ""),
    ("GET", "/insert", "/insert", ""),
    ("POST", "/insert", "/insert", "kind=a&args={}&verb=explain"),
    ("POST", "/settings", "/settings", "theme=dark&back=/"),
    ("GET", "/metrics", "/metrics", ""),
    ("GET", "/health/live", "/health/live", ""),
    ("GET", "/health/ready", "/health/ready", ""),
    ("GET", "/assets/{version}/{name}", "/assets/0/app.css", ""),
];

/// Dashboards of three kinds of visitors.
fn dashboards(database: &Database) -> [Router; 3] {
    [Access::none(), Access::read(), Access::all().user("ada")]
        .map(|access| Web::new(database.client.clone()).access(move |_| access.clone()).router())
}

#[test_support::test]
async fn every_route_checks_rights_host_and_origin(database: Database) {
    let [none, read, all] = dashboards(&database);
    let read_only = Web::new(database.client.clone()).access(|_| Access::all()).read_only().router();
    for route in Web::routes() {
        let row = REQUESTS.iter().find(|(method, path, ..)| *method == route.method && *path == route.path);
        let Some((method, _, path, body)) = row else {
            panic!("{} {} has no row in this test", route.method, route.path);
        };
        let status = async |router: &Router| send(router, request(method, path, body)).await.status;
        let told = format!("{method} {path}");
        let is_refused = StatusCode::FORBIDDEN;
        match route.needs {
            Needs::Nothing => {
                assert_ne!(status(&none).await, is_refused, "{told}");
            }
            Needs::Read => {
                assert_eq!(status(&none).await, is_refused, "{told}");
                assert_ne!(status(&read).await, is_refused, "{told}");
                assert_ne!(status(&read_only).await, is_refused, "{told}");
            }
            Needs::Right(_) => {
                assert_eq!(status(&none).await, is_refused, "{told}");
                assert_eq!(status(&read).await, is_refused, "{told}");
                assert_eq!(status(&read_only).await, is_refused, "{told}");
                assert_ne!(status(&all).await, is_refused, "{told}");
                assert_eq!(*method, "POST", "{told}: a right is needed for changes only");
            }
            _ => panic!("{told}: an unknown need"),
        }

        let mut elsewhere = request(method, path, body);
        elsewhere.headers_mut().insert(header::HOST, HeaderValue::from_static("evil.example"));
        assert_eq!(send(&all, elsewhere).await.status, StatusCode::MISDIRECTED_REQUEST, "{told}");

        let mut foreign = request(method, path, body);
        foreign.headers_mut().insert("sec-fetch-site", HeaderValue::from_static("cross-site"));
        let foreign = send(&all, foreign).await.status;
        assert_eq!(foreign == is_refused, *method == "POST", "{told} from another site: {foreign}");
        // A browser without Sec-Fetch-Site.
        let mut old = request(method, path, body);
        old.headers_mut().remove("sec-fetch-site");
        old.headers_mut().insert(header::ORIGIN, HeaderValue::from_static("https://evil.example"));
        let old = send(&all, old).await.status;
        assert_eq!(old == is_refused, *method == "POST", "{told} from another origin: {old}");
    }
    assert_eq!(REQUESTS.len(), Web::routes().len(), "a row without a route");
}

#[test_support::test]
async fn every_answer_has_the_security_headers(database: Database) {
    let [none, _, all] = dashboards(&database);
    for (router, path) in [(&all, "/"), (&none, "/"), (&all, "/no/such/page")] {
        let answer = get(router, path).await;
        assert!(answer.header("content-security-policy").starts_with("default-src 'none'; script-src 'self'"));
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert_eq!(answer.header("cache-control"), "no-store");
    }
}

#[test_support::test]
async fn an_unknown_visitor_reads_and_changes_nothing(database: Database) {
    let router = uniqueue_web::router(database.client.clone());
    assert_eq!(get(&router, "/").await.status, StatusCode::OK);
    for route in Web::routes().iter().filter(|route| matches!(route.needs, Needs::Right(_))) {
        let status = send(&router, request(route.method, route.path, "")).await.status;
        assert_eq!(status, StatusCode::FORBIDDEN, "{}", route.path);
    }
}

#[test_support::test]
async fn links_follow_the_mount_point_and_lead_nowhere_else(database: Database) {
    let nested = Router::new().nest("/a/queue", uniqueue_web::router(database.client.clone()));
    let page = get(&nested, "/a/queue").await;
    assert!(page.body.contains("action=\"/a/queue/settings\""), "{}", page.body);
    // A nested router does not answer to /a/queue/.
    let overview = page.body.split("class=\"brand\" href=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    assert_eq!(get(&nested, overview).await.status, StatusCode::OK, "{overview}");

    // Double slashes and backslashes would make another host of the prefix.
    let captured = Router::new().nest("/{tenant}/queue", uniqueue_web::router(database.client.clone()));
    let page = get(&captured, "/a/queue").await;
    let style = page.body.split('"').find(|part| part.ends_with("/app.css")).unwrap();
    assert_eq!(get(&captured, style).await.status, StatusCode::OK);
    for path in ["//evil.example/queue", "/%5Cevil.example/queue", "//queue"] {
        let page = get(&captured, path).await;
        assert!(!page.body.contains("href=\"//"), "{path}: {}", page.body);
        assert!(!page.body.contains("href=\"/\\"), "{path}: {}", page.body);
    }

    let router = uniqueue_web::router(database.client.clone());
    for back in
        ["//evil.example", "https://evil.example", "/\\evil.example", "%2F%2Fevil.example", "/%09/evil.example", ""]
    {
        let answer = send(&router, request("POST", "/settings", &format!("theme=dark&back={back}"))).await;
        assert_eq!(answer.header("location"), "/", "{back}");
        assert_eq!(answer.status, StatusCode::SEE_OTHER);
    }
    let answer = send(&router, request("POST", "/settings", "theme=dark%0d%0aSet-Cookie:x&back=/?a=1")).await;
    assert_eq!(answer.header("location"), "/?a=1");
    assert_eq!(answer.header("set-cookie"), "", "an unknown theme must not reach a header");
}
