//! Lists over several places.

use axum::http::StatusCode;
use test_support::prelude::*;

use super::{at, dashboard, insert, places};
use crate::support::{after, get, pages};

/// The path of a place.
const PATHS: [(&str, &str); 2] = [("a", "/place:a"), ("b/ä", "/place:b%2F%C3%A4")];

/// Goes through all pages of a list. Returns the links of its rows, each without what comes before the name of its place.
async fn rows(router: &axum::Router, path: &str, before: &str) -> Vec<String> {
    let pages = pages(router, path).await;
    assert!(pages.iter().all(|page| page.contains("<b>Place gone</b>")), "{pages:?}");
    after(&pages.concat(), before)
}

#[tokio::test]
async fn a_page_of_keys_or_groups_may_end_between_the_places_of_one_name() {
    let places = places().await;
    // A name that one place alone has makes the pages end within a pair.
    for (number, (name, _)) in PATHS.iter().enumerate() {
        let of = |n: usize| {
            let name = format!("k{n:02}");
            NewJob::new("task", &json!({})).unique_key(UniqueKey::raw(name.as_str())).group(name)
        };
        at(&places, name).insert_many((number..60).map(of)).await.unwrap();
    }
    let router = dashboard(&places);
    let mut expected = vec![("k00".to_owned(), PATHS[0].1)];
    for n in 1..60 {
        expected.extend(PATHS.map(|(_, path)| (format!("k{n:02}"), path)));
    }
    let keys: Vec<_> = expected.iter().map(|(name, path)| format!("{path}/key?key={name}")).collect();
    for path in ["/keys", "/keys?prefix=k"] {
        assert_eq!(rows(&router, path, "<a class=\"mono key\" href=\"").await, keys, "{path}");
    }
    let groups: Vec<_> =
        expected.iter().map(|(name, path)| format!("{path}/group?queue=default&amp;group={name}")).collect();
    assert_eq!(rows(&router, "/groups?order=name", "<a class=\"row-link\" href=\"").await, groups);
    let page = get(&router, "/groups").await.body;
    assert!(page.contains("href=\"/groups?order=name\">All groups by name</a>"), "{page}");
}

#[tokio::test]
async fn groups_that_are_held_up_in_any_place_come_first() {
    let places = places().await;
    let grouped = |group: &str| NewJob::new("task", &json!({})).queue("mail").group(group);
    at(&places, "a").insert(grouped("free")).await.unwrap();
    at(&places, "b/ä").insert(grouped("held")).await.unwrap();
    at(&places, "b/ä").queue("mail").hold_group("held", std::time::Duration::from_secs(600)).await.unwrap();
    let page = get(&dashboard(&places), "/groups").await.body;
    assert!(page.contains("<th>Place</th>") && page.contains("Held by a worker or by hand in b/ä"), "{page}");
    let rows: Vec<_> = page.split("<tr id=\"group-").skip(1).collect();
    assert!(rows.len() == 2 && rows[0].contains("is held until") && rows[1].contains("group=free"), "{page}");
}

#[tokio::test]
async fn kinds_failing_kinds_and_periodic_jobs_of_all_places_are_one_list() {
    let places = places().await;
    for (name, failed) in [("a", 1), ("b/ä", 2)] {
        let client = at(&places, name);
        let nightly = PeriodicJob::cron("nightly", "0 3 * * *", NewJob::new("sweep", &json!({})));
        client.define_periodic(nightly).await.unwrap();
        for _ in 0..failed {
            insert(&client, "mail").await;
        }
        let schema = client.schema();
        let sql = format!(
            "SELECT FROM {schema}.register_kind('mail.send', 'mails');
             UPDATE {schema}.job SET state = 'discarded', finalized_at = now(), errors = jsonb_build_array(
                 jsonb_build_object('attempt', 1, 'at', now(), 'error', 'refused', 'code', 'no'))"
        );
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(client.pool()).await.unwrap();
    }
    let router = dashboard(&places);
    for (path, links) in [
        ("/kinds", PATHS.map(|(_, path)| format!("href=\"{path}/kind?kind=mail.send\""))),
        // The place with more failures comes first.
        ("/failing", [PATHS[1], PATHS[0]].map(|(_, path)| format!("href=\"{path}/kind?kind=task\""))),
        ("/periodic", PATHS.map(|(_, path)| format!("action=\"{path}/periodic/change\""))),
    ] {
        let page = get(&router, path).await;
        assert_eq!(page.status, StatusCode::OK, "{path}");
        let body = page.body;
        assert!(body.contains("<b>Place gone</b>"), "{path}: {body}");
        assert!(body.contains("<th>Place</th>"), "{path}: {body}");
        let found =
            links.each_ref().map(|link| body.find(link.as_str()).unwrap_or_else(|| panic!("{path} {link}: {body}")));
        assert!(found[0] < found[1], "{path}: {body}");
    }
    let failing = get(&router, "/failing").await.body;
    assert_eq!(failing.matches("code=no").count(), 2, "{failing}");
    let waiting = get(&router, "/waiting").await.body;
    assert!(waiting.contains("No insert waits") && waiting.contains("<b>Place gone</b>"), "{waiting}");
}

#[tokio::test]
async fn a_page_that_each_place_has_for_itself_leads_to_all_of_them() {
    let places = places().await;
    let router = dashboard(&places);
    for (path, title) in [
        ("/kind?kind=mail&amp;range=1h", "Kind mail"),
        ("/key?key=k%201", "Key k 1"),
        ("/insert", "Insert"),
        ("/explain", "Explain"),
        ("/changes", "Changes"),
        ("/duplicates", "Duplicates"),
    ] {
        let page = get(&router, &path.replace("&amp;", "&")).await;
        assert_eq!(page.status, StatusCode::OK, "{path}");
        assert!(page.body.contains(&format!("<h1>{title}</h1>")), "{path}: {}", page.body);
        for (_, place) in PATHS {
            assert!(page.body.contains(&format!("href=\"{place}{path}\"")), "{path}: {}", page.body);
        }
    }
    // The navigation has the same entries as in a place.
    let entries = |page: String| page.matches("data-go=").count();
    let (over, own) = (get(&router, "/").await.body, get(&router, "/place:a").await.body);
    assert_eq!(entries(over), entries(own));
}
