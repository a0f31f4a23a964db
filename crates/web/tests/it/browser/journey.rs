//! An operator's day.

use fantoccini::Locator;
use fantoccini::key::Key;
use test_support::prelude::*;

use super::driver::{ZONE, choose, click, keys, open, shows};
use super::service::{Service, Stage};

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_finds_changes_and_follows_jobs() {
    let Some(Stage { driver: _driver, database, service, browser }) = Stage::new(900, true).await else { return };
    let client = &database.client;
    let id = client.insert(NewJob::new("mail", &json!({"to": "ada"}))).await.unwrap().id();

    // Keys lead to the list, a row to its job, and the back button to the list.
    browser.goto(&service.url("")).await.unwrap();
    shows(&browser, "available").await;
    keys(&browser, "gj").await;
    shows(&browser, "The same on the command line").await;
    keys(&browser, "j").await;
    browser.find(Locator::Css("body")).await.unwrap().send_keys(&char::from(Key::Enter).to_string()).await.unwrap();
    shows(&browser, "History").await;
    assert!(browser.current_url().await.unwrap().path().ends_with(&format!("/jobs/{id}")));
    browser.back().await.unwrap();
    shows(&browser, "A plan is shown").await;

    // A deep link, a reload, and a change.
    browser.goto(&service.url(&format!("/jobs/{id}"))).await.unwrap();
    browser.refresh().await.unwrap();
    click(&browser, "button[value=cancel]").await;
    shows(&browser, "The job is cancelled.").await;
    assert_eq!(client.job(id).await.unwrap().unwrap().state, JobState::Cancelled);

    // Ticked jobs, by a plan.
    browser.goto(&service.url("/jobs?state=cancelled")).await.unwrap();
    click(&browser, "tbody input[type=checkbox]").await;
    click(&browser, "button[value=retry]").await;
    shows(&browser, "1 job will be retried.").await;
    click(&browser, "main button.primary").await;
    shows(&browser, "Done.").await;
    assert_eq!(client.job(id).await.unwrap().unwrap().state, JobState::Available);

    // The list of keys, and the colours.
    browser.goto(&service.url("")).await.unwrap();
    keys(&browser, "?").await;
    shows(&browser, "Next and previous row").await;
    browser.find(Locator::Css("dialog button")).await.unwrap().click().await.unwrap();
    choose(&browser, "dark").await;

    // An open page follows the queue, in two tabs, and over a restart of the server.
    let first = browser.window().await.unwrap();
    let second = browser.new_window(true).await.unwrap();
    browser.switch_to_window(second.handle).await.unwrap();
    browser.goto(&service.url("/queues")).await.unwrap();
    client.insert(NewJob::new("mail", &json!({})).queue("brand-new")).await.unwrap();
    shows(&browser, "brand-new").await;
    browser.switch_to_window(first).await.unwrap();
    let (port, reports) = (service.address.port(), service.reports.clone());
    service.stop().await;
    shows(&browser, "no connection").await;
    let service = Service::start(client.clone(), port).await;
    client.insert_many((0..40).map(|n| NewJob::new("mail", &json!(n)))).await.unwrap();
    shows(&browser, "42").await;

    // Nothing broke the policy. The last report is ours: it shows that reports arrive.
    browser.goto(&service.url("/jobs")).await.unwrap();
    let script = "const s = document.createElement('script'); s.textContent = '1'; document.body.append(s)";
    browser.execute(script, Vec::new()).await.unwrap();
    eventually!(!service.reports.lock().unwrap().is_empty());
    assert_eq!(*reports.lock().unwrap(), Vec::<String>::new());
    assert_eq!(service.reports.lock().unwrap().len(), 1);
    browser.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_work_without_scripts() {
    let Some(Stage { driver: _driver, database, service, browser }) = Stage::new(900, false).await else { return };
    let client = &database.client;
    let id = client.insert(NewJob::new("mail", &json!({"to": "ada"}))).await.unwrap().id();
    browser.goto(&service.url("/jobs")).await.unwrap();
    assert!(!browser.source().await.unwrap().contains("data-ready"), "no script has run");
    click(&browser, "tbody a").await;
    shows(&browser, "History").await;
    click(&browser, "button[value=cancel]").await;
    shows(&browser, "The job is cancelled.").await;
    assert_eq!(client.job(id).await.unwrap().unwrap().state, JobState::Cancelled);
    choose(&browser, "dark").await;

    // A plan of all jobs of a filter, which is typed to confirm it. Its page is read again until it is done.
    browser.goto(&service.url("/jobs?kind=mail")).await.unwrap();
    browser.find(Locator::Css("select[name=whole]")).await.unwrap().select_by_value("yes").await.unwrap();
    click(&browser, "button[value=delete]").await;
    shows(&browser, "to confirm").await;
    browser.find(Locator::Css("input[name=confirm]")).await.unwrap().send_keys("delete 1").await.unwrap();
    click(&browser, "main button.danger").await;
    shows(&browser, "Done.").await;
    assert!(client.job(id).await.unwrap().is_none());

    // An insert, which is explained first, and the form of a queue.
    browser.goto(&service.url("/insert?kind=mail&queue=letters")).await.unwrap();
    click(&browser, "button[value=explain]").await;
    shows(&browser, "A new job.").await;
    click(&browser, "button[value=insert]").await;
    shows(&browser, "History").await;
    assert_eq!(client.jobs(JobFilter::new().queue("letters")).await.unwrap().len(), 1);
    browser.goto(&service.url("/queue?queue=letters")).await.unwrap();
    open(&browser, "limit").await;
    browser
        .find(Locator::Css("form:has(button[value=limit]) input[name=limit]"))
        .await
        .unwrap()
        .send_keys("3")
        .await
        .unwrap();
    click(&browser, "button[value=limit]").await;
    shows(&browser, "3 at once").await;
    assert_eq!(client.queue("letters").settings().await.unwrap().limit, Some(3));
    browser.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn times_are_shown_in_the_zone_of_the_browser_where_it_is_chosen() {
    let Some(Stage { driver: _driver, database, service, browser }) = Stage::new(900, true).await else { return };
    let client = &database.client;
    let row = client.insert(NewJob::new("mail", &json!({}))).await.unwrap().job;
    let format = time::macros::format_description!("[year]-[month]-[day] [hour]:[minute]:[second]");
    let utc = row.created_at.to_offset(time::UtcOffset::UTC).format(format).unwrap();
    let zone = time::UtcOffset::from_hms(ZONE.1.0, ZONE.1.1, 0).unwrap();
    let there = row.created_at.to_offset(zone).format(format).unwrap();
    browser.goto(&service.url(&format!("/jobs/{}", row.id))).await.unwrap();
    shows(&browser, &utc).await;
    click(&browser, "button[value=local]").await;
    shows(&browser, &there).await;
    // The choice stays.
    browser.goto(&service.url(&format!("/jobs/{}", row.id))).await.unwrap();
    shows(&browser, &there).await;
    click(&browser, "button[value=utc]").await;
    shows(&browser, &utc).await;
    browser.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_countdown_ends_at_the_free_key_and_moves_nothing() {
    let Some(Stage { driver: _driver, database, service, browser }) = Stage::new(900, true).await else { return };
    // The browser has begun, and takes nothing of the period.
    browser.goto(&service.url("/keys")).await.unwrap();
    let key = UniqueKey::raw("k").period(Duration::from_secs(9));
    database.client.insert(NewJob::new("mail", &json!({})).unique_key(key)).await.unwrap();
    browser.goto(&service.url("/key?key=k")).await.unwrap();
    shows(&browser, "00:00:0").await;
    // Where everything stands, before and after each change of the page.
    let script = "const at = () => [...document.querySelectorAll('main *:not(time, details *)')].map((one) => {\
             const box = one.getBoundingClientRect();\
             return [one.tagName, box.x, box.y, box.width, box.height].join(' '); });\
         window.seen = []; window.moved = []; const before = at();\
         new MutationObserver(() => { const countdown = document.querySelector('.countdown'); if (countdown) {\
             window.seen.push(countdown.textContent); const now = at();\
             for (let i = 0; i < Math.max(now.length, before.length); i++)\
                 if (now[i] !== before[i]) window.moved.push([countdown.textContent, before[i], now[i]]); } })\
         .observe(document.querySelector('.countdown'), { childList: true, characterData: true, subtree: true });";
    browser.execute(script, Vec::new()).await.unwrap();
    shows(&browser, "The key is free.").await;
    let seen = browser.execute("return window.seen", Vec::new()).await.unwrap();
    let distinct: std::collections::HashSet<_> = seen.as_array().unwrap().iter().map(ToString::to_string).collect();
    assert!(distinct.len() >= 3, "{seen}");
    assert_eq!(browser.execute("return window.moved.slice(0, 9)", Vec::new()).await.unwrap(), json!([]));
    browser.close().await.unwrap();
}
