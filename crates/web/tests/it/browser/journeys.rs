//! The questions of an operator, each answered within a number of clicks, with scripts and without.

use fantoccini::key::Key;
use fantoccini::{Client as Browser, Locator};
use test_support::prelude::*;

use super::driver::{Driver, shows};
use super::service::Service;

/// A browser whose clicks are counted. Sending a search by the Enter key counts as one.
struct Operator<'a> {
    browser: &'a Browser,
    service: &'a Service,
    has_scripts: bool,
    clicks: usize,
}

impl Operator<'_> {
    async fn begin(&mut self) {
        self.clicks = 0;
        self.browser.goto(&self.service.url("")).await.unwrap();
        // The page's script sets it when it runs.
        let page = self.browser.source().await.unwrap();
        assert_eq!(page.contains("data-ready"), self.has_scripts, "{page}");
    }

    async fn click(&mut self, locator: Locator<'_>) {
        self.clicks += 1;
        let found = self.browser.find(locator).await.unwrap_or_else(|error| panic!("{locator:?}: {error}"));
        found.click().await.unwrap_or_else(|error| panic!("{locator:?}: {error}"));
    }

    async fn search(&mut self, text: &str) {
        self.clicks += 1;
        let field = self.browser.find(Locator::Css("input[name=q]")).await.unwrap();
        field.send_keys(text).await.unwrap();
        field.send_keys(&char::from(Key::Enter).to_string()).await.unwrap();
    }

    async fn sees(&self, texts: &[&str]) {
        for text in texts {
            shows(self.browser, text).await;
        }
    }
}

/// A deploy of an hour ago, before and after which jobs failed, and a group that a job holds up.
const ROWS: &str = "
    INSERT INTO {schema}.runner (id, name, version, host, started_at, leased_until, heartbeat_at, queues, kinds, knows_groups)
    VALUES (
        gen_random_uuid(), 'worker-1', '2.4.1', 'host-7', now() - interval '1 hour', now() + interval '1 hour', now(),
        ARRAY['default', 'emails'], ARRAY['email.send', 'charge'], true
    );
    UPDATE {schema}.job SET state = 'discarded', attempt = 3, finalized_at = now(), errors = jsonb_build_array(jsonb_build_object(
        'attempt', 3, 'error', 'declined',
        'at', to_char((now() - (args ->> 'ago')::interval) AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')
    ))
    WHERE kind = 'charge';
    SELECT {schema}._add_history(
        now() - interval '9 hours', '[{\"kind\": \"\", \"queue\": \"\", \"inserted\": 731, \"completed\": 714, \"failed\": 17}]'
    )";

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_s_questions_take_few_clicks_with_scripts_and_without() {
    let Some(driver) = Driver::start().await else { return };
    for has_scripts in [true, false] {
        let database = Database::new().await;
        let client = &database.client;
        let service = Service::start(client.clone(), 0).await;
        let browser = driver.session(1280, 900, has_scripts).await;
        let mut operator = Operator { browser: &browser, service: &service, has_scripts, clicks: 0 };

        let charge = |ago: &str| NewJob::new("charge", &json!({"ago": ago}));
        let failed = client.insert_many([charge("2 hours"), charge("20 min"), charge("10 min"), charge("5 min")]);
        let failed: Vec<_> = failed.await.unwrap().iter().map(|job| job.id()).collect();
        let mail = |to: &str| NewJob::new("email.send", &json!({"to": to})).queue("emails");
        client.insert(mail("ada@example.com").unique_key(UniqueKey::hash_of(json!({"to": "ada"})))).await.unwrap();
        client.insert(mail("eve@example.com").group("customer:42").in_order()).await.unwrap();
        client.queue("emails").hold_group("customer:42", Duration::from_secs(3_600)).await.unwrap();
        database.execute(ROWS).await;

        // The e-mails to one customer do not go out. Why?
        operator.begin().await;
        operator.search("customer:42").await;
        operator.sees(&["Why it waits", "is held until"]).await;
        assert_eq!(operator.clicks, 1);

        // Why was this insert a duplicate? The key is not known.
        operator.begin().await;
        operator.search("to: ada@example.com").await;
        operator.sees(&["This job holds the key."]).await;
        assert_eq!(operator.clicks, 1);

        // All jobs that failed since the deploy are retried, except one.
        // The doctor looks when the first page is opened.
        eventually!(let page = { operator.begin().await; browser.source().await.unwrap() }; page.contains("since 2.4.1 came"));
        operator.click(Locator::LinkText("since 2.4.1 came")).await;
        operator.sees(&["charge", "Last failure"]).await;
        operator.click(Locator::Css(&format!("input[value='{}']", failed[2]))).await;
        operator.click(Locator::Css("button[value=retry]")).await;
        operator.sees(&["2 jobs will be retried."]).await;
        operator.click(Locator::Css("main button.primary")).await;
        operator.sees(&["Done."]).await;
        assert_eq!(operator.clicks, 4);
        let states = [JobState::Discarded, JobState::Available, JobState::Discarded, JobState::Available];
        for (id, state) in failed.iter().zip(states) {
            assert_eq!(client.job(*id).await.unwrap().unwrap().state, state);
        }

        // What did last night look like?
        operator.begin().await;
        operator.click(Locator::LinkText("24h")).await;
        operator.sees(&["714 completed", "17 failed", "Failures", "UTC"]).await;
        assert_eq!(operator.clicks, 1);

        // Which customer blocks the line? Are the new workers well?
        for (link, texts) in [
            ("/groups", &["customer:42", "is held until"][..]),
            ("/runners", &["worker-1", "host-7", "2.4.1", "charge"]),
        ] {
            operator.begin().await;
            operator.click(Locator::Css(&format!("nav a[href$='{link}']"))).await;
            operator.sees(texts).await;
            assert_eq!(operator.clicks, 1);
        }
        browser.close().await.unwrap();
        service.stop().await;
    }
}
