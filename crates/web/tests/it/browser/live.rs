//! Open pages while the database is away, and many of them.

use serde_json::json;
use sqlx::AssertSqlSafe;
use uniqueue::NewJob;
use uniqueue::testing::Database;

use super::driver::{Driver, shows};
use super::service::Service;

#[tokio::test(flavor = "multi_thread")]
async fn the_word_beside_the_title_is_live_only_while_the_data_is_new() {
    let Some(driver) = Driver::start().await else { return };
    let database = Database::new().await.unwrap();
    let client = database.client();
    client.insert(NewJob::new("mail", &json!({})).queue("letters")).await.unwrap();
    let service = Service::start(client.clone(), 0).await;
    let browser = driver.session(1280, 900, true).await;
    browser.goto(&service.url("/queues")).await.unwrap();
    shows(&browser, "letters").await;
    shows(&browser, "live").await;
    let mut lock = database.pool().begin().await.unwrap();
    let tables = format!("LOCK TABLE {0}.job, {0}.queue, {0}.runner", database.schema().as_str());
    sqlx::query(AssertSqlSafe(tables)).execute(&mut *lock).await.unwrap();
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
    let Some(driver) = Driver::start().await else { return };
    let database = Database::new().await.unwrap();
    let client = database.client();
    client.insert(NewJob::new("mail", &json!({})).queue("letters")).await.unwrap();
    let service = Service::start(client.clone(), 0).await;
    let browser = driver.session(1280, 900, true).await;
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
