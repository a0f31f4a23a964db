//! DESIGN §2's rules, each by its name.

use uniqueue::UniqueKey;

use crate::support::{Database, job};

#[tokio::test]
async fn r2_insert_with_a_claimed_key_is_a_duplicate() {
    let database = Database::new().await;
    let first = database.client.insert(job("a").unique_key(UniqueKey::raw("k"))).await.unwrap();
    assert!(!first.duplicate);
    let second = database.client.insert(job("b").unique_key(UniqueKey::raw("k"))).await.unwrap();
    assert!(second.duplicate);
    assert_eq!(second.id(), first.id());
    assert_eq!(second.job.kind.as_str(), "a");
}
