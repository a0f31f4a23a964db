//! The dashboard over several places.

mod lists;

use axum::Router;
use axum::http::StatusCode;
use test_support::by_url::database;
use test_support::prelude::*;
use uniqueue_web::{Access, Needs, Web};

use crate::support::{after, get, pages, request, send};

/// Two places that work, and one whose server is gone.
async fn places() -> Places {
    let mut map = Vec::new();
    for name in ["a", "b/ä"] {
        map.push(PlaceAddress::new(name, &database().await).unwrap());
    }
    let ready = Places::new(PlaceMap::new(map.clone()).unwrap().hashed(["a", "b/ä"]).unwrap());
    for (place, migrated) in ready.migrate().await {
        assert!(migrated.is_ok(), "{place}: {migrated:?}");
    }
    for (place, named) in ready.init().await {
        assert!(named.is_ok(), "{place}: {named:?}");
    }
    map.push(PlaceAddress::new("gone", "postgres://user@127.0.0.1:1/none").unwrap());
    let map = PlaceMap::new(map).unwrap().hashed(["a", "b/ä"]).unwrap();
    Places::with(map, Client::builder().connect_timeout(Duration::from_secs(1)))
}

fn at(places: &Places, name: &str) -> Client {
    places.at(name).unwrap().clone()
}

async fn insert(client: &Client, queue: &str) -> JobId {
    client.insert(NewJob::new("task", &json!({})).queue(queue)).await.unwrap().id()
}

fn dashboard(places: &Places) -> Router {
    Web::over(places.clone()).access(|_| Access::all().user("ada")).router()
}

#[tokio::test]
async fn the_overview_has_a_row_a_place_and_their_sums() {
    let places = places().await;
    for (name, jobs) in [("a", 3), ("b/ä", 4)] {
        for _ in 0..jobs {
            insert(&at(&places, name), "mail").await;
        }
    }
    let router = dashboard(&places);
    let page = eventually!(let page = get(&router, "/").await.body; page.contains("id=\"place-sum\"") && page.contains(">down<"), "{page}");
    let row = |link: &str| {
        let start = page.find(link).unwrap_or_else(|| panic!("{link}: {page}"));
        page[start..].split("</tr>").next().unwrap().to_owned()
    };
    let available = |row: &str| row.split("<td class=\"num\">").nth(1).unwrap().split('<').next().unwrap().to_owned();
    assert_eq!(available(&row("class=\"row-link\" href=\"/place:a\"")), "3");
    assert_eq!(available(&row("class=\"row-link\" href=\"/place:b%2F%C3%A4\"")), "4");
    assert!(row("class=\"row-link\" href=\"/place:gone\"").contains("down"), "{page}");
    assert_eq!(available(&row("id=\"place-sum\"")), "7");
    // Findings that need a comparison of places.
    eventually!(let page = get(&router, "/").await.body; page.contains("place_down"), "{page}");

    // A place has the pages of a dashboard of its own, and the switcher keeps the page.
    let own = get(&router, "/place:b%2F%C3%A4/queues").await;
    assert_eq!(own.status, StatusCode::OK);
    assert!(own.body.contains("href=\"/place:b%2F%C3%A4/queue?queue=mail\""), "{}", own.body);
    for link in ["href=\"/place:a/queues\"", "href=\"/queues\"", "href=\"/place:b%2F%C3%A4/kinds\""] {
        assert!(own.body.contains(link), "{link}: {}", own.body);
    }
    let kinds = get(&router, "/place:a/kinds").await.body;
    assert!(kinds.contains("<li><a href=\"/kinds\">All places</a></li>"), "{kinds}");
    // Settings are the browser's, and hold in all places.
    let answer = send(&router, request("POST", "/place:a/settings", "theme=dark&back=/queues")).await;
    assert_eq!(answer.header("location"), "/place:a/queues");
    assert!(answer.header("set-cookie").contains("Path=/;"), "{answer:?}");
}

#[tokio::test]
async fn lists_have_the_jobs_of_all_places_in_order() {
    let places = places().await;
    let mut ids = Vec::new();
    for n in 0..120 {
        ids.push(insert(&at(&places, ["a", "b/ä"][n % 2]), "mail").await);
    }
    let router = dashboard(&places);
    // Every job once, page by page, the newest first.
    let pages = pages(&router, "/jobs?since=all").await;
    assert!(pages.iter().all(|page| page.contains("<b>Place gone</b>")), "{pages:?}");
    let seen: Vec<JobId> = after(&pages.concat(), "<tr id=\"job-").iter().map(|id| id.parse().unwrap()).collect();
    ids.reverse();
    assert_eq!(seen, ids);
    // A change is made in one place.
    let page = get(&router, "/jobs").await.body;
    assert!(!page.contains("data-tick-all") && page.contains("href=\"/place:a/jobs/"), "{page}");
    assert_eq!(send(&router, request("POST", "/bulk", "verb=cancel&whole=yes")).await.status, StatusCode::NOT_FOUND);
    // A job by its id, wherever it is. Of another one it is not known.
    let answer = get(&router, &format!("/jobs/{}", ids[0])).await;
    assert_eq!(answer.header("location"), format!("/place:b%2F%C3%A4/jobs/{}", ids[0]));
    let answer = get(&router, &format!("/jobs/{}", JobId::generate())).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    // The only hit of a search is opened in its place, and hits of several places are shown by place.
    let key = uniqueue::UniqueKey::raw("one key");
    at(&places, "a").insert(NewJob::new("other", &json!({})).unique_key(key)).await.unwrap();
    let found = get(&router, "/search?q=one+key").await;
    assert_eq!(found.header("location"), "/place:a/key?key=one+key");
    let found = get(&router, "/search?q=mail").await.body;
    assert_eq!(found.matches("<h2>Place ").count(), 2, "{found}");
}

