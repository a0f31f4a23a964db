//! Places: several schemas that work together.

mod changed;
mod citus;
mod client;
mod law;
mod many_servers;
mod moving;
mod refused;
mod runner;
mod together;

use support::by_url::database;
use support::prelude::*;

/// A map of places in databases of their own. Nothing is in them yet.
async fn map(names: &[&str], hashed: &[&str]) -> PlaceMap {
    let mut places = Vec::new();
    for name in names {
        places.push(PlaceAddress::new(*name, &database().await).unwrap());
    }
    PlaceMap::new(places).unwrap().hashed(hashed).unwrap()
}

/// The places of a map, ready for work.
async fn ready(map: PlaceMap) -> Places {
    let places = open(map);
    for (place, migrated) in places.migrate().await {
        assert!(migrated.is_ok_and(|applied| !applied.is_empty()), "{place}");
    }
    for (place, named) in places.init().await {
        assert!(named.is_ok(), "{place}: {named:?}");
    }
    places
}

fn open(map: PlaceMap) -> Places {
    Places::with(map, Client::builder().max_connections(4).connect_timeout(Duration::from_secs(2)))
}

/// Waits until a place accepts a job and works it.
async fn works(places: &Places, name: &str) {
    let client = places.at(name).unwrap();
    let inserted =
        eventually!(let inserted = client.insert(Task { n: 1 }).await; inserted.is_ok(), "{name}: {inserted:?}");
    let id = inserted.unwrap().id();
    eventually!(
        let job = client.job(id).await.ok().flatten();
        job.as_ref().is_some_and(|job| job.state == JobState::Completed), "{name}: {job:?}"
    );
}

/// A place that is not there.
fn nowhere(name: &str) -> PlaceAddress {
    PlaceAddress::new(name, "postgres://user@127.0.0.1:1/none").unwrap()
}

/// Jobs that are not final.
fn unfinished() -> JobFilter {
    use JobState::{Available, Pending, Retryable, Running, Scheduled};
    JobFilter::new().states([Available, Pending, Retryable, Running, Scheduled])
}
