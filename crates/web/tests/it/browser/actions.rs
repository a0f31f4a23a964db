//! Each page and each change, once, with the browser's own forms.

use fantoccini::{Client as Browser, Locator};
use test_support::prelude::*;
use uniqueue_web::{Needs, Web};

use super::driver::{click, open, shows};
use super::service::{Service, Stage};
use super::trouble::Trouble;

/// Types into a field, in place of what it has.
async fn write(browser: &Browser, css: &str, text: &str) {
    let field = browser.find(Locator::Css(css)).await.unwrap_or_else(|error| panic!("{css}: {error}"));
    field.clear().await.unwrap();
    field.send_keys(text).await.unwrap();
}

/// Presses the button of a verb, and waits until the page shows a text.
async fn press(browser: &Browser, verb: &str, text: &str) {
    open(browser, verb).await;
    click(browser, &format!("main button[value={verb}]")).await;
    shows(browser, text).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_is_opened_and_every_change_is_made_by_its_form() {
    let Some(Stage { driver: _driver, database, service, browser }) = Stage::new(900, true).await else { return };
    let client = &database.client;
    let go = async |path: &str, text: &str| {
        browser.goto(&service.url(path)).await.unwrap();
        shows(&browser, text).await;
    };

    insert_and_change_a_job(&browser, &service, client).await;
    change_many_jobs(&browser, &service, &database).await;
    change_queues_and_groups(&browser, &service, client).await;

    client.insert(NewJob::new("mail", &json!({})).unique_key(UniqueKey::raw("k"))).await.unwrap();
    go("/keys?prefix=k", "Holder").await;
    click(&browser, "tbody a.key").await;
    shows(&browser, "Claims in").await;
    click(&browser, "details:has(form[action$='/key/release']) summary").await;
    click(&browser, "form[action$='/key/release'] button").await;
    shows(&browser, "The claim is released.").await;
    go("/explain", "Neither changes anything.").await;
    write(&browser, "input[name=kind]", "mail").await;
    press(&browser, "insert", "A new job.").await;
    press(&browser, "lab", "would have met a job").await;
    go("/duplicates", "No kind is audited").await;
    write(&browser, "main input[name=kind]", "mail").await;
    press(&browser, "start", "since").await;
    for _ in 0..3 {
        client.insert(NewJob::new("mail", &json!({})).unique_key(UniqueKey::raw("twice"))).await.unwrap();
    }
    go("/duplicates", "Last holder").await;
    shows(&browser, "twice").await;
    press(&browser, "stop", "stopped").await;
    database.execute("SELECT FROM {schema}.register_kind('mail', queue => 'imports')").await;
    go("/kinds", "not unique").await;
    click(&browser, "tbody a").await;
    shows(&browser, "What inserts take from it").await;
    let nightly = PeriodicJob::cron("nightly", "0 3 * * *", NewJob::new("sweep", &json!({})));
    client.define_periodic(nightly).await.unwrap();
    go("/periodic", "nightly").await;
    press(&browser, "pause", "paused").await;
    press(&browser, "resume", "Pause").await;
    press(&browser, "run", "Inserted, or met").await;
    for (path, text) in [
        ("/history", "until the start"),
        ("/running", "No job runs now."),
        ("/runners", "No runner has registered."),
        ("/failing", "No job waits for a retry"),
        ("/waiting", "No insert waits."),
    ] {
        go(path, text).await;
    }
    // An open page fills when there is something to show.
    let trouble = Trouble::start(&database).await;
    shows(&browser, "contested").await;
    for (path, texts) in [
        ("/running", ["resize", "worker-1", "dead", r#"{"of":40,"page":3}"#]),
        ("/runners", ["worker-1", "runs 1", "worker-2", "ran out"]),
        ("/failing", ["resize", "connection refused", "Retryable", "Last job"]),
        ("/waiting", ["contested", "idle in transaction", "Held up by", "pg_terminate_backend"]),
    ] {
        go(path, texts[0]).await;
        for text in texts {
            shows(&browser, text).await;
        }
    }
    for (path, link, text) in [
        ("/running", "tbody a", "History"),
        ("/waiting", "tbody a.key", "An insert (pid"),
        ("/failing", "tbody td:last-child a", "connection refused"),
    ] {
        go(path, "").await;
        click(&browser, link).await;
        shows(&browser, text).await;
    }
    trouble.end().await;
    for (path, text) in [("", "available"), ("/queues", "Limits"), ("/doctor", "checks"), ("/changes", "run_periodic")]
    {
        go(path, text).await;
    }
    click(&browser, "button[value=dark]").await;
    shows(&browser, "run_periodic").await;

    // Names are proposed while a search is typed.
    write(&browser, "input[name=q]", "res").await;
    eventually!(service.requests.lock().unwrap().iter().any(|(_, path)| path == "/suggest"));
    go("/search?q=nothing", "Searched: ids").await;
    go("/jobs?since=all", "Export CSV").await;
    click(&browser, "a[href*='format=csv']").await;
    eventually!(service.requests.lock().unwrap().iter().any(|(_, path)| path == "/jobs/export"));
    let requests = service.requests.lock().unwrap().clone();
    for route in Web::routes().iter().filter(|route| route.needs != Needs::Nothing && route.path != "/metrics") {
        let was_asked = requests.iter().any(|(method, path)| method == route.method && matches(route.path, path));
        assert!(was_asked, "no browser asked for {} {}: {requests:?}", route.method, route.path);
    }
    assert_eq!(*service.reports.lock().unwrap(), Vec::<String>::new());
    browser.close().await.unwrap();
}

/// Whether a path is one of a route.
fn matches(route: &str, path: &str) -> bool {
    let (route, path): (Vec<_>, Vec<_>) = (route.split('/').collect(), path.split('/').collect());
    route.len() == path.len() && route.iter().zip(path).all(|(part, given)| part.starts_with('{') || *part == given)
}

async fn insert_and_change_a_job(browser: &Browser, service: &Service, client: &Client) {
    browser.goto(&service.url("/insert")).await.unwrap();
    write(browser, "input[name=kind]", "mail").await;
    write(browser, "textarea[name=args]", r#"{"to": "ada"}"#).await;
    write(browser, "textarea[name=policy]", r#"{"key": "first"}"#).await;
    press(browser, "explain", "The key is free").await;
    press(browser, "insert", "History").await;
    press(browser, "reschedule", "The job has another time.").await;
    write(browser, "input[name=priority]", "7").await;
    press(browser, "priority", "The job has another priority.").await;
    press(browser, "retry", "The job is available again.").await;
    press(browser, "release_claim", "The job has given up its claim.").await;
    press(browser, "cancel", "The job is cancelled.").await;
    click(browser, "details:has(form[action$='/delete']) summary").await;
    click(browser, "form[action$='/delete'] button").await;
    shows(browser, "No job meets these conditions.").await;
    let pending = client.insert(NewJob::new("mail", &json!({})).pending()).await.unwrap().id();
    browser.goto(&service.url(&format!("/jobs/{pending}"))).await.unwrap();
    press(browser, "release", "The job is released.").await;
}

async fn change_many_jobs(browser: &Browser, service: &Service, database: &Database) {
    browser.goto(&service.url("/jobs?kind=mail&since=all")).await.unwrap();
    click(browser, "tbody input[type=checkbox]").await;
    press(browser, "cancel", "will be cancelled").await;
    // Another transaction has the job, so the plan waits until it is stopped.
    let other = database.begin("SELECT FROM {schema}.job FOR UPDATE").await;
    click(browser, "main button.primary").await;
    shows(browser, "Running.").await;
    click(browser, "form[action$='/stop'] button").await;
    shows(browser, "Stopped.").await;
    other.rollback().await.unwrap();
    browser.goto(&service.url("/jobs?kind=mail&since=all")).await.unwrap();
    let all = browser.find(Locator::Css("select[name=whole]")).await.unwrap();
    all.select_by_value("yes").await.unwrap();
    press(browser, "delete", "to confirm").await;
    let text = browser.find(Locator::Css("label code")).await.unwrap().text().await.unwrap();
    write(browser, "input[name=confirm]", &text).await;
    click(browser, "main button.danger").await;
    shows(browser, "Done.").await;
}

async fn change_queues_and_groups(browser: &Browser, service: &Service, client: &Client) {
    client.insert(NewJob::new("sync", &json!({})).queue("imports").group("shop:1")).await.unwrap();
    browser.goto(&service.url("/queues")).await.unwrap();
    // It comes with the next sample.
    shows(browser, "imports").await;
    click(browser, "a[href$='queue=imports']").await;
    open(browser, "pause").await;
    write(browser, "input[name=reason]", "the shop is closed").await;
    press(browser, "pause", "by ada: the shop is closed").await;
    press(browser, "resume", "runners fetch from it").await;
    open(browser, "hold").await;
    write(browser, "input[name=hold_for]", "2").await;
    press(browser, "hold", "held for 00:").await;
    press(browser, "resume", "not held").await;
    for (verb, fields, text) in [
        ("limit", &[("limit", "3")][..], "3 at once"),
        ("limit_groups", &[("limit", "2")], "2 at once"),
        ("rate", &[("count", "10"), ("period", "5"), ("burst", "4")], "10/5s · up to 4 start at once"),
        ("rate_groups", &[("count", "100"), ("period", "60")], "100/1m"),
        ("max_waiting", &[("limit", "1234")], "1,234 available jobs"),
        ("keep", &[("days", "2")], "2d"),
    ] {
        open(browser, verb).await;
        // The field before the button of its own form.
        for (name, value) in fields {
            write(browser, &format!("form:has(button[value={verb}]) input[name={name}]"), value).await;
        }
        press(browser, verb, text).await;
    }
    press(browser, "fair", "fair: groups take turns").await;
    press(browser, "not_fair", "come by their time").await;
    press(browser, "keep_default", "Keeps completed").await;
    press(browser, "no_rate", "Rate of each group").await;
    let settings = client.queue("imports").settings().await.unwrap();
    assert_eq!((settings.limit, settings.rate, settings.held_until), (Some(3), None, None));
    assert_eq!(settings.group_rate.unwrap().period, Duration::from_secs(60));
    assert_eq!(settings.keep_completed, uniqueue::Keep::AsRunnersSay);

    browser.goto(&service.url("/groups?queue=imports")).await.unwrap();
    click(browser, "tbody a").await;
    press(browser, "hold", "The group is held.").await;
    shows(browser, "is held until").await;
    press(browser, "resume", "The hold has ended.").await;
    assert_eq!(Admin::new(client).held_groups().await.unwrap(), []);
}
