//! Open pages while the database is away, and many of them.

use fantoccini::actions::{InputSource, MouseActions, PointerAction};
use fantoccini::key::Key;
use fantoccini::{Client as Browser, Locator};
use test_support::prelude::*;
use tokio::time::sleep;

use super::driver::{Driver, WAIT, shows};
use super::service::{Service, Stage};
use crate::support::lock_jobs;

#[tokio::test(flavor = "multi_thread")]
async fn the_word_beside_the_title_is_live_only_while_the_data_is_new() {
    let Some(Stage { driver: _driver, database, service, browser }) = Stage::new(900, true).await else { return };
    let client = &database.client;
    client.insert(NewJob::new("mail", &json!({})).queue("letters")).await.unwrap();
    browser.goto(&service.url("/queues")).await.unwrap();
    shows(&browser, "letters").await;
    shows(&browser, "live").await;
    let lock = lock_jobs(&database).await;
    shows(&browser, "old data").await;
    shows(&browser, "The queue cannot be read now").await;
    shows(&browser, "letters").await;
    lock.rollback().await.unwrap();
    client.insert(NewJob::new("mail", &json!({})).queue("parcels")).await.unwrap();
    shows(&browser, "parcels").await;
    shows(&browser, "live").await;
    browser.close().await.unwrap();
    service.stop().await;
}

/// A browser opens six connections to a server. A window that held one would keep the seventh from loading.
#[tokio::test(flavor = "multi_thread")]
async fn the_tenth_window_loads_and_follows() {
    let Some(Stage { driver: _driver, database, service, browser }) = Stage::new(900, true).await else { return };
    let client = &database.client;
    client.insert(NewJob::new("mail", &json!({})).queue("letters")).await.unwrap();
    for window in 1..=10 {
        if window > 1 {
            let opened = browser.new_window(false).await.unwrap();
            browser.switch_to_window(opened.handle).await.unwrap();
        }
        browser.goto(&service.url("/queues")).await.unwrap();
        shows(&browser, "letters").await;
    }
    client.insert(NewJob::new("mail", &json!({})).queue("parcels")).await.unwrap();
    for window in browser.windows().await.unwrap() {
        browser.switch_to_window(window).await.unwrap();
        shows(&browser, "parcels").await;
    }
    browser.close().await.unwrap();
    service.stop().await;
}

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
    let database = Database::new().await;
    let client = &database.client;
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

/// Two hours of a night: in one of them jobs failed.
const ROWS: &str = "
    SELECT {schema}._add_history(now() - hour * interval '1 hour', jsonb_build_array(jsonb_build_object(
        'kind', '', 'queue', '', 'inserted', 60 * hour, 'completed', 60 * hour, 'failed', 7 * (hour - 5)
    )))
    FROM generate_series(5, 6) AS hour;
    INSERT INTO {schema}.deploy (at, version) VALUES (now() - interval '5 hours 40 minutes', '2.4.1')";

/// The read-outs that are seen in the first chart.
async fn read_outs(browser: &Browser) -> Value {
    let script = "return [...document.querySelector('.time-chart').querySelectorAll('.points b')]\
         .filter((one) => getComputedStyle(one).display !== 'none').map((one) => one.textContent)";
    browser.execute(script, Vec::new()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chart_reads_out_its_point_under_the_pointer_and_by_the_arrow_keys() {
    let Some(Stage { driver: _driver, database, service, browser }) = Stage::new(900, true).await else { return };
    database.execute(ROWS).await;
    browser.goto(&service.url("/history?range=24h")).await.unwrap();
    shows(&browser, "2.4.1").await;
    assert_eq!(read_outs(&browser).await, json!([]));
    let point = browser.find(Locator::Css(".points i:nth-of-type(40)")).await.unwrap();
    let over = PointerAction::MoveToElement { element: point, duration: None, x: 0.0, y: 0.0 };
    browser.perform_actions(MouseActions::new("mouse".to_owned()).then(over)).await.unwrap();
    eventually!(let seen = read_outs(&browser).await; seen.as_array().is_some_and(|seen| seen.len() == 1), "{seen}");
    let away = PointerAction::MoveTo { duration: None, x: 2.0, y: 2.0 };
    browser.perform_actions(MouseActions::new("mouse".to_owned()).then(away)).await.unwrap();
    // The focus shows the last point, and the arrow keys those before it.
    browser.execute("document.querySelector('.time-chart').focus({ focusVisible: true })", Vec::new()).await.unwrap();
    let last = eventually!(let seen = read_outs(&browser).await; seen.as_array().is_some_and(|seen| seen.len() == 1), "{seen}");
    let chart = browser.find(Locator::Css(".time-chart")).await.unwrap();
    chart.send_keys(&char::from(Key::Left).to_string()).await.unwrap();
    chart.send_keys(&char::from(Key::Left).to_string()).await.unwrap();
    eventually!(let seen = read_outs(&browser).await; seen != last && seen.as_array().is_some_and(|seen| seen.len() == 1), "{seen}");
    browser.close().await.unwrap();
    service.stop().await;
}
