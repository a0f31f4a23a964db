//! Places that change while they are used: the name, the password or the address is another one.

use uniqueue::PlaceState;

use super::refused::problems;
use super::{map, open, ready, works};
use support::by_url::{database, execute};
use support::prelude::*;

fn build(client: Client) -> Runner {
    let runner = Runner::new(client).queue("default", 2).worker(at_once);
    runner.lease(Duration::from_secs(3)).poll_interval(Duration::from_millis(50))
}

/// Ends the sessions of a role but this one.
async fn end_sessions(url: &str, of: &str) {
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()";
    execute(url, &format!("{end} AND {of}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_that_loses_its_name_works_nothing_until_it_has_it_again() {
    let places = ready(map(&["a", "b"], &["a", "b"]).await).await;
    let url = places.map().place("a").unwrap().url().to_owned();
    let runner = places.runner(build).start().await.unwrap();
    works(&places, "a").await;
    execute(&url, "DELETE FROM uniqueue.place").await;
    // Each new connection asks.
    end_sessions(&url, "true").await;
    let a = places.at("a").unwrap();
    let refused = eventually!(
        let inserted = a.insert(job("task")).await;
        matches!(inserted, Err(Error::MapMismatch { .. })), "{inserted:?}"
    );
    assert_eq!(
        refused.unwrap_err().to_string(),
        "the schema of place a has no name yet; hint: run `uniqueue places migrate`, or call `places.migrate()` and `places.init()`"
    );
    let waiting = Client::connect(&url).await.unwrap();
    let id = waiting.insert(Task { n: 2 }).await.unwrap().id();
    let sessions = async || {
        let sessions = "SELECT sessions FROM pg_stat_database WHERE datname = current_database()";
        sqlx::query_scalar::<_, i64>(sessions).fetch_one(waiting.pool()).await.unwrap()
    };
    // The runner comes there again and again, and leaves at once.
    let before = sessions().await;
    eventually!(let now = sessions().await; now > before + 8, "{now} after {before}");
    assert_eq!(waiting.job(id).await.unwrap().unwrap().state, JobState::Available);
    works(&places, "b").await;
    for (place, named) in places.init().await {
        assert!(named.is_ok(), "{place}: {named:?}");
    }
    eventually!(
        let job = waiting.job(id).await.unwrap().unwrap();
        job.state == JobState::Completed, "{job:?}"
    );
    works(&places, "a").await;
    runner.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_whose_password_changes_is_named_and_comes_back() {
    let server = Postgres::start().await.unwrap();
    execute(server.url(), "CREATE ROLE worker SUPERUSER LOGIN PASSWORD 'one'").await;
    let rules = "local all worker scram-sha-256\nlocal all all trust\n";
    fs::write(server.data_dir().join("pg_hba.conf"), rules).unwrap();
    execute(server.url(), "SELECT pg_reload_conf()").await;
    let secured = server.url().replacen("//postgres@", "//worker:one@", 1);
    let wrong = server.url().replacen("//postgres@", "//worker:other@", 1);
    eventually!(PgConnection::connect(&wrong).await.is_err(), "the server asks for no password");
    let address = |name: &str, url: &str| PlaceAddress::new(name, url).unwrap();
    let map = PlaceMap::new([address("a", &secured), address("b", &database().await)]).unwrap();
    let places = ready(map.clone()).await;
    let runner = places.runner(build).start().await.unwrap();
    works(&places, "a").await;

    execute(server.url(), "ALTER ROLE worker PASSWORD 'two'").await;
    end_sessions(server.url(), "usename = 'worker'").await;
    let told = eventually!(let told = problems(&places).await; !told.is_empty(), "it connects");
    let refused = "place a is down: error returned from database: password authentication failed for user \"worker\"; hint: check the user and the password of the database URL";
    assert_eq!(told, [refused]);
    works(&places, "b").await;
    // A process that begins now says the same, and works the other place.
    let late = open(map).runner(build).start().await.unwrap();
    let state = eventually!(
        let state = late.states().remove(places.at("a").unwrap().place().unwrap());
        matches!(state, Some(PlaceState::Down(_))), "{state:?}"
    );
    assert_eq!(state, Some(PlaceState::Down(refused.to_owned())));

    execute(server.url(), "ALTER ROLE worker PASSWORD 'one'").await;
    works(&places, "a").await;
    runner.stop().await.unwrap();
    late.stop().await.unwrap();
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_host_name_that_is_gone_is_named_with_a_remedy() {
    let gone = PlaceAddress::new("gone", "postgres://user@gone.invalid/app").unwrap();
    let places = ready(map(&["a"], &[]).await).await;
    let both = PlaceMap::new(places.map().places().cloned().chain([gone])).unwrap().hashed(["gone"]).unwrap();
    let places = open(both);
    let told = problems(&places).await;
    assert!(told.len() == 1 && told[0].starts_with("place gone is down: ") && told[0].contains("; hint: "), "{told:?}");
    let error = places.insert(NewJob::from(Task { n: 1 }).place(PlaceBy::Id)).await.unwrap_err();
    assert!(error.is_retryable() && error.to_string().starts_with("place gone is down: "), "{error}");
    places.at("a").unwrap().insert(Task { n: 1 }).await.unwrap();
}

#[tokio::test]
async fn two_addresses_of_one_schema_are_found_by_its_name() {
    let url = database().await;
    // Another text for the same socket.
    let alias = url.replacen("?host=%2F", "?host=%2F.%2F", 1);
    assert_ne!(alias, url);
    let address = |name: &str, url: &str| PlaceAddress::new(name, url).unwrap();
    let map = PlaceMap::new([address("a", &url), address("b", &alias)]).unwrap().hashed(["a", "b"]).unwrap();
    let places = open(map);
    assert!(places.migrate().await.into_iter().all(|(_, migrated)| migrated.is_ok()));
    let mut named = places.init().await;
    // Which of the two comes first is open.
    named.sort_by_key(|(_, named)| named.is_err());
    let ((first, came), (second, refused)) = (&named[0], &named[1]);
    assert!(came.is_ok(), "{named:?}");
    let text = format!(
        "the map's place {second} is a schema that says it is place {first} of the hashed places a, b; hint: mend the URL, the schema or the hashed list of the map"
    );
    assert!(matches!(refused, Err(Error::MapMismatch { .. })), "{refused:?}");
    assert_eq!(refused.as_ref().unwrap_err().to_string(), text);
    assert_eq!(problems(&places).await, [text]);
}

#[tokio::test]
async fn places_may_have_odd_names() {
    let names = ["é", "a b/c?d#e", "%41", "places-", "all", &"x".repeat(63), &"é".repeat(64)];
    let places = ready(map(&names, &names).await).await;
    let runner = places.runner(build).start().await.unwrap();
    for name in names {
        works(&places, name).await;
        let own = sqlx::query_scalar::<_, String>("SELECT uniqueue.place()");
        assert_eq!(own.fetch_one(places.at(name).unwrap().pool()).await.unwrap(), name);
    }
    assert_eq!(problems(&places).await, [""; 0]);
    runner.stop().await.unwrap();
}
