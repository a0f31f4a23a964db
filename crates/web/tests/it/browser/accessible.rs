//! Every page by the rules of axe-core, in light and dark, narrow and wide.

use std::path::PathBuf;

use fantoccini::Client as Browser;
use test_support::prelude::*;
use test_support::tools::lacks;
use uniqueue_web::{Needs, Web};

use super::driver::{click, keys, shows};
use super::service::{Service, Stage};
use super::trouble::Trouble;

/// The script of axe-core, which `scripts/axe-core` fetches with npm.
fn axe_core() -> Option<String> {
    let path = std::env::var_os("AXE_CORE").map(PathBuf::from);
    let path =
        path.unwrap_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/axe-core/axe.min.js")));
    let script = std::fs::read_to_string(path).ok();
    if script.is_none() {
        lacks("axe-core", "AXE_CORE=$(scripts/axe-core)");
    }
    script
}

/// Stands for the overview with the list of keys.
const KEYS: &str = "?keys";

/// A 4k screen, where a page has the same contents as at 1280 pixels.
const WIDEST: u32 = 3840;

/// The width of a phone, where a row of a list has two lines.
const PHONE: u32 = 360;

/// The themes with the rules of axe-core for each. The dark theme changes colors only, so it needs only the rules about colors.
fn themes() -> [(&'static str, Value); 2] {
    let all = json!({"resultTypes": ["violations"]});
    [("light", all), ("dark", json!({"runOnly": ["color-contrast", "link-in-text-block"]}))]
}

/// The serious barriers of a page that has the script, by the rules of a theme.
async fn serious(browser: &Browser, (theme, rules): (&str, Value)) -> Vec<Value> {
    let script = "const [theme, rules, done] = arguments; document.documentElement.dataset.theme = theme;\
         axe.run(document, rules)\
         .then((found) => done(found.violations.map((one) => [one.impact, one.id, one.nodes[0].html])))";
    let arguments = vec![json!(theme), rules];
    let Value::Array(mut found) = browser.execute_async(script, arguments).await.unwrap() else { panic!("no answer") };
    found.retain(|one| matches!(one[0].as_str(), Some("serious" | "critical")));
    found
}

/// Makes a plan that deletes jobs. Returns its path.
pub(super) async fn plan(browser: &Browser, service: &Service) -> String {
    browser.goto(&service.url("/jobs?state=available")).await.unwrap();
    click(browser, "tbody input[type=checkbox]").await;
    click(browser, "button[value=delete]").await;
    shows(browser, "to confirm").await;
    let url = browser.current_url().await.unwrap();
    url.path().strip_prefix("/queue").unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_page_has_a_serious_barrier() {
    let Some(axe) = axe_core() else { return };
    let Some(Stage { driver: _driver, database, service, browser }) = Stage::new(900, true).await else { return };
    let client = &database.client;
    let id = client.insert(NewJob::new("mail", &json!({"to": 1})).unique_key(UniqueKey::raw("k"))).await.unwrap().id();
    client.insert(NewJob::new("mail", &json!({"to": 2})).pending()).await.unwrap();
    client.insert(NewJob::new("mail", &json!({"to": 3})).group("customer:1").group_limit(1)).await.unwrap();
    let queue = client.queue("default");
    queue.set(QueueChanges::new().rate(Some(Rate::per(10, Duration::from_secs(1)).burst(20)))).await.unwrap();
    queue.set(QueueChanges::new().group_rate(Some(Rate::per(100, Duration::from_secs(3_600))))).await.unwrap();
    queue.hold(Duration::from_secs(3_600)).await.unwrap();
    queue.hold_group("customer:1", Duration::from_secs(3_600)).await.unwrap();
    Admin::new(client).audit_duplicates("mail", None).await.unwrap();
    client.insert(NewJob::new("mail", &json!({"to": 1})).unique_key(UniqueKey::raw("k"))).await.unwrap();
    // Times that take much room.
    let finished = client.insert(NewJob::new("mail", &json!({"to": 4}))).await.unwrap().id();
    let finish = format!(
        "UPDATE {{schema}}.job SET state = 'completed', attempt = 1, created_at = now() - interval '90 days', finalized_at = now(),
             scheduled_at = now() - interval '90 days', attempted_at = now() - interval '23 hours 59 minutes'
         WHERE id = '{finished}'"
    );
    database.execute(&finish).await;
    database.execute("SELECT FROM {schema}.register_kind('mail', queue => 'default')").await;
    let nightly = PeriodicJob::cron("nightly", "0 3 * * *", NewJob::new("sweep", &json!({})));
    client.define_periodic(nightly).actor("ada").await.unwrap();
    let trouble = Trouble::start(&database).await;
    let plan = plan(&browser, &service).await;
    let mut pages: Vec<String> = Web::routes()
        .iter()
        .filter(|route| route.method == "GET" && route.needs == Needs::Read)
        .filter_map(|route| match route.path {
            "/bulk/{id}" | "/metrics" | "/jobs/export" | "/suggest" => None,
            "/search" => Some("/search?q=mail".to_owned()),
            "/key" => Some("/key?key=k".to_owned()),
            "/queue" => Some("/queue?queue=default".to_owned()),
            "/group" => Some("/group?queue=default&group=customer:1".to_owned()),
            "/kind" => Some("/kind?kind=mail".to_owned()),
            "/" => Some(String::new()),
            path if path.starts_with("/health") => None,
            path => Some(path.replace("{id}", &id.to_string())),
        })
        .collect();
    assert!(pages.len() > 10, "{pages:?}");
    // A failure has a page of its own.
    pages.extend(["/kind?kind=unknown".to_owned(), plan, format!("/jobs/{}", trouble.failed), KEYS.to_owned()]);
    let mut problems = Vec::new();
    for width in [1280, PHONE, WIDEST] {
        browser.set_window_size(width, 900).await.unwrap();
        for page in &pages {
            let (path, has_keys) = page.strip_suffix(KEYS).map_or((page.as_str(), false), |path| (path, true));
            browser.goto(&service.url(path)).await.unwrap();
            if has_keys {
                keys(&browser, "?").await;
                shows(&browser, "Next and previous row").await;
            }
            if width < WIDEST {
                browser.execute(&axe, Vec::new()).await.unwrap();
                for (theme, rules) in themes() {
                    let found = serious(&browser, (theme, rules)).await;
                    problems.extend(found.iter().map(|one| format!("{page} {theme} {width}: {one}")));
                }
            }
            let script = "return document.documentElement.scrollWidth > document.documentElement.clientWidth";
            if browser.execute(script, Vec::new()).await.unwrap() == true {
                problems.push(format!("{page} {width}: the page is wider than its window"));
            }
            let script = "return [...document.querySelectorAll('.scroll:has(table.lines)')]\
                 .some((list) => list.scrollWidth > list.clientWidth)";
            if width == PHONE && browser.execute(script, Vec::new()).await.unwrap() == true {
                problems.push(format!("{page} {width}: a list is wider than a phone"));
            }
            let script =
                "return [...document.querySelectorAll('.scroll')].some((list) => list.scrollWidth > list.clientWidth)";
            if page == "/jobs" && browser.execute(script, Vec::new()).await.unwrap() == true {
                problems.push(format!("{page} {width}: the list of jobs is cut"));
            }
        }
    }
    browser.close().await.unwrap();
    trouble.end().await;
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
