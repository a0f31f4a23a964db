//! Pages that follow the queue stand still meanwhile.

use std::time::Duration;

use fantoccini::{Client as Browser, Locator};
use serde_json::json;
use test_support::eventually;
use tokio::time::sleep;
use uniqueue::NewJob;
use uniqueue::testing::Database;

use super::driver::{Driver, WAIT, shows};
use super::service::Service;

/// Counts from now on how far the contents of the page move: the sum of the browser's layout shifts.
const WATCH: &str = "window.moved = 0; window.movers = [];
    new PerformanceObserver((list) => { for (const shift of list.getEntries()) {
            window.moved += shift.value;
            for (const { node, previousRect: a, currentRect: b } of shift.sources)
                window.movers.push([node?.outerHTML?.slice(0, 80) ?? node?.textContent, a.x, a.y, a.width, b.x, b.y, b.width]);
        } })
        .observe({ type: 'layout-shift' });";

/// The largest shift that a person does not see: a column that gets a digit wider.
const MOST: f64 = 0.01;

async fn moved(browser: &Browser) -> f64 {
    browser.execute("return window.moved", Vec::new()).await.unwrap().as_f64().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_moves_on_a_page_that_follows_the_queue() {
    let Some(driver) = Driver::start().await else { return };
    let database = Database::new().await.unwrap();
    let client = database.client();
    let job = |n: u32| NewJob::new("mail", &json!({ "n": n }));
    client.insert_many((0..12).map(job)).await.unwrap();
    let service = Service::start(client.clone(), 0).await;
    for width in [1280, 360] {
        let browser = driver.session(width, 900, true).await;
        // What the doctor found comes once, with its first look.
        browser.goto(&service.url("")).await.unwrap();
        browser.wait().at_most(WAIT).for_element(Locator::Css("section.findings")).await.unwrap();
        for (path, count) in [("", "available"), ("/queues", "default"), ("/queue?queue=default", "default")] {
            browser.goto(&service.url(path)).await.unwrap();
            shows(&browser, count).await;
            browser.execute(WATCH, Vec::new()).await.unwrap();
            let waiting = client.insert_many((0..3).map(job)).await.unwrap().len();
            assert_eq!(waiting, 3);
            let all = client.count_jobs(uniqueue::JobFilter::all(), 1_000).await.unwrap().counted();
            shows(&browser, &all.to_string()).await;
            sleep(Duration::from_millis(200)).await;
            let far = moved(&browser).await;
            let movers = browser.execute("return window.movers", Vec::new()).await.unwrap();
            assert!(far < MOST, "{path} at {width}: {far}: {movers}");
        }
        // The browser tells of a page that does move.
        browser.execute("document.querySelector('main').style.marginTop = '300px'", Vec::new()).await.unwrap();
        eventually!(moved(&browser).await > MOST, "the browser tells of no move");
        browser.close().await.unwrap();
    }
}