#[tokio::test]
async fn queues_and_runners_of_one_name_stand_beside_each_other() {
    let places = places().await;
    for queue in ["mail", "post"] {
        for name in ["a", "b/ä"] {
            insert(&at(&places, name), queue).await;
        }
    }
    at(&places, "a").queue("mail").limit(Some(3)).await.unwrap();
    let router = dashboard(&places);
    let page = eventually!(let page = get(&router, "/queues").await.body; page.matches("<tr id=\"queue-").count() == 4, "{page}");
    let rows: Vec<_> = page.split("<tr id=\"queue-").skip(1).collect();
    let ids: BTreeSet<_> = rows.iter().map(|row| row.split('"').next().unwrap()).collect();
    assert_eq!(ids.len(), 4, "{page}");
    for (row, (place, queue)) in
        rows.iter().zip([("a", "mail"), ("b%2F%C3%A4", "mail"), ("a", "post"), ("b%2F%C3%A4", "post")])
    {
        assert!(row.contains(&format!("href=\"/place:{place}/queue?queue={queue}\"")), "{row}");
    }
    for path in ["/runners", "/running", "/history", "/doctor"] {
        let page = get(&router, path).await;
        assert_eq!(page.status, StatusCode::OK, "{path}");
        assert!(page.body.contains("<b>Place gone</b>"), "{path}: {}", page.body);
    }
    let doctor = eventually!(let page = get(&router, "/doctor").await.body; page.contains("place_settings"), "{page}");
    assert!(doctor.contains("limit is 3 in a, and not set in b/ä"), "{doctor}");
}

#[tokio::test]
async fn metrics_name_the_place_of_each_value() {
    let places = places().await;
    insert(&at(&places, "a"), "mail").await;
    let router = dashboard(&places);
    let gone = "\nuniqueue_sample_failed{place=\"gone\"} 1\n";
    let page = eventually!(let page = get(&router, "/metrics").await.body; page.contains(gone), "{page}");
    for line in [
        "uniqueue_jobs{place=\"a\",queue=\"mail\",state=\"available\"} 1",
        "uniqueue_sample_failed{place=\"b/ä\"} 0",
        "uniqueue_runners{place=\"a\"} 0",
        "uniqueue_runners{place=\"b/ä\"} 0",
    ] {
        assert!(page.lines().any(|one| one == line), "{line}:\n{page}");
    }
    // The values of one metric stand together, and each series is there once.
    let series: Vec<_> =
        page.lines().filter(|line| !line.starts_with('#')).map(|line| line.rsplit_once(' ').unwrap().0).collect();
    assert_eq!(series.iter().collect::<BTreeSet<_>>().len(), series.len());
    assert_eq!(page.matches("# TYPE uniqueue_jobs gauge").count(), 1);
    let names: Vec<_> = series.iter().map(|series| series.split('{').next().unwrap()).collect();
    let runs = names.chunk_by(|one, other| one == other).count();
    assert_eq!(runs, names.iter().collect::<BTreeSet<_>>().len(), "{page}");
    // A place that is down does not make the process unready.
    assert_eq!(get(&router, "/health/ready").await.status, StatusCode::OK);
}

#[tokio::test]
async fn the_pages_over_all_places_check_rights_as_all_pages_do() {
    let places = places().await;
    let with = |access: Access| Web::over(places.clone()).access(move |_| access.clone()).router();
    let (none, read) = (with(Access::none()), with(Access::read()));
    for route in Web::routes_over_places() {
        let path = route.path.replace("{id}", &JobId::generate().to_string()).replace("{version}/{name}", "0/app.css");
        let status = async |router: &Router, path: &str| send(router, request(route.method, path, "")).await.status;
        assert_ne!(status(&read, &path).await, StatusCode::FORBIDDEN, "{path}");
        assert_eq!(status(&none, &path).await == StatusCode::FORBIDDEN, route.needs == Needs::Read, "{path}");
        assert!(!matches!(route.needs, Needs::Right(_)), "{path}");
    }
    assert_eq!(get(&none, "/place:a/jobs").await.status, StatusCode::FORBIDDEN);
    let change = |router: &Router| {
        let request = request("POST", "/place:a/queues/change", "queue=mail&verb=pause");
        let router = router.clone();
        async move { send(&router, request).await.status }
    };
    assert_eq!(change(&read).await, StatusCode::FORBIDDEN);
    assert_eq!(change(&dashboard(&places)).await, StatusCode::SEE_OTHER);
    // Under a path of the application's own.
    let nested = Router::new().nest("/x", dashboard(&places));
    for path in ["/x", "/x/place:a", "/x/place:a/queues"] {
        let page = get(&nested, path).await.body;
        assert!(page.contains("href=\"/x/place:a") && !page.contains("href=\"/place:"), "{path}: {page}");
    }
}
