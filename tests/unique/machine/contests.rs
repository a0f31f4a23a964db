//! Many contested keys at once.

use super::moves::Moves;
use support::prelude::*;

fn unique(key: String, states: StateSet) -> NewJob {
    job("task").unique_key(UniqueKey::raw(key).states(states))
}

#[support::test]
async fn r6_contested_keys_delay_a_promotion_little_and_deadlock_nobody(database: Database, client: &Client) {
    let moves = Moves::new(&database);
    let available = StateSet::from_bits(1).unwrap();
    // They come back to their states when they are promoted, and one claims all the time.
    let waiting = (0..999).map(|n| unique(format!("k{n}"), available).scheduled_in(Duration::from_millis(1)));
    client.insert_many(waiting).await.unwrap();
    let target = client.insert(unique("z".to_owned(), StateSet::ALL).scheduled_in(Duration::from_millis(1))).await;
    let target = target.unwrap();
    let mut rival = database.pool().begin().await.unwrap();
    client.insert_many((0..999).map(|n| unique(format!("k{n}"), available))).tx(&mut rival).await.unwrap();

    let mut connection = database.pool().acquire().await.unwrap();
    let promotion = tokio::spawn(async move {
        let began = Instant::now();
        moves.promote(&mut connection).await.unwrap();
        began.elapsed()
    });
    // Waits for the row that the promotion has locked, and holds every key that it contests.
    let blocked = "SELECT count(*) FROM pg_stat_activity AS a, unnest(pg_blocking_pids(a.pid)) AS b
        WHERE a.datname = current_database()";
    while database.number(blocked).await == 0 && !promotion.is_finished() {
        tokio::task::yield_now().await;
    }
    let replace = UniqueKey::raw("z").states(StateSet::ALL).on_conflict(OnConflict::Replace);
    let answer = client.insert(job("task").unique_key(replace)).tx(&mut rival).await.unwrap();
    assert_eq!(answer.replaced, Some(target.id()));
    rival.commit().await.unwrap();
    let took = promotion.await.unwrap();
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job WHERE state IN ('scheduled', 'retryable')").await, 0);
}

#[support::test]
async fn r10_batches_of_the_same_ids_in_opposed_orders_never_deadlock(database: Database) {
    for _ in 0..30 {
        let ids: Vec<_> = (0..100).map(|_| uuid::Uuid::now_v7()).collect();
        let batches = [ids.clone(), ids.into_iter().rev().collect()].map(|ids| {
            let client = database.client.clone();
            async move { client.insert_many(ids.into_iter().map(|id| job("task").id(id))).await.unwrap() }
        });
        together(batches).await;
    }
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 3000);
}
