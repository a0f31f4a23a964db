//! A place on a worker node of Citus. `CITUS_URL` names a database on a worker, without a schema `uniqueue`.

use uniqueue::{Client, NewJob, PlaceAddress, PlaceBy, PlaceMap};

use super::open;
use support::{job, tools};

#[tokio::test]
async fn a_place_on_a_citus_node_is_opened_with_its_option() {
    let Some(url) = std::env::var("CITUS_URL").ok().filter(|url| !url.is_empty()) else {
        return tools::lacks("citus", "a worker node of Citus, named by CITUS_URL");
    };
    let client = Client::connect(&url).await.unwrap();
    let error = client.migrate().await.unwrap_err().to_string();
    assert!(error.contains("options=-c%20citus.enable_ddl_propagation%3Doff"), "{error}");
    let place = PlaceAddress::new("node", &url).unwrap().on_citus();
    let places = open(PlaceMap::new([place]).unwrap().hashed(["node"]).unwrap());
    assert!(!places.migrate().await.remove(0).1.unwrap().is_empty());
    places.init().await.remove(0).1.unwrap();
    let once = || NewJob::from(support::Task { n: 1 }).unique(uniqueue::UniquePolicy::new()).place(PlaceBy::UniqueKey);
    assert!(!places.insert(once()).await.unwrap().value.duplicate);
    assert!(places.insert(once()).await.unwrap().value.duplicate);
    let node = places.at("node").unwrap();
    let mut tx = node.pool().begin().await.unwrap();
    let id = node.insert(job("task")).tx(&mut tx).await.unwrap().id();
    tx.rollback().await.unwrap();
    assert!(node.job(id).await.unwrap().is_none());
    sqlx::query("DROP SCHEMA uniqueue CASCADE").execute(node.pool()).await.unwrap();
}
