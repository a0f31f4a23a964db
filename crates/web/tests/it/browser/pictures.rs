//! The pictures of docs/operate/web.md, which `scripts/pictures` draws.
//!
//! `PICTURES` names the directory. With `PICTURES_OF=all` every page is drawn whole, in light and dark and in three widths,
//! to look at.

use std::path::{Path, PathBuf};

use fantoccini::Client as Browser;
use test_support::prelude::*;
use tokio::time::sleep;

use super::accessible::plan;
use super::driver::{choose, shows};
use super::scene;
use super::service::{Service, Stage};

/// Changes before the first picture.
const ROUNDS: u32 = 3;

/// A page: its name, its path, and a text that it shows.
type Shot = (&'static str, String, &'static str);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "draws the pictures of the documentation"]
async fn pictures() {
    let Some(Stage { driver: _driver, database, service, browser }) = Stage::new(860, true).await else { return };
    let directory = std::env::var_os("PICTURES").map(PathBuf::from);
    let directory = directory.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operate/web"));
    std::fs::create_dir_all(&directory).unwrap();
    let job = scene::fill(&database).await;
    browser.goto(&service.url("")).await.unwrap();
    shows(&browser, "available").await;
    for round in 0..ROUNDS {
        scene::pass(&database, round).await;
        sleep(Duration::from_secs(2)).await;
    }
    let plan = plan(&browser, &service).await;
    let shots: Vec<Shot> = vec![
        ("kinds", "/kinds".to_owned(), "report.build"),
        ("plan", plan, "to confirm"),
        ("overview", String::new(), "available"),
        ("history", "/history?range=24h".to_owned(), "By kind"),
        ("kind", "/kind?kind=email.send&range=24h".to_owned(), "Errors"),
        ("search", "/search?q=send".to_owned(), "Searched"),
        ("jobs", "/jobs".to_owned(), "A plan is shown"),
        ("job", format!("/jobs/{job}"), "History"),
        ("key", format!("/key?key={}", scene::KEY), "Next attempt"),
        ("keys", "/keys".to_owned(), "email.send"),
        ("queues", "/queues".to_owned(), "paused"),
        ("groups", "/groups".to_owned(), "shop:2"),
        ("queue", "/queue?queue=imports".to_owned(), "Limit of each group"),
        ("group", "/group?queue=imports&group=shop:2".to_owned(), "End the hold"),
        ("running", "/running".to_owned(), "report.build"),
        ("runners", "/runners".to_owned(), "worker-1"),
        ("failing", "/failing".to_owned(), "email.send"),
        ("periodic", "/periodic".to_owned(), "daily-digest"),
        ("duplicates", "/duplicates".to_owned(), "email.send"),
        ("waiting", "/waiting".to_owned(), "No insert waits"),
        ("doctor", "/doctor".to_owned(), "octor"),
        ("changes", "/changes".to_owned(), "ada"),
        ("insert", "/insert?kind=email.send".to_owned(), "Explain first"),
        (
            "explain",
            "/explain?kind=email.send&what=lab&policy=%7B%22keys%22%3A%5B%22type%22%2C%22args%22%5D%7D".to_owned(),
            "would have met",
        ),
    ];
    if std::env::var_os("PICTURES_OF").is_some_and(|pages| pages == "all") {
        for (theme, width) in
            [("light", 360), ("dark", 360), ("light", 1280), ("dark", 1280), ("light", 2560), ("dark", 2560)]
        {
            browser.set_window_size(width, 860).await.unwrap();
            for shot in &shots {
                scene::pass(&database, width).await;
                draw(&browser, &service, shot, theme, width, &directory, true).await;
            }
        }
    } else {
        for (name, theme, width) in
            [("overview", "dark", 1280), ("history", "light", 1280), ("jobs", "light", 1280), ("key", "light", 1280)]
        {
            let shot = shots.iter().find(|(known, ..)| *known == name).unwrap();
            scene::pass(&database, ROUNDS).await;
            draw(&browser, &service, shot, theme, width, &directory, false).await;
        }
    }
    browser.close().await.unwrap();
}

async fn draw(
    browser: &Browser,
    service: &Service,
    (name, path, text): &Shot,
    theme: &str,
    width: u32,
    directory: &Path,
    is_whole: bool,
) {
    browser.set_window_size(width, 860).await.unwrap();
    browser.goto(&service.url(path)).await.unwrap();
    choose(browser, theme).await;
    shows(browser, text).await;
    if is_whole {
        let script = "return document.documentElement.scrollHeight";
        let height = browser.execute(script, Vec::new()).await.unwrap().as_u64().unwrap();
        browser.set_window_size(width, (height as u32 + 160).clamp(860, 2_400)).await.unwrap();
    }
    let picture = browser.screenshot().await.unwrap();
    std::fs::write(directory.join(format!("{name}-{theme}-{width}.png")), picture).unwrap();
}
