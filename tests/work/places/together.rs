//! All places at once: their statistics, and what only a comparison finds.

use uniqueue_admin::{Stats, diagnose_places};

use super::{map, nowhere, open, ready};
use support::prelude::*;

#[tokio::test]
async fn a_comparison_finds_what_no_place_sees_by_itself() {
    let hashed = ["a", "b", "newer"];
    let whole = map(&["named", "a", "b", "newer", "other"], &hashed).await;
    let places = ready(whole.clone()).await;
    assert!(diagnose_places(&places).await.is_empty(), "{:?}", diagnose_places(&places).await);
    let at = |name: &str| places.at(name).unwrap();
    let key = || NewJob::new("by.hand", &json!({})).unique_key(UniqueKey::raw("one"));
    for place in ["a", "b", "named"] {
        at(place).insert(key()).await.unwrap();
    }
    at("a").queue("mail").limit(Some(3)).await.unwrap();
    at("named").queue("post").limit(Some(3)).await.unwrap();
    let version =
        "INSERT INTO uniqueue.schema_history (version, name, applied_on, checksum) VALUES (9999, 'x', '', '1')";
    sqlx::query(version).execute(at("newer").pool()).await.unwrap();
    sqlx::query("UPDATE uniqueue.place SET name = 'another'").execute(at("other").pool()).await.unwrap();
    let places = open(PlaceMap::new(whole.places().cloned().chain([nowhere("gone")])).unwrap().hashed(hashed).unwrap());
    let mut found: Vec<_> =
        diagnose_places(&places).await.into_iter().map(|one| (one.code, one.subject, one.seen)).collect();
    found.sort_by(|one, other| one.0.cmp(&other.0));
    let codes: Vec<_> = found.iter().map(|(code, subject, _)| (code.as_str(), subject.as_str())).collect();
    assert_eq!(
        codes,
        [
            ("key_in_places", "key one"),
            ("place_down", "place gone"),
            ("place_mismatch", "place other"),
            ("place_settings", "queue mail"),
            ("place_version", "place newer"),
        ]
    );
    assert_eq!(found[0].2, "it is claimed in a, b");
    assert_eq!(found[3].2, "limit is 3 in a, and not set in b");
}

#[tokio::test]
async fn each_setting_that_differs_between_hashed_places_is_named() {
    let places = ready(map(&["a", "b"], &["a", "b"]).await).await;
    let (a, b) = (places.at("a").unwrap(), places.at("b").unwrap());
    a.queue("mail").pause_because("maintenance").actor("ada").await.unwrap();
    a.queue("post").limit(Some(3)).await.unwrap();
    b.queue("post").limit(Some(4)).await.unwrap();
    b.queue("post")
        .set(uniqueue::QueueChanges::new().rate(Some(uniqueue::Rate::per(5, Duration::from_secs(1)))))
        .await
        .unwrap();
    let register = format!("SELECT FROM {}.register_kind('task', 'q')", a.schema());
    sqlx::raw_sql(sqlx::AssertSqlSafe(register)).execute(a.pool()).await.unwrap();
    // The same in both places: no finding.
    for client in [a, b] {
        client.queue("same").pause().actor(client.place().unwrap().as_str()).await.unwrap();
    }
    let found: Vec<_> = diagnose_places(&places).await.into_iter().map(|one| (one.subject, one.seen)).collect();
    let text = |subject: &str, seen: &str| (subject.to_owned(), seen.to_owned());
    assert_eq!(
        found,
        [
            text("kind task", "queue is \"q\" in a, and not set in b; registered is not set in b, and set in a"),
            text("queue mail", "paused is not set in b, and set in a"),
            text("queue post", "limit is 3 in a, and 4 in b; rate is 5/1s in b, and not set in a"),
        ]
    );
}

#[tokio::test]
async fn a_place_whose_role_may_not_read_settings_is_not_compared() {
    let whole = map(&["a", "b"], &["a", "b"]).await;
    let places = ready(whole.clone()).await;
    places.at("a").unwrap().queue("mail").limit(Some(3)).await.unwrap();
    assert_eq!(diagnose_places(&places).await.len(), 1);
    let role = format!("blind_{}", uuid::Uuid::now_v7().simple());
    for statement in [
        format!("CREATE ROLE {role} LOGIN"),
        format!("GRANT USAGE ON SCHEMA uniqueue TO {role}"),
        format!("GRANT SELECT ON ALL TABLES IN SCHEMA uniqueue TO {role}"),
        format!("REVOKE SELECT ON uniqueue.queue FROM {role}"),
    ] {
        sqlx::query(sqlx::AssertSqlSafe(statement)).execute(places.at("b").unwrap().pool()).await.unwrap();
    }
    let blind = whole.places().map(|place| match place.name().as_str() {
        "b" => PlaceAddress::new("b", &place.url().replacen("//postgres@", &format!("//{role}@"), 1)).unwrap(),
        _ => place.clone(),
    });
    let places = open(PlaceMap::new(blind).unwrap().hashed(["a", "b"]).unwrap());
    let refused = Admin::new(places.at("b").unwrap()).queues().await.unwrap_err().to_string();
    assert!(refused.contains("permission denied"), "{refused}");
    let found = diagnose_places(&places).await;
    assert!(found.is_empty(), "{found:?}");
}

#[tokio::test]
async fn statistics_of_all_places_are_those_of_one_sample() {
    let places = ready(map(&["a", "b"], &["a", "b"]).await).await;
    for (_, client) in places.iter() {
        client.insert_many((0..30).map(|n| Task { n })).await.unwrap();
    }
    let build = |client| Runner::new(client).queue("default", 4).worker(at_once);
    let runner = places.runner(build).start().await.unwrap();
    super::runner::until_worked(&places).await;
    let answers = places.ask(|client| async move { Admin::new(&client).stats().sample(20).await }).await;
    let stats = Stats::merged(answers.into_iter().map(|(_, stats)| stats.unwrap())).unwrap();
    assert_eq!(stats.runners, 2);
    assert_eq!(stats.jobs[&JobState::Completed].counted(), 60);
    let finished = stats.finished.unwrap();
    assert_eq!(finished.jobs, 20);
    assert!(finished.run.p50 <= finished.run.max && finished.run.max < MINUTE);
    runner.stop().await.unwrap();
}
