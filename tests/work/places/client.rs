//! Each job is inserted into the place that it declares.

use uniqueue_admin::doubled_keys;

use super::{map, nowhere, open, ready};
use support::prelude::*;

#[derive(Clone, Debug, Deserialize, Job, Serialize)]
#[job(kind = "by.key", unique(args), place = "unique_key")]
struct ByKey {
    n: u32,
}

#[derive(Debug, Deserialize, Job, Serialize)]
#[job(kind = "by.group", group(customer), place = "group")]
struct ByGroup {
    customer: u32,
    n: u32,
}

#[derive(Debug, Deserialize, Job, Serialize)]
#[job(kind = "by.tenant", place = "tenant")]
struct ByTenant {
    tenant: String,
    n: u32,
}

/// By hand.
#[derive(Debug, Deserialize, Serialize)]
struct ById {
    n: u32,
}

impl Job for ById {
    const KIND: &'static str = "by.id";

    fn options() -> InsertOptions {
        InsertOptions::new().place(PlaceBy::Id)
    }
}

const NAMES: [&str; 3] = ["a", "b", "c"];

#[tokio::test]
async fn each_kind_declares_the_value_that_decides_its_place() {
    let places = ready(map(&["other", "a", "b", "c"], &NAMES).await).await;
    let mut seen = BTreeMap::<&str, u32>::new();
    let of = |value: &str| places.map().place_of(value).unwrap().clone();
    for n in 0..24 {
        let (place, inserted) = places.insert(ByKey { n }).await.unwrap();
        assert_eq!(place, of(inserted.job.unique_key.as_deref().unwrap()));
        *seen.entry(NAMES.iter().find(|name| **name == place.as_str()).unwrap()).or_default() += 1;
        let (place, inserted) = places.insert(ByGroup { customer: n / 2, n }).await.unwrap();
        assert_eq!(place, of(inserted.job.group_key.as_deref().unwrap()));
        let (place, _) = places.insert(ByTenant { tenant: format!("t{}", n % 5), n }).await.unwrap();
        assert_eq!(place, of(&format!("t{}", n % 5)));
        assert_eq!(place, *places.of(&format!("t{}", n % 5)).unwrap().place().unwrap());
        let (place, inserted) = places.insert(NewJob::from(ById { n }).priority(3)).await.unwrap();
        assert_eq!((place, inserted.job.priority), (of(&inserted.id().to_string()), 3));
    }
    assert_eq!(seen.len(), 3, "{seen:?}");
    // A key has one holder in all places.
    for n in 0..24 {
        assert!(places.insert(ByKey { n }).await.unwrap().1.duplicate, "{n}");
    }
}

#[tokio::test]
async fn an_insert_that_is_sent_twice_meets_itself() {
    let places = ready(map(&NAMES, &NAMES).await).await;
    for n in 0..6 {
        let id = JobId::generate();
        let first = places.insert(NewJob::from(ById { n }).id(id)).await.unwrap();
        let second = places.insert(NewJob::from(ById { n }).id(id)).await.unwrap();
        assert_eq!((first.0, first.1.id()), (second.0, second.1.id()));
        let (_, found) = places.job(id).await.unwrap().unwrap();
        assert_eq!((found.id, found.kind.as_str()), (id, "by.id"));
    }
    let total: usize = counts(&places).await.values().sum();
    assert_eq!(total, 6);
    assert!(places.job(JobId::generate()).await.unwrap().is_none());
}

#[tokio::test]
async fn a_job_made_by_name_goes_by_its_registered_kind() {
    let places = ready(map(&NAMES, &NAMES).await).await;
    let register = |client: Client| async move {
        client.register::<ByKey>().await?;
        Admin::new(&client).kind("by.key").await
    };
    for (_, registered) in places.ask(register).await {
        assert_eq!(registered.unwrap().unwrap().place, Some(PlaceBy::UniqueKey));
    }
    for n in 0..5 {
        let typed = places.insert(ByKey { n }).await.unwrap();
        let named = places.insert(NewJob::new("by.key", &json!({ "n": n }))).await.unwrap();
        assert!(named.1.duplicate, "{n}");
        assert_eq!((typed.0, typed.1.id()), (named.0, named.1.id()));
    }
    let error = places.insert(NewJob::new("unknown", &json!({}))).await.unwrap_err();
    assert!(error.to_string().starts_with("invalid place: the job declares none; hint:"), "{error}");
    let own = NewJob::new("unknown", &json!({"t": "x"})).place(PlaceBy::arg("t"));
    assert_eq!(places.insert(own).await.unwrap().0, *places.map().place_of("x").unwrap());
}

