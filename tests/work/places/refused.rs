//! A client whose map is wrong is refused, and so is a transaction that is open elsewhere.

use sqlx::raw_sql;

use super::{map, open, ready, works};
use support::by_url::execute;
use support::prelude::*;

/// The texts of the errors of a check.
pub(super) async fn problems(places: &Places) -> Vec<String> {
    let checked = places.check().await.into_iter();
    checked.filter_map(|(_, checked)| checked.err()).map(|error| error.to_string()).collect()
}

#[tokio::test]
async fn a_client_with_another_map_is_refused() {
    let right = map(&["a", "b", "other"], &["a", "b"]).await;
    let places = ready(right.clone()).await;
    assert_eq!(problems(&places).await, [""; 0]);
    places.insert(NewJob::from(Task { n: 1 }).place(PlaceBy::Id)).await.unwrap();

    // Another order is another list.
    let reordered = open(right.clone().hashed(["b", "a"]).unwrap());
    let told = problems(&reordered).await;
    assert_eq!(told.len(), 3, "{told:?}");
    assert_eq!(
        told[0],
        "the map's place a is a schema that says it is place a of the hashed places a, b; hint: mend the URL, the schema or the hashed list of the map"
    );
    let error = reordered.insert(NewJob::from(Task { n: 1 }).place(PlaceBy::Id)).await.unwrap_err();
    assert!(matches!(error, Error::MapMismatch { .. }), "{error}");
    let refused = Runner::new(reordered.at("a").unwrap().clone()).queue("default", 1).worker(at_once);
    assert!(matches!(refused.start().await, Err(Error::MapMismatch { .. })));

    // Two URLs are swapped.
    let urls: Vec<_> = right.places().map(|place| place.url().to_owned()).collect();
    let address = |name, url: &String| PlaceAddress::new(name, url).unwrap();
    let swapped = PlaceMap::new([address("a", &urls[1]), address("b", &urls[0])]).unwrap().hashed(["a", "b"]);
    assert_eq!(problems(&open(swapped.unwrap())).await.len(), 2);

    // A place more is another map of names, and no other list.
    let more = right.places().cloned().chain([super::nowhere("new")]);
    let more = open(PlaceMap::new(more).unwrap().hashed(["a", "b"]).unwrap());
    let told = problems(&more).await;
    assert!(told.len() == 1 && told[0].starts_with("place new is down: "), "{told:?}");
    for (place, named) in reordered.init().await {
        assert!(named.is_err(), "{place}");
    }
    // A place outside of the list learns it when it is named again, and takes clients that do not know it.
    let alone = right.places().filter(|place| place.name().as_str() == "other").cloned();
    let alone = open(PlaceMap::new(alone).unwrap());
    execute(right.place("other").unwrap().url(), "UPDATE uniqueue.place SET hashed = NULL").await;
    for places in [&alone, &places, &alone] {
        assert!(places.init().await.into_iter().all(|(_, named)| named.is_ok()));
        assert_eq!(problems(places).await, [""; 0]);
    }
    assert_eq!(problems(&reordered).await.len(), 3);
}

#[tokio::test]
async fn a_place_without_a_name_is_refused_until_it_gets_one() {
    let places = open(map(&["a"], &[]).await);
    assert!(
        problems(&places).await[0]
            .starts_with("the schema of place a has no name yet; hint: run `uniqueue places migrate`")
    );
    assert!(places.migrate().await.remove(0).1.is_ok());
    let client = places.at("a").unwrap();
    assert!(matches!(client.insert(job("task")).await, Err(Error::MapMismatch { found: None, .. })));
    // The schema is a queue all the same.
    let plain = Client::connect(places.map().places().next().unwrap().url()).await.unwrap();
    plain.insert(job("task")).await.unwrap();
    let name = || sqlx::query_scalar::<_, Option<String>>("SELECT uniqueue.place()").fetch_one(plain.pool());
    assert_eq!(name().await.unwrap(), None);
    places.init().await.remove(0).1.unwrap();
    places.init().await.remove(0).1.unwrap();
    assert_eq!(name().await.unwrap().as_deref(), Some("a"));
    client.insert(job("task")).await.unwrap();
    // Without a list nothing is hashed.
    let error = places.of("value").unwrap_err().to_string();
    assert!(error.starts_with("invalid map of places: no places share hashed values; hint:"), "{error}");
    let error = places.at("b").unwrap_err().to_string();
    assert_eq!(error, "unknown place: \"b\"; hint: the places are a");
}

