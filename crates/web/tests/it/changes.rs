//! What the forms do.

use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use serde_json::json;
use sqlx::postgres::PgPoolOptions;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::time::{sleep, timeout};
use uniqueue::testing::Database;
use uniqueue::{Client, JobFilter, JobId, JobRow, JobState, NewJob, OnReentry, Rate, UniquePolicy, UniqueScope};
use uniqueue_web::{Access, Right, Web};

use crate::support::{Answer, get, request, send};

fn dashboard(database: &Database) -> Router {
    Web::new(database.client().clone()).access(|_| Access::all().user("ada")).router()
}

async fn post(router: &Router, path: &str, body: &str) -> Answer {
    send(router, request("POST", path, body)).await
}

async fn insert(client: &Client) -> JobId {
    client.insert(NewJob::new("mail", &json!({"to": 1}))).await.unwrap().id()
}

async fn job(client: &Client, id: JobId) -> JobRow {
    client.job(id).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_job_is_changed_by_its_form() {
    let database = Database::new().await.unwrap();
    let (client, router) = (database.client(), dashboard(&database));
    let id = insert(client).await;
    for (body, state) in [
        ("verb=reschedule&minutes=60", JobState::Scheduled),
        ("verb=retry", JobState::Available),
        ("verb=priority&priority=-7", JobState::Available),
        ("verb=cancel", JobState::Cancelled),
        ("verb=retry", JobState::Available),
    ] {
        let answer = post(&router, &format!("/jobs/{id}/change"), body).await;
        assert_eq!(answer.status, StatusCode::SEE_OTHER, "{body}: {}", answer.body);
        assert_eq!(job(client, id).await.state, state, "{body}");
    }
    assert_eq!(job(client, id).await.priority, -7);
    let log = get(&router, "/changes").await.body;
    assert!(log.contains("set_priority") && log.contains("ada"), "{log}");
    assert_eq!(post(&router, &format!("/jobs/{id}/change"), "verb=explode").await.status, StatusCode::BAD_REQUEST);
    assert_eq!(post(&router, &format!("/jobs/{id}/delete"), "").await.header("location"), "/jobs");
    assert!(client.job(id).await.unwrap().is_none());
    assert_eq!(get(&router, &format!("/jobs/{id}")).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_refused_retry_says_so_and_the_page_names_the_holder() {
    let database = Database::new().await.unwrap();
    let (client, router) = (database.client(), dashboard(&database));
    let policy = || UniquePolicy::new().key("k").states(UniqueScope::Active).on_reentry(OnReentry::Discard);
    let first = client.insert(NewJob::new("mail", &json!({})).unique(policy())).await.unwrap().id();
    client.cancel(first).await.unwrap();
    let holder = client.insert(NewJob::new("mail", &json!({})).unique(policy())).await.unwrap().id();
    let answer = post(&router, &format!("/jobs/{first}/change"), "verb=retry").await;
    assert_eq!(answer.header("location"), format!("/jobs/{first}?did=refused"));
    let page = get(&router, answer.header("location")).await;
    assert!(page.body.contains("Another job holds the key"), "{}", page.body);
    assert!(page.body.contains(&format!("/jobs/{holder}")), "{}", page.body);
    // This job does not hold the key, so its page must not release it.
    post(&router, &format!("/jobs/{first}/change"), "verb=release_claim").await;
    assert_eq!(client.holder("k").await.unwrap().unwrap().id, holder);
    let answer = post(&router, "/key/release", "key=k").await;
    assert_eq!(answer.header("location"), "/key?key=k&did=release");
    assert!(client.holder("k").await.unwrap().is_none());
}

#[tokio::test]
async fn before_a_retry_the_page_says_what_it_will_do_while_another_job_holds_the_key() {
    let database = Database::new().await.unwrap();
    let (client, router) = (database.client(), dashboard(&database));
    let insert = async |key: &str, on_reentry: OnReentry| {
        // Waiting for a retry does not claim.
        let states = [JobState::Available, JobState::Running];
        let policy = UniquePolicy::new().key(key).states(states).on_reentry(on_reentry);
        client.insert(NewJob::new("mail", &json!({})).unique(policy)).await.unwrap().id()
    };
    let mut jobs = Vec::new();
    for (key, state, on_reentry, told, becomes) in [
        ("a", "cancelled", OnReentry::Discard, "A retry will be refused", JobState::Cancelled),
        ("b", "cancelled", OnReentry::GoOn, "A retry will go on without the claim", JobState::Available),
        ("c", "retryable", OnReentry::Discard, "A retry will discard this job", JobState::Discarded),
        ("d", "retryable", OnReentry::GoOn, "A retry will go on without the claim", JobState::Available),
    ] {
        let id = insert(key, on_reentry).await;
        let sql = format!(
            "UPDATE {}.job SET state = '{state}', unique_yielded = true,
                 finalized_at = CASE WHEN '{state}' = 'cancelled' THEN now() END
             WHERE id = '{id}'",
            database.schema().as_str()
        );
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(database.pool()).await.unwrap();
        jobs.push((id, told, becomes));
        assert_ne!(insert(key, on_reentry).await, id);
    }
    for (id, told, becomes) in jobs {
        let page = get(&router, &format!("/jobs/{id}")).await.body;
        assert!(page.contains(told), "{told}: {page}");
        post(&router, &format!("/jobs/{id}/change"), "verb=retry").await;
        assert_eq!(job(client, id).await.state, becomes, "{told}");
    }
    let free = insert("e", OnReentry::Discard).await;
    client.cancel(free).await.unwrap();
    assert!(!get(&router, &format!("/jobs/{free}")).await.body.contains("A retry will"));
}

/// Runs a plan, and waits until it has ended. Returns its page.
async fn run(router: &Router, plan: &str, confirm: &str) -> String {
    let answer = post(router, &format!("{plan}/run"), &format!("confirm={confirm}")).await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER, "{}", answer.body);
    ended(router, plan).await
}

/// Waits until a plan has ended. Returns its page.
async fn ended(router: &Router, plan: &str) -> String {
    let ended = async {
        loop {
            let page = get(router, plan).await.body;
            if !page.contains("Running.") {
                return page;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_secs(60), ended).await.unwrap()
}

#[tokio::test]
async fn a_plan_changes_the_jobs_that_it_showed_and_no_later_ones() {
    let database = Database::new().await.unwrap();
    let (client, router) = (database.client(), dashboard(&database));
    let ids = [insert(client).await, insert(client).await, insert(client).await];
    let plan = post(&router, "/bulk", "verb=cancel&whole=yes&kind=mail").await.header("location").to_owned();
    let shown = get(&router, &plan).await.body;
    assert!(shown.contains("Cancel 3 jobs"), "{shown}");
    assert_eq!(job(client, ids[0]).await.state, JobState::Available, "a plan changes nothing");
    let later = insert(client).await;
    let page = run(&router, &plan, "").await;
    assert!(page.contains("Done."), "{page}");
    assert_eq!(job(client, ids[2]).await.state, JobState::Cancelled);
    assert_eq!(job(client, later).await.state, JobState::Available);

    // Of ticked jobs, only those.
    let plan = post(&router, "/bulk", &format!("verb=retry&id={}&id={}", ids[0], ids[1])).await;
    run(&router, plan.header("location"), "").await;
    assert_eq!(job(client, ids[1]).await.state, JobState::Available);
    assert_eq!(job(client, ids[2]).await.state, JobState::Cancelled);
    assert_eq!(post(&router, "/bulk", "verb=retry").await.status, StatusCode::BAD_REQUEST, "nothing is ticked");
}

/// Makes the jobs that are older than a day slow to read: each takes this many seconds.
async fn slow_down(database: &Database, seconds: f64) {
    let schema = database.schema().as_str();
    let slow = format!(
        "ALTER TABLE {schema}.job RENAME TO job_rows;
         CREATE VIEW {schema}.job AS SELECT * FROM {schema}.job_rows
         WHERE CASE WHEN id < {schema}.id_at(now() - interval '1 day') THEN pg_sleep({seconds}) IS NOT NULL ELSE true END"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(slow)).execute(database.pool()).await.unwrap();
}

/// A dashboard whose pool stops statements after half a second, as that of `serve` does after two.
async fn impatient(database: &Database) -> Router {
    let options = database.pool().connect_options().as_ref().clone().options([("statement_timeout", "500ms")]);
    let pool = PgPoolOptions::new().max_connections(5).connect_with(options).await.unwrap();
    let client = Client::builder().schema(database.schema().clone()).pool(pool);
    Web::new(client).access(|_| Access::all().user("ada")).router()
}

#[tokio::test]
async fn a_plan_of_the_last_day_reads_no_older_jobs() {
    let database = Database::new().await.unwrap();
    let (client, router) = (database.client(), impatient(&database).await);
    let now = client.database_time().await.unwrap();
    let days_ago = JobId::first_at(now - Duration::from_secs(3 * 86_400));
    client.insert(NewJob::new("mail", &json!({})).id(days_ago)).await.unwrap();
    let young = insert(client).await;
    slow_down(&database, 60.0).await;
    let plan = post(&router, "/bulk", "verb=cancel&whole=yes&kind=mail").await;
    let page = get(&router, plan.header("location")).await.body;
    assert!(page.contains("Cancel 1 jobs"), "{page}");
    let page = run(&router, plan.header("location"), "").await;
    assert!(page.contains("Done.") && page.contains(">1</b> of 1"), "{page}");
    assert_eq!(job(client, young).await.state, JobState::Cancelled);
}

#[tokio::test]
async fn a_plan_whose_jobs_take_long_to_count_is_confirmed_by_typing_and_has_time_to_run() {
    let database = Database::new().await.unwrap();
    let (client, router) = (database.client(), impatient(&database).await);
    let now = client.database_time().await.unwrap();
    for day in 2..5 {
        let id = JobId::first_at(now - Duration::from_secs(day * 86_400));
        client.insert(NewJob::new("mail", &json!({})).id(id)).await.unwrap();
    }
    // Three of them take longer than a look-up may, and one longer than a statement of the pool.
    slow_down(&database, 0.8).await;
    let plan = post(&router, "/bulk", "verb=cancel&whole=yes&kind=mail&since=all").await;
    assert_eq!(plan.status, StatusCode::SEE_OTHER, "{}", plan.body);
    let plan = plan.header("location").to_owned();
    let page = get(&router, &plan).await.body;
    assert!(page.contains("count is not known") && page.contains("could not be read"), "{page}");
    assert!(page.contains("<code>cancel all</code>") && page.contains("Cancel all jobs"), "{page}");
    assert_eq!(post(&router, &format!("{plan}/run"), "").await.status, StatusCode::BAD_REQUEST);
    let page = run(&router, &plan, "cancel+all").await;
    assert!(page.contains("Done.") && page.contains(">3</b>"), "{page}");
}

#[tokio::test]
async fn a_plan_shows_ten_of_its_jobs_and_its_cut_off_and_more_than_a_thousand_are_confirmed_by_typing() {
    let database = Database::new().await.unwrap();
    let (client, router) = (database.client(), dashboard(&database));
    let insert = async |kind: &str, many: usize| {
        client.insert_many((0..many).map(|n| NewJob::new(kind, &json!(n)))).await.unwrap();
    };
    insert("eleven", 11).await;
    insert("few", 1_000).await;
    insert("many", 1_001).await;
    let plan = async |kind: &str| {
        let plan = post(&router, "/bulk", &format!("verb=cancel&whole=yes&kind={kind}")).await;
        let path = plan.header("location").to_owned();
        let page = get(&router, &path).await.body;
        (path, page)
    };
    let before = client.database_time().await.unwrap();
    let (_, page) = plan("eleven").await;
    let after = client.database_time().await.unwrap();
    assert!(page.contains("Cancel 11 jobs") && page.contains("The last 10 of them"), "{page}");
    assert_eq!(page.matches("<tr id=\"job-").count(), 10, "{page}");
    let cut_off = page.split("jobs inserted before <time datetime=\"").nth(1).unwrap().split('"').next().unwrap();
    let cut_off = OffsetDateTime::parse(cut_off, &Rfc3339).unwrap();
    // Pages tell times in milliseconds.
    assert!(before - Duration::from_millis(1) <= cut_off && cut_off <= after, "{before} {cut_off} {after}");
    assert!(page.contains("later ones are not meant"), "{page}");
    let (path, page) = plan("few").await;
    assert!(!page.contains("to confirm"), "{page}");
    run(&router, &path, "").await;
    let (path, page) = plan("many").await;
    assert!(page.contains("<code>cancel 1001</code>") && page.contains("Cancel 1,001 jobs"), "{page}");
    for wrong in ["", "confirm=", "confirm=cancel", "confirm=cancel+1000"] {
        assert_eq!(post(&router, &format!("{path}/run"), wrong).await.status, StatusCode::BAD_REQUEST, "{wrong}");
    }
    let cancelled = JobFilter::new().kind("many").states(JobState::Cancelled);
    assert_eq!(client.count_jobs(cancelled.clone(), 10).await.unwrap().counted(), 0);
    let page = run(&router, &path, "cancel+1001").await;
    assert!(page.contains("Done.") && page.contains(">1,001</b> of 1,001"), "{page}");
    assert_eq!(client.count_jobs(cancelled, 5_000).await.unwrap().counted(), 1_001);
}

#[tokio::test]
async fn a_running_plan_is_stopped() {
    let database = Database::new().await.unwrap();
    let (client, router) = (database.client(), dashboard(&database));
    let id = insert(client).await;
    let plan = post(&router, "/bulk", "verb=cancel&whole=yes&kind=mail").await.header("location").to_owned();
    // Another transaction has the job, so the plan waits.
    let mut other = database.pool().begin().await.unwrap();
    let lock = format!("SELECT FROM {}.job FOR UPDATE", database.schema().as_str());
    sqlx::query(sqlx::AssertSqlSafe(lock)).execute(&mut *other).await.unwrap();
    post(&router, &format!("{plan}/run"), "").await;
    let page = get(&router, &plan).await;
    assert!(page.body.contains("Running.") && page.body.contains("Stop"), "{}", page.body);
    assert_eq!(page.header("refresh"), "1", "the page is read again without a script");
    assert_eq!(post(&router, &format!("{plan}/stop"), "").await.header("location"), plan);
    let page = ended(&router, &plan).await;
    assert!(page.contains("Stopped."), "{page}");
    other.rollback().await.unwrap();
    // The connection of the statement that was stopped is used again.
    assert_eq!(job(client, id).await.state, JobState::Available);
    assert!(get(&router, &plan).await.body.contains("Stopped."));
    post(&router, &format!("{plan}/run"), "").await;
    assert!(get(&router, &plan).await.body.contains("Stopped."), "a plan runs once");
}

#[tokio::test]
async fn a_deletion_is_confirmed_by_typing_and_needs_its_right() {
    let database = Database::new().await.unwrap();
    let (client, router) = (database.client(), dashboard(&database));
    let id = insert(client).await;
    let plan = post(&router, "/bulk", &format!("verb=delete&id={id}")).await.header("location").to_owned();
    let answer = post(&router, &format!("{plan}/run"), "confirm=yes").await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert!(client.job(id).await.unwrap().is_some());

    // Another user does not see the plan, and a user without the right cannot make one.
    let other = Web::new(client.clone()).access(|_| Access::rights([Right::Change]).user("eve")).router();
    assert_eq!(get(&other, &plan).await.status, StatusCode::NOT_FOUND);
    let answer = post(&other, "/bulk", &format!("verb=delete&id={id}")).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);

    run(&router, &plan, "delete+1").await;
    assert!(client.job(id).await.unwrap().is_none());
}

#[tokio::test]
async fn a_plan_names_the_refused_jobs() {
    let database = Database::new().await.unwrap();
    let (client, router) = (database.client(), dashboard(&database));
    let policy = || UniquePolicy::new().key("k").states(UniqueScope::Active).on_reentry(OnReentry::Discard);
    let first = client.insert(NewJob::new("mail", &json!({})).unique(policy())).await.unwrap().id();
    client.cancel(first).await.unwrap();
    let holder = client.insert(NewJob::new("mail", &json!({})).unique(policy())).await.unwrap().id();
    let plan = post(&router, "/bulk", "verb=retry&whole=yes&state=cancelled").await;
    let page = run(&router, plan.header("location"), "").await;
    assert!(page.contains("Refused jobs"), "{page}");
    assert!(page.contains(&format!("/jobs/{holder}")), "{page}");
}

#[tokio::test]
async fn a_queue_is_changed_by_its_form() {
    let database = Database::new().await.unwrap();
    let (client, router) = (database.client(), dashboard(&database));
    // A name that a path could not hold.
    let change = async |body: &str| post(&router, "/queues/change", &format!("queue=..%2F%3F&{body}")).await.status;
    for body in [
        "verb=pause",
        "verb=limit&limit=3",
        "verb=limit_groups&limit=2",
        "verb=rate&count=10&period=1&period_unit=m&burst=20",
        "verb=rate_groups&count=1&period=0.5&burst=",
        "verb=hold&hold_for=1&hold_for_unit=h",
        "verb=max_waiting&limit=12345",
        "verb=fair",
        "verb=keep&state=completed&days=0.5",
    ] {
        assert_eq!(change(body).await, StatusCode::SEE_OTHER, "{body}");
    }
    let settings = client.queue("../?").settings().await.unwrap();
    assert!(settings.paused_at.is_some());
    assert_eq!((settings.limit, settings.group_limit, settings.fair), (Some(3), Some(2), true));
    assert_eq!(settings.rate, Some(Rate::per(10, Duration::from_secs(60)).burst(20)));
    assert_eq!(settings.group_rate, Some(Rate::per(1, Duration::from_millis(500))));
    let held_for = settings.held_until.unwrap() - client.database_time().await.unwrap();
    assert!(held_for.whole_minutes() == 59 || held_for.whole_minutes() == 60, "{held_for}");
    assert_eq!(settings.max_waiting, Some(12_345));
    assert_eq!(settings.keep_completed, uniqueue::Keep::For(Duration::from_secs(43_200)));
    let page = get(&router, "/queues").await.body;
    assert!(page.contains("paused") && page.contains(" of 12,345"), "the page shows the change at once: {page}");
    assert!(page.contains(">held<") && page.contains("10/1m, burst 20") && page.contains("1/500ms a group"), "{page}");
    let page = get(&router, "/queue?queue=..%2F%3F").await.body;
    assert!(page.contains(">held<") && page.contains(" · up to 20 start at once"), "{page}");
    assert!(
        page.contains("uniqueue queue list &#39;../?&#39;") || page.contains("uniqueue queue list '../?'"),
        "{page}"
    );
    let log = client.change_log().await.unwrap();
    let of =
        |verb: &str| log.iter().find(|one| one.verb == verb).map(|one| (one.actor.as_str(), one.subject.to_string()));
    let rate = r#"{"queue":"../?","rate":{"burst":20,"count":10,"period":60.0}}"#;
    assert_eq!(of("rate_queue"), Some(("ada", rate.to_owned())), "{log:?}");
    assert!(of("hold_queue").is_some_and(|(actor, subject)| actor == "ada" && subject.contains("3600")), "{log:?}");
    for body in [
        "verb=resume",
        "verb=limit&limit=",
        "verb=limit_groups&limit=",
        "verb=no_rate",
        "verb=no_group_rate&count=5&period=",
        "verb=max_waiting&limit=",
        "verb=not_fair",
        "verb=keep_default&state=completed",
    ] {
        assert_eq!(change(body).await, StatusCode::SEE_OTHER, "{body}");
    }
    let settings = client.queue("../?").settings().await.unwrap();
    assert_eq!((settings.paused_at, settings.limit), (None, None));
    assert_eq!((settings.group_limit, settings.fair, settings.max_waiting), (None, false, None));
    assert_eq!((settings.rate, settings.group_rate, settings.held_until), (None, None, None));
    for body in [
        "verb=rate&count=0&period=1",
        "verb=rate&count=&period=1",
        "verb=rate&count=1&period=",
        "verb=rate&count=1&period=1&period_unit=y",
        "verb=rate&count=1&period=32&period_unit=d",
        "verb=rate&count=1&period=1&burst=0",
        "verb=hold&hold_for=-1",
        "verb=hold&hold_for=NaN",
        "verb=hold",
    ] {
        assert_eq!(change(body).await, StatusCode::BAD_REQUEST, "{body}");
    }
    assert_eq!(change("verb=limit&limit=0").await, StatusCode::BAD_REQUEST);
    assert_eq!(change("verb=limit_groups&limit=0").await, StatusCode::BAD_REQUEST);
    assert_eq!(change("verb=max_waiting&limit=0").await, StatusCode::BAD_REQUEST);
    assert_eq!(change("verb=keep&state=completed&days=NaN").await, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_group_is_held_and_resumed_by_its_page() {
    let database = Database::new().await.unwrap();
    let (client, router) = (database.client(), dashboard(&database));
    client.queue("mail").group_rate(Some(Rate::per(3, Duration::from_secs(60)))).await.unwrap();
    let names = "queue=mail&group=customer%3A1%2F%26";
    // A group without jobs can be held too.
    let answer = post(&router, "/groups/change", &format!("{names}&verb=hold&hold_for=2&hold_for_unit=h")).await;
    let page = get(&router, answer.header("location")).await.body;
    assert!(page.contains(">held<") && page.contains("None of its jobs is available or runs"), "{page}");
    assert!(page.contains("The group is held.") && page.contains("3/1m"), "{page}");
    let held = client.held_groups().await.unwrap();
    assert_eq!((held.len(), held[0].group.as_str()), (1, "customer:1/&"));
    client.insert(NewJob::new("mail", &json!({})).queue("mail").group("customer:1/&")).await.unwrap();
    for path in ["/groups", "/groups?queue=mail&order=name"] {
        let list = get(&router, path).await.body;
        assert!(list.contains("Held by a worker or by hand") && list.contains("is held until"), "{list}");
        assert!(list.contains("/group?queue=mail&amp;group=customer%3A1%2F%26"), "{list}");
    }
    assert!(!get(&router, "/groups?queue=other").await.body.contains("Held by a worker"));
    let page = get(&router, &format!("/group?{names}")).await.body;
    assert!(page.contains("is held until") && page.contains("data-countdown"), "{page}");
    for (verb, did) in [("resume", "The hold has ended."), ("resume", "The group was not held.")] {
        let answer = post(&router, "/groups/change", &format!("{names}&verb={verb}")).await;
        let page = get(&router, answer.header("location")).await.body;
        assert!(page.contains(did) && !page.contains(">held<"), "{page}");
    }
    assert_eq!(client.held_groups().await.unwrap(), []);
    let log = client.change_log().await.unwrap();
    let verbs: Vec<_> = log.iter().map(|one| (one.actor.as_str(), one.verb.as_str())).collect();
    assert_eq!(verbs, [("ada", "resume_group"), ("ada", "resume_group"), ("ada", "hold_group")]);
    for body in ["verb=hold", "verb=hold&hold_for=x", "verb=explode"] {
        let status = post(&router, "/groups/change", &format!("{names}&{body}")).await.status;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{body}");
    }
}

/// A dashboard whose statements may take as long as those of `uniqueue serve`.
fn limited(database: &Database) -> Router {
    let options = Client::connect_options(database.url()).unwrap().options([("statement_timeout", "2s")]);
    let pool = PgPoolOptions::new().connect_lazy_with(options);
    let client = Client::builder().schema(database.schema().clone()).pool(pool);
    Web::new(client).access(|_| Access::all().user("ada")).router()
}

#[tokio::test]
async fn a_change_that_waits_for_an_open_transaction_ends_and_says_why() {
    let database = Database::new().await.unwrap();
    let (client, router) = (database.client(), limited(&database));
    let id = insert(client).await;
    let mut tx = client.pool().begin().await.unwrap();
    client.cancel(id).tx(&mut tx).await.unwrap();
    let unique = |kind: &str| NewJob::new(kind, &json!({})).unique_key(uniqueue::UniqueKey::raw("k"));
    client.insert(unique("mail")).tx(&mut tx).await.unwrap();

    let insert = "kind=other&args={}&policy=%7B%22key%22%3A%22k%22%7D&verb=insert";
    let limit = "queue=mail&verb=max_waiting&limit=5";
    let cancel = format!("/jobs/{id}/change");
    let (inserted, cancelled, limited) = tokio::join!(
        post(&router, "/insert", insert),
        post(&router, &cancel, "verb=cancel"),
        post(&router, "/queues/change", limit),
    );
    assert!(inserted.body.contains("another open transaction holds the unique key"), "{}", inserted.body);
    assert!(inserted.body.contains("value=\"other\""), "the form keeps what was typed: {}", inserted.body);
    assert_eq!(cancelled.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(cancelled.body.contains("This took too long"), "{}", cancelled.body);
    assert!(cancelled.body.contains("It may have waited for an open transaction."), "{}", cancelled.body);
    assert_eq!(limited.status, StatusCode::BAD_REQUEST);
    assert!(limited.body.contains("wait for open transactions that have inserted"), "{}", limited.body);
    tx.rollback().await.unwrap();

    assert_eq!(client.queue("mail").settings().await.unwrap().max_waiting, None);
    assert_eq!(post(&router, "/queues/change", limit).await.status, StatusCode::SEE_OTHER);
    assert_eq!(post(&router, "/insert", insert).await.status, StatusCode::SEE_OTHER);
    let log = client.change_log().await.unwrap();
    assert_eq!(log.len(), 2, "what failed is not logged: {log:?}");
}

#[tokio::test]
async fn an_insert_into_a_full_queue_says_so_at_once() {
    let database = Database::new().await.unwrap();
    let (client, router) = (database.client(), limited(&database));
    client.queue("default").max_waiting(Some(1)).await.unwrap();
    insert(client).await;
    let page = post(&router, "/insert", "kind=mail&args={}&verb=insert").await.body;
    assert!(page.contains("queue default is full: at most 1 of its jobs may wait"), "{page}");
}

#[tokio::test]
async fn a_job_is_inserted_after_its_explanation() {
    let database = Database::new().await.unwrap();
    let (client, router) = (database.client(), dashboard(&database));
    let form = "kind=mail&args=%7B%22n%22%3A12345678901234567890.10%7D&policy=%7B%22key%22%3A%22k%22%7D";
    let page = post(&router, "/insert", &format!("{form}&verb=explain")).await.body;
    assert!(page.contains("The key is free"), "{page}");
    let answer = post(&router, "/insert", &format!("{form}&verb=insert")).await;
    let page = get(&router, answer.header("location")).await.body;
    assert!(page.contains("12345678901234567890.10"), "a number keeps its digits: {page}");
    client.holder("k").await.unwrap().unwrap();
    let log = client.change_log().await.unwrap();
    assert_eq!((log[0].actor.as_str(), log[0].verb.as_str(), log[0].jobs), ("ada", "insert", Some(1)));
    let page = post(
        &router,
        "/insert",
        "kind=mail&args={}&policy=%7B%22key%22%3A%22k%22%2C%22on_conflict%22%3A%22ignore%22%7D&verb=insert",
    )
    .await;
    assert!(page.body.contains("A duplicate."), "{}", page.body);
    let page = post(&router, "/insert", "kind=mail&args=%7B&verb=insert").await;
    assert!(page.body.contains("Args are not JSON"), "{}", page.body);
}

#[tokio::test]
async fn an_insert_that_a_waiting_job_takes_in_says_so() {
    let database = Database::new().await.unwrap();
    let (client, router) = (database.client(), dashboard(&database));
    let form = |key: &str, answer: &str, verb: &str| {
        let policy = format!(r#"{{"key":"{key}","scope":"queued",{answer}}}"#);
        let policy: String = policy.bytes().map(|byte| format!("%{byte:02X}")).collect();
        format!("kind=mail&args=%7B%22n%22%3A2%7D&policy={policy}&verb={verb}")
    };
    for (key, answer, explained, told) in [
        ("a", r#""update": "latest""#, "the holder would be changed.", "the holder was changed"),
        ("b", r#""on_conflict":"run_again""#, "<b>Covered.</b>", "a waiting job does the work"),
        ("c", r#""on_conflict":"ignore""#, "A duplicate.", "Nothing was inserted"),
    ] {
        let policy = UniquePolicy::new().key(key).states(UniqueScope::Queued);
        let id = client.insert(NewJob::new("mail", &json!({"n": 1})).unique(policy)).await.unwrap().id();
        let page = post(&router, "/insert", &form(key, answer, "explain")).await.body;
        assert!(page.contains(explained), "{answer}: {page}");
        assert_eq!(page.contains("New args") && page.contains("New due time"), key == "a", "{answer}: {page}");
        let page = post(&router, "/insert", &form(key, answer, "insert")).await.body;
        assert!(page.contains(told) && page.contains(&id.to_string()), "{answer}: {page}");
        let args = if key == "a" { r#"{"n": 2}"# } else { r#"{"n": 1}"# };
        assert_eq!(job(client, id).await.args.get(), args, "{answer}");
    }
}

#[tokio::test]
async fn a_periodic_job_is_paused_and_run() {
    let database = Database::new().await.unwrap();
    let (client, router) = (database.client(), dashboard(&database));
    let job = uniqueue::PeriodicJob::cron("nightly", "0 3 * * *", NewJob::new("sweep", &json!({})));
    client.periodic().define(job).await.unwrap();
    assert_eq!(post(&router, "/periodic/change", "name=nightly&verb=pause").await.status, StatusCode::SEE_OTHER);
    assert!(client.periodic().find("nightly").await.unwrap().unwrap().paused_at.is_some());
    let answer = post(&router, "/periodic/change", "name=nightly&verb=run").await;
    assert!(answer.header("location").starts_with("/periodic?ran="), "{}", answer.header("location"));
    assert_eq!(post(&router, "/periodic/change", "name=gone&verb=pause").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn an_audit_is_started_and_stopped() {
    let database = Database::new().await.unwrap();
    let (client, router) = (database.client(), dashboard(&database));
    post(&router, "/duplicates/audit", "kind=mail&verb=start").await;
    assert!(client.audited_kinds().await.unwrap()[0].is_audited);
    post(&router, "/duplicates/audit", "kind=mail&verb=stop").await;
    assert!(!client.audited_kinds().await.unwrap()[0].is_audited);
}