#[tokio::test]
async fn a_bulk_insert_is_all_or_nothing_in_each_place_and_says_which() {
    let places = ready(map(&NAMES, &NAMES).await).await;
    let answers = places.insert_many((0..60).map(|n| ByKey { n })).await.unwrap();
    assert_eq!(answers.iter().map(|answer| answer.place.as_str()).collect::<Vec<_>>(), NAMES);
    let mut inputs: Vec<_> = answers.iter().flat_map(|answer| answer.inputs.clone()).collect();
    inputs.sort_unstable();
    assert_eq!(inputs, (0..60).collect::<Vec<_>>());
    for answer in &answers {
        let inserted = answer.inserted.as_ref().unwrap();
        for (input, inserted) in answer.inputs.iter().zip(inserted) {
            assert_eq!(inserted.job.args.get(), format!("{{\"n\":{input}}}"));
        }
    }
    // One place rejects its part, and the other places insert their parts.
    let policy = || UniquePolicy::new().by_args().on_conflict(OnConflict::Reject);
    let jobs = (59..90).map(|n| NewJob::from(ByKey { n }).unique(policy()));
    let answers = places.insert_many(jobs).await.unwrap();
    let rejected: Vec<_> = answers.iter().filter(|answer| answer.inserted.is_err()).collect();
    assert!(rejected.len() == 1 && rejected[0].inputs.contains(&0), "{answers:?}");
    let inserted: usize = answers.iter().filter_map(|answer| answer.inserted.as_ref().ok()).map(Vec::len).sum();
    assert_eq!(counts(&places).await.values().sum::<usize>(), 60 + inserted);
}

#[tokio::test]
async fn a_place_that_is_down_fails_alone() {
    let whole = map(&["a", "b"], &[]).await;
    let with_hole = || PlaceMap::new(whole.places().cloned().chain([nowhere("c")])).unwrap().hashed(NAMES).unwrap();
    let places = open(with_hole());
    let states: Vec<_> = places.migrate().await.into_iter().map(|(_, state)| state.is_ok()).collect();
    assert_eq!(states, [true, true, false]);
    let named: Vec<_> = places.init().await.into_iter().map(|(_, state)| state.is_ok()).collect();
    assert_eq!(named, [true, true, false]);
    let answers = places.insert_many((0..30).map(|n| ByKey { n })).await.unwrap();
    assert_eq!(answers.len(), 3);
    for answer in answers {
        match answer.inserted {
            Ok(inserted) => assert_eq!(inserted.len(), answer.inputs.len()),
            Err(error) => {
                assert!(matches!(&error, Error::PlaceDown { place, .. } if place.as_str() == "c"), "{error}");
                assert!(error.is_retryable() && error.to_string().starts_with("place c is down: "), "{error}");
            }
        }
    }
    // A job that is found in another place is found. Whether another job exists is not known.
    let stored = places.at("a").unwrap().insert(ByKey { n: 99 }).await.unwrap().id();
    assert_eq!(places.job(stored).await.unwrap().unwrap().0.as_str(), "a");
    assert!(matches!(places.job(JobId::generate()).await, Err(Error::PlaceDown { .. })));
}

#[tokio::test]
async fn a_call_to_a_place_that_refuses_connections_fails_at_once() {
    let places = Places::new(PlaceMap::new([nowhere("c")]).unwrap());
    let began = Instant::now();
    let error = places.at("c").unwrap().insert(ByKey { n: 1 }).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    assert!(matches!(
        places.ask(|client| async move { client.database_time().await }).await[0].1,
        Err(Error::PlaceDown { .. })
    ));
    assert!(began.elapsed() < Duration::from_secs(3), "the limit of a call is 10 s");
}

#[tokio::test]
async fn a_child_belongs_to_the_place_of_its_parent() {
    let places = ready(map(&NAMES, &NAMES).await).await;
    let of = |n: u32, tenant: &str| NewJob::from(ByTenant { tenant: tenant.to_owned(), n });
    let parent = of(1, "x");
    let child = of(2, "x").after(&parent);
    let answers = places.insert_many([of(0, "t0"), of(0, "t1"), parent, child]).await.unwrap();
    assert!(answers.iter().all(|answer| answer.inserted.is_ok()), "{answers:?}");
    let elsewhere =
        (0..).map(|n| format!("y{n}")).find(|value| places.map().place_of(value) != places.map().place_of("x"));
    let parent = of(1, "x");
    let child = of(2, &elsewhere.unwrap()).after(&parent);
    let error = places.insert_many([parent, child]).await.unwrap_err().to_string();
    assert!(error.starts_with("invalid after: a job and its parents must belong to one place: job 1"), "{error}");
}

#[tokio::test]
async fn a_key_that_two_hashed_places_claim_is_found() {
    let places = ready(map(&["named", "a", "b"], &["a", "b"]).await).await;
    let insert = async |place: &str, key: &str| {
        let job = NewJob::new("by.hand", &json!({})).unique_key(UniqueKey::raw(key));
        places.at(place).unwrap().insert(job).await.unwrap();
    };
    for (place, key) in [("a", "one"), ("b", "two"), ("named", "one"), ("named", "two")] {
        insert(place, key).await;
    }
    assert!(doubled_keys(&places, 100).await.is_empty());
    insert("b", "one").await;
    let doubled = doubled_keys(&places, 100).await;
    assert_eq!(doubled.len(), 1);
    assert_eq!(doubled[0].0, "one");
    assert_eq!(doubled[0].1.iter().map(uniqueue::PlaceName::as_str).collect::<Vec<_>>(), ["a", "b"]);
}

/// How many jobs each place has.
async fn counts(places: &Places) -> BTreeMap<String, usize> {
    let ask = |client: Client| async move { Ok(client.count_jobs(JobFilter::all(), 10_000).await?.counted()) };
    let answers = places.ask(ask).await.into_iter();
    answers.map(|(place, count)| (place.to_string(), usize::try_from(count.unwrap()).unwrap())).collect()
}