#[tokio::test]
async fn a_transaction_of_another_place_is_refused() {
    let places = ready(map(&["a", "b"], &[]).await).await;
    let (a, b) = (places.at("a").unwrap(), places.at("b").unwrap());
    let mut tx = b.pool().begin().await.unwrap();
    let error = a.insert(job("task")).tx(&mut tx).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the transaction is in place b, not in place a; hint: begin it on the place's own pool: places.at(\"a\")?.pool()"
    );
    assert!(!error.is_retryable());
    for refused in [
        a.insert_many([job("task")]).tx(&mut tx).await.map(|_| ()),
        a.insert(job("task")).actor("me").tx(&mut tx).await.map(|_| ()),
        a.job(JobId::generate()).tx(&mut tx).await.map(|_| ()),
        a.job(JobId::generate()).tx(&mut tx).timeout(WAIT).await.map(|_| ()),
    ] {
        assert!(matches!(refused, Err(Error::WrongPlace { .. })));
    }
    // The transaction is usable.
    let kept = b.insert(job("task")).tx(&mut tx).await.unwrap().id();
    tx.commit().await.unwrap();
    assert!(b.job(kept).await.unwrap().is_some());
    // A database that is no place.
    let mut elsewhere = PgConnection::connect(support::url().await).await.unwrap();
    let error = a.insert(job("task")).tx(&mut elsewhere).await.unwrap_err();
    assert!(matches!(error, Error::WrongPlace { found: None, .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_that_is_led_to_another_place_works_nothing_there() {
    let (right, wrong) = (Postgres::start().await.unwrap(), Postgres::start().await.unwrap());
    let proxy = Proxy::before(right.url()).await;
    let map = |name: &str, url: &str| PlaceMap::new([PlaceAddress::new(name, url).unwrap()]).unwrap();
    let elsewhere = ready(map("b", wrong.url())).await;
    let places = ready(map("a", &proxy.url())).await;
    let build = |client| {
        let runner = Runner::new(client).queue("default", 2).worker(at_once);
        runner.lease(Duration::from_secs(1)).poll_interval(Duration::from_millis(50))
    };
    let runner = places.runner(build).start().await.unwrap();
    let (a, b) = (places.at("a").unwrap(), elsewhere.at("b").unwrap());
    works(&places, "a").await;
    let waiting = b.insert(Task { n: 2 }).await.unwrap().id();
    let sessions = async || {
        let sessions = "SELECT sum(sessions)::bigint FROM pg_stat_database";
        sqlx::query_scalar::<_, i64>(sessions).fetch_one(b.pool()).await.unwrap()
    };
    let before = sessions().await;
    proxy.lead_to(wrong.url());
    proxy.close_silent_after(Duration::from_millis(1));
    proxy.freeze();
    // The runner comes there again and again, and leaves at once.
    eventually!(let now = sessions().await; now > before + 8, "{now} after {before}");
    let error =
        eventually!(let inserted = a.insert(Task { n: 3 }).await; inserted.is_err(), "{inserted:?}").unwrap_err();
    assert!(matches!(error, Error::MapMismatch { .. }) || error.is_retryable(), "{error}");
    assert_eq!(b.job(waiting).await.unwrap().unwrap().state, JobState::Available);
    assert!(Admin::new(b).runners().await.unwrap().is_empty());
    // It comes back by itself.
    proxy.lead_to(right.url());
    works(&places, "a").await;
    runner.stop().await.unwrap();
    right.stop().await.unwrap();
    wrong.stop().await.unwrap();
}

#[tokio::test]
async fn a_connection_to_another_place_is_not_used_though_a_later_one_was_right() {
    let (right, wrong) = (Postgres::start().await.unwrap(), Postgres::start().await.unwrap());
    let proxy = Proxy::before(right.url()).await;
    let map = |name: &str, url: &str| PlaceMap::new([PlaceAddress::new(name, url).unwrap()]).unwrap();
    let elsewhere = ready(map("b", wrong.url())).await;
    ready(map("a", &proxy.url())).await;
    let places = open(map("a", &proxy.url()));
    let a = places.at("a").unwrap();
    proxy.lead_to(wrong.url());
    let wrong_one = a.pool().acquire().await.unwrap();
    proxy.lead_to(right.url());
    let right_one = a.pool().acquire().await.unwrap();
    drop(wrong_one);
    eventually!(a.pool().num_idle() == 1, "not returned");
    let id = a.insert(job("task")).await.unwrap().id();
    assert!(a.job(id).await.unwrap().is_some());
    let b = elsewhere.at("b").unwrap();
    assert_eq!(b.count_jobs(JobFilter::all(), 10).await.unwrap().counted(), 0);
    drop(right_one);
    right.stop().await.unwrap();
    wrong.stop().await.unwrap();
}

#[tokio::test]
async fn a_connection_is_asked_again_if_it_was_opened_before_the_last_notice() {
    let places = ready(map(&["a"], &[]).await).await;
    let limit = Duration::from_secs(2);
    let places = Places::with(places.map().clone(), Client::builder().max_connections(4).connect_timeout(limit));
    let a = places.at("a").unwrap();
    let url = places.map().place("a").unwrap().url();
    let rename = async |name: &str| execute(url, &format!("UPDATE uniqueue.place SET name = '{name}'")).await;
    let asked = async || a.job(JobId::generate()).await;
    let old = a.pool().acquire().await.unwrap();
    rename("other").await;
    // The pool notices with a new connection.
    drop(a.pool().acquire().await.unwrap().detach());
    rename("a").await;
    // A connection that is opened later than this was not opened at the notice.
    tokio::time::sleep(limit + Duration::from_millis(100)).await;
    let young = a.pool().acquire().await.unwrap();
    rename("other").await;
    // The connection that was opened later is not asked, and one that was opened before is, though it was idle for a moment only.
    drop(young);
    eventually!(a.pool().num_idle() == 1, "not returned");
    assert!(asked().await.unwrap().is_none());
    eventually!(a.pool().num_idle() == 1, "not returned");
    let young = a.pool().acquire().await.unwrap();
    drop(old);
    eventually!(a.pool().num_idle() == 1, "not returned");
    let error = asked().await.unwrap_err();
    assert!(matches!(error, Error::MapMismatch { .. }), "{error}");
    // Now both are older than the last notice.
    drop(young);
    assert!(matches!(asked().await, Err(Error::MapMismatch { .. })));
    rename("a").await;
    assert!(asked().await.unwrap().is_none());
}

#[tokio::test]
async fn a_key_that_the_clock_decides_does_not_decide_the_place() {
    let places = ready(map(&["a", "b"], &["a", "b"]).await).await;
    let windowed = || {
        let policy = UniquePolicy::new().by_args().window(HOUR);
        NewJob::from(Task { n: 1 }).unique(policy).place(PlaceBy::UniqueKey)
    };
    let error = places.insert(windowed()).await.unwrap_err().to_string();
    assert!(error.starts_with("invalid place: a policy with a window makes another key"), "{error}");
    let at = datetime!(2030-01-01 10:30 UTC);
    assert!(!places.insert(windowed().scheduled_at(at)).await.unwrap().1.duplicate);
    assert!(places.insert(windowed().scheduled_at(at)).await.unwrap().1.duplicate);
    let none = places.insert(NewJob::from(Task { n: 1 }).place(PlaceBy::Group)).await.unwrap_err().to_string();
    assert_eq!(none, "invalid place: the job has no such value: \"group\" of kind \"task\"");
}

#[tokio::test]
async fn a_transaction_that_will_be_prepared_switches_notifications_off() {
    let server = Postgres::builder().setting("max_prepared_transactions", "4").start().await.unwrap();
    let client = Client::connect(server.url()).await.unwrap();
    client.migrate().await.unwrap();
    // A runner that sleeps, so that inserts notify.
    let sleeping = "INSERT INTO uniqueue.runner (id, name, queues, kinds, idle, knows_groups, leased_until)
        SELECT gen_random_uuid(), 'asleep', '{default}', '{task}', true, true, now() + interval '1 hour'";
    raw_sql(sleeping).execute(client.pool()).await.unwrap();
    let prepare = async |before: &str, name: &str| {
        let mut connection = PgConnection::connect(server.url()).await.unwrap();
        let sql = format!("{before}; BEGIN; SELECT uniqueue.insert_job('task'); PREPARE TRANSACTION '{name}'");
        let prepared = raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut connection).await;
        prepared.map(|_| ()).map_err(|error| error.to_string())
    };
    let error = prepare("SELECT 1", "one").await.unwrap_err();
    assert!(error.contains("cannot PREPARE a transaction that has executed LISTEN, UNLISTEN, or NOTIFY"), "{error}");
    prepare("SET uniqueue.notify = off", "two").await.unwrap();
    prepare("SELECT uniqueue.name_place('a'); UPDATE uniqueue.place SET notifies = false", "three").await.unwrap();
    for name in ["two", "three"] {
        let commit = sqlx::AssertSqlSafe(format!("COMMIT PREPARED '{name}'"));
        raw_sql(commit).execute(client.pool()).await.unwrap();
    }
    assert_eq!(client.count_jobs(JobFilter::all(), 10).await.unwrap().counted(), 2);
    server.stop().await.unwrap();
}
