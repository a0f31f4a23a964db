//! A chromedriver and its sessions.

use std::path::PathBuf;
use std::process::Stdio;

use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use test_support::prelude::*;
use test_support::tools::lacks;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::sleep;

/// Longer than anything takes on a busy machine.
pub(super) const WAIT: Duration = Duration::from_secs(60);

/// The time zone of the browser, and its offset in hours and minutes.
pub(super) const ZONE: (&str, (i8, i8)) = ("Asia/Kolkata", (5, 30));

/// Ends a process group and removes a directory when its input ends. The kernel closes that pipe however the test ends: at a
/// panic, and at SIGKILL too. Processes that are being killed may write for a moment more.
const GUARD: &str =
    r#"cat >/dev/null; kill -s KILL -- "-$1"; for try in 1 2 3 4 5; do rm -rf "$2" && exit; sleep 1; done"#;

/// A chromedriver. Its browsers and what they wrote go with it.
pub(super) struct Driver {
    _process: Child,
    /// Its input is this process's to close.
    _guard: Child,
    url: String,
    /// The process group of chromedriver and its browsers.
    pub(super) group: u32,
    /// Where the browsers have their profiles.
    pub(super) directory: PathBuf,
}

impl Driver {
    /// Starts one. `None`: there is no browser.
    pub(super) async fn start() -> Option<Self> {
        let chromium = ["chromium", "google-chrome"].into_iter().find(|name| is_there(name));
        if chromium.is_none() || !is_there("chromedriver") {
            lacks("chromedriver", "with Chromium: apt-get install chromium-driver");
            return None;
        }
        let directory = std::env::temp_dir().join(format!("uniqueue-browser-{}", JobId::generate()));
        std::fs::create_dir(&directory).unwrap();
        let mut command = Command::new("chromedriver");
        for variable in ["TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"] {
            command.env(variable, &directory);
        }
        // The browser keeps the true clock where the test has another one.
        command.arg("--port=0").env("TZ", ZONE.0).env_remove("LD_PRELOAD").stdout(Stdio::piped()).process_group(0);
        let mut process = command.spawn().unwrap();
        let group = process.id().unwrap();
        let mut guard = Command::new("sh");
        guard.args(["-c", GUARD, "guard"]).arg(group.to_string()).arg(&directory);
        let guard = guard.stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let started = async {
            while let Some(line) = lines.next_line().await.unwrap() {
                if let Some(port) = line.split("successfully on port ").nth(1) {
                    return port.trim_end_matches('.').to_owned();
                }
            }
            panic!("chromedriver ended");
        };
        let port = timeout(WAIT, started).await.unwrap();
        // Its output must not fill the pipe.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Some(Self { _process: process, _guard: guard, url: format!("http://127.0.0.1:{port}"), group, directory })
    }

    /// A browser window of this size.
    pub(super) async fn session(&self, width: u32, height: u32, has_scripts: bool) -> Client {
        let scripts = if has_scripts { 1 } else { 2 };
        let options = json!({
            "args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                format!("--window-size={width},{height}")],
            "prefs": { "profile.managed_default_content_settings.javascript": scripts },
        });
        let capabilities = [("goog:chromeOptions".to_owned(), options)].into_iter().collect();
        let client =
            ClientBuilder::new(HttpConnector::new()).capabilities(capabilities).connect(&self.url).await.unwrap();
        client.set_window_size(width, height).await.unwrap();
        client
    }
}

fn is_there(name: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|directory| directory.join(name).is_file())
}

/// Waits until the page shows a text.
pub(super) async fn shows(browser: &Client, text: &str) {
    let shown = async {
        loop {
            if let Ok(body) = browser.find(Locator::Css("body")).await
                && body.text().await.is_ok_and(|shown| shown.contains(text))
            {
                return;
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    if timeout(WAIT, shown).await.is_err() {
        let page = browser.find(Locator::Css("main")).await.unwrap().text().await.unwrap();
        panic!("{text:?} is not on the page: {page}");
    }
}

/// Clicks what a selector finds. A page that was read again meanwhile has it anew.
pub(super) async fn click(browser: &Client, css: &str) {
    let began = std::time::Instant::now();
    loop {
        let found = browser.wait().at_most(WAIT).for_element(Locator::Css(css)).await;
        let found = found.unwrap_or_else(|error| panic!("{css}: {error}"));
        match found.click().await {
            Ok(()) => return,
            Err(error) => assert!(began.elapsed() < WAIT, "{css}: {error}"),
        }
    }
}

/// Opens what has the button of a verb, if it is closed.
pub(super) async fn open(browser: &Client, verb: &str) {
    let css = format!("details:not([open]):has(button[value={verb}]) > summary");
    if let Ok(summary) = browser.find(Locator::Css(&css)).await {
        summary.click().await.unwrap_or_else(|error| panic!("{css}: {error}"));
    }
}

/// Chooses colours, and waits for them.
pub(super) async fn choose(browser: &Client, theme: &str) {
    click(browser, &format!("button[value={theme}]")).await;
    let css = format!("html[data-theme={theme}]");
    browser.wait().at_most(WAIT).for_element(Locator::Css(&css)).await.unwrap();
}

/// Types keys into the page.
pub(super) async fn keys(browser: &Client, text: &str) {
    for key in text.chars() {
        browser.find(Locator::Css("body")).await.unwrap().send_keys(&key.to_string()).await.unwrap();
    }
}
