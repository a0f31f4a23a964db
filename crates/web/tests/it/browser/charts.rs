//! The read-out of a chart.

use fantoccini::actions::{InputSource, MouseActions, PointerAction};
use fantoccini::key::Key;
use fantoccini::{Client as Browser, Locator};
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;
use test_support::eventually;
use uniqueue::testing::Database;

use super::driver::{Driver, shows};
use super::service::Service;

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
    let Some(driver) = Driver::start().await else { return };
    let database = Database::new().await.unwrap();
    let rows = ROWS.replace("{schema}", database.schema().as_str());
    sqlx::raw_sql(AssertSqlSafe(rows)).execute(database.pool()).await.unwrap();
    let service = Service::start(database.client().clone(), 0).await;
    let browser = driver.session(1280, 900, true).await;
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
