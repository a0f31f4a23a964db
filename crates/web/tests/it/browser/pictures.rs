//! The pictures of docs/web.md: `cargo test -p uniqueue-web --test it pictures -- --ignored` draws them.

use std::path::Path;
use std::time::Duration;

use serde_json::json;
use uniqueue::testing::Database;
use uniqueue::{Client, NewJob, PeriodicJob, UniqueKey};

use super::driver::{Driver, choose, shows};
use super::service::Service;

/// The same jobs each time.
async fn fill(client: &Client) {
    client.audit_duplicates("email.send").await.unwrap();
    let digest = NewJob::new("digest.send", &json!({"audience": "all"})).queue("emails");
    client.periodic().define(PeriodicJob::cron("daily-digest", "0 9 * * MON-FRI", digest)).await.unwrap();
    let jobs = (0..260).map(|n| match n % 4 {
        0 => NewJob::new("email.send", &json!({"user_id": n % 37, "template": "welcome"}))
            .queue("emails")
            .unique_key(UniqueKey::raw(format!("email.send:{}", n % 37))),
        1 => NewJob::new("image.resize", &json!({"image": n, "width": 640})).queue("images"),
        2 => NewJob::new("invoice.create", &json!({"order": 10_000 + n})).max_attempts(1 + n % 3),
        _ => NewJob::new("search.index", &json!({"document": n}))
            .queue("search")
            .scheduled_in(Duration::from_secs(7_200)),
    });
    for job in jobs {
        client.insert(job).await.unwrap();
    }
    client.queue("search").pause().actor("ada").await.unwrap();
    client.queue("images").limit(Some(4)).actor("ada").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "draws the pictures of the documentation"]
async fn pictures() {
    let Some(driver) = Driver::start().await else { return };
    let database = Database::new().await.unwrap();
    let client = database.client();
    fill(client).await;
    let service = Service::start(client.clone(), 0).await;
    let held = client.holder("email.send:4").await.unwrap().unwrap().id;
    let directory = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/web"));
    std::fs::create_dir_all(directory).unwrap();
    for (theme, width) in [("light", 1280), ("dark", 1280), ("dark", 390)] {
        let browser = driver.session(width, 860, true).await;
        browser.goto(&service.url("")).await.unwrap();
        choose(&browser, theme).await;
        let pages = [
            ("overview", String::new(), "Available"),
            ("jobs", "/jobs".to_owned(), "A plan is shown"),
            ("job", format!("/jobs/{held}"), "History"),
            ("key", "/key?key=email.send:4".to_owned(), "Holder"),
            ("keys", "/keys".to_owned(), "Holder"),
            ("queues", "/queues".to_owned(), "paused"),
            (
                "explain",
                "/explain?kind=invoice.create&what=lab&policy=%7B%22keys%22%3A%5B%22type%22%5D%7D".to_owned(),
                "would have met",
            ),
        ];
        for (name, path, text) in pages {
            browser.goto(&service.url(&path)).await.unwrap();
            shows(&browser, text).await;
            let picture = browser.screenshot().await.unwrap();
            std::fs::write(directory.join(format!("{name}-{theme}-{width}.png")), picture).unwrap();
        }
        browser.close().await.unwrap();
    }
}
