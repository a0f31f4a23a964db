//! A place refuses a job that by the way of its kind belongs to another place.

use uniqueue::PlaceName;

use super::{map, ready};
use support::prelude::*;

#[derive(Clone, Debug, Deserialize, Job, Serialize)]
#[job(kind = "by.key", unique(args), place = "unique_key")]
struct ByKey {
    n: u32,
}

#[derive(Clone, Debug, Deserialize, Job, Serialize)]
#[job(kind = "by.group", group(customer), place = "group")]
struct ByGroup {
    customer: u32,
}

#[derive(Clone, Debug, Deserialize, Job, Serialize)]
#[job(kind = "by.tenant", place = "tenant")]
struct ByTenant {
    tenant: String,
}

#[derive(Clone, Debug, Deserialize, Job, Serialize)]
#[job(kind = "by.id", place = "id")]
struct ById {}

/// The places, one of which is not hashed.
const PLACES: [&str; 4] = ["named", "a", "b", "c"];

async fn places() -> Places {
    ready(map(&PLACES, &PLACES[1..]).await).await
}

/// Checks that an insert counts only in the right place, and else names that place.
fn judge<T: std::fmt::Debug, E: std::fmt::Display>(here: &str, right: &PlaceName, answer: Result<T, E>) {
    match answer {
        Ok(_) => assert_eq!(here, right.as_str(), "inserted"),
        Err(error) => {
            let error = error.to_string();
            assert!(here != right.as_str() && error.contains(&format!(" belongs to place {right}")), "{error}");
        }
    }
}

/// Inserts a job into every place, in each way that Rust has.
async fn insert_everywhere(places: &Places, right: &PlaceName, job: &NewJob) {
    for (here, client) in places.iter() {
        let here = here.as_str();
        judge(here, right, client.insert(job.clone()).await);
        judge(here, right, client.insert_many([job.clone(), job.clone()]).await);
        judge(here, right, client.insert(job.clone()).actor("ada").await);
        let mut tx = client.pool().begin().await.unwrap();
        judge(here, right, client.insert(job.clone()).tx(&mut tx).await);
        tx.commit().await.unwrap();
    }
}

/// How many jobs of a kind all places have.
async fn stored(places: &Places, kind: &str) -> u64 {
    let mut stored = 0;
    for (_, client) in places.iter() {
        stored += client.count_jobs(JobFilter::new().kind(kind), 1_000).await.unwrap().counted();
    }
    stored
}

#[tokio::test]
async fn a_typed_job_is_refused_by_the_client_of_every_place_but_its_own() {
    let places = places().await;
    let of = |value: &str| places.map().place_of(value).unwrap().clone();
    for n in 0..4 {
        let key = places.insert(ByKey { n }).await.unwrap().1.job.unique_key.unwrap();
        insert_everywhere(&places, &of(&key), &ByKey { n }.into()).await;
        let group = format!("{{\"args\":{{\"customer\":{n}}},\"type\":\"by.group\"}}");
        insert_everywhere(&places, &of(&group), &ByGroup { customer: n }.into()).await;
        let tenant = format!("tenant {n}");
        insert_everywhere(&places, &of(&tenant), &ByTenant { tenant }.into()).await;
        let id = JobId::generate();
        insert_everywhere(&places, &of(&id.to_string()), &NewJob::from(ById {}).id(id)).await;
    }
    assert_eq!((stored(&places, "by.key").await, stored(&places, "by.id").await), (4, 4));
    // The caller's transaction goes on, and an id that nobody gave decides nothing.
    let (a, right) = (places.at("a").unwrap(), of("tenant 1"));
    let elsewhere = places.iter().find(|(place, _)| **place != right).unwrap().1;
    let mut tx = elsewhere.pool().begin().await.unwrap();
    elsewhere.insert(ByTenant { tenant: "tenant 1".to_owned() }).tx(&mut tx).await.unwrap_err();
    elsewhere.insert(job("task")).tx(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    for _ in 0..5 {
        a.insert(ById {}).await.unwrap();
    }
}

/// Clients that do not know the map, jobs made by name, and SQL.
#[tokio::test]
async fn a_registered_kind_is_refused_by_the_database_of_every_place_but_its_own() {
    let places = places().await;
    for (_, client) in places.iter() {
        client.register::<ByKey>().await.unwrap();
        client.register::<ByGroup>().await.unwrap();
        client.register::<ByTenant>().await.unwrap();
        client.register::<ById>().await.unwrap();
    }
    for n in 0..4 {
        let args = json!({ "n": n });
        let in_sql = |sql: &'static str, args: Value| sqlx::query(sql).bind(args);
        let key: String = in_sql("SELECT uniqueue.unique_key('by.key', $1)", args.clone())
            .fetch_one(places.at("a").unwrap().pool())
            .await
            .unwrap()
            .get(0);
        let of = |value: &str| places.map().place_of(value).unwrap().clone();
        let right = of(&key);
        let by_name = NewJob::new("by.key", &args).unique(UniquePolicy::new().by_args());
        insert_everywhere(&places, &right, &by_name).await;
        for (here, client) in places.iter() {
            let here = here.as_str();
            let plain = Client::connect(places.map().place(here).unwrap().url()).await.unwrap();
            judge(here, &right, plain.insert(ByKey { n }).await);
            judge(here, &right, plain.insert(by_name.clone().id(JobId::generate())).await);
            let one = "SELECT id FROM uniqueue.insert_job('by.key', $1)";
            judge(here, &right, in_sql(one, args.clone()).fetch_one(client.pool()).await);
            let many = "SELECT id FROM uniqueue.insert_jobs(jsonb_build_array(jsonb_build_object('kind', 'by.key', 'args', $1)))";
            judge(here, &right, in_sql(many, args.clone()).fetch_one(client.pool()).await);
            let by_tenant = "SELECT uniqueue.insert_job('by.tenant', $1)";
            let tenant = json!({ "tenant": format!("tenant {n}") });
            judge(here, &of(&format!("tenant {n}")), in_sql(by_tenant, tenant).execute(client.pool()).await);
            let by_group = "SELECT uniqueue.insert_job('by.group', $1)";
            let group = format!("{{\"args\":{{\"customer\":{n}}},\"type\":\"by.group\"}}");
            judge(here, &of(&group), in_sql(by_group, json!({ "customer": n })).execute(client.pool()).await);
            let id = JobId::generate();
            let by_id = sqlx::query("SELECT uniqueue.insert_job('by.id', id => $1)").bind(id.as_uuid());
            judge(here, &of(&id.to_string()), by_id.execute(client.pool()).await);
            sqlx::query("SELECT uniqueue.insert_job('by.id')").execute(client.pool()).await.unwrap();
        }
    }
    assert_eq!(stored(&places, "by.key").await, 4);
}

/// Inserts that share a statement answer each for itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_in_the_wrong_place_fails_alone() {
    let places = places().await;
    let a = places.at("a").unwrap();
    a.register::<ByTenant>().await.unwrap();
    let inserts: Vec<_> = (0..200)
        .map(|n| {
            let (a, tenant) = (a.clone(), format!("tenant {n}"));
            let named = NewJob::new("by.tenant", &json!({ "tenant": tenant }));
            tokio::spawn(async move { (tenant, a.insert(named).await, a.insert(Task { n }).await) })
        })
        .collect();
    for insert in inserts {
        let (tenant, placed, other) = insert.await.unwrap();
        judge("a", places.map().place_of(&tenant).unwrap(), placed);
        other.unwrap();
    }
}

#[tokio::test]
async fn rust_and_sql_find_one_place_for_a_value() {
    let names: Vec<String> = (0..37).map(|n| format!("place {n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let whole = map(&names[..1], &[]).await;
    let places = ready(whole.clone()).await;
    let url = whole.places().next().unwrap().url().to_owned();
    let pool = places.at(names[0]).unwrap().pool();
    let mut values: Vec<String> =
        ["", "hello", "é", "e\u{301}", "日本", "\u{10FFFF}", "'\"\\"].map(String::from).into();
    values.extend((0..soak(300, 5_000)).map(|n| format!("{}", uniqueue::JobId::generate()).repeat(n % 4)));
    for count in [1, 2, 3, 7, 16, 37] {
        let places = names[..count].iter().enumerate().map(|(n, name)| {
            let schema = uniqueue::SchemaName::new(format!("q{n}")).unwrap();
            uniqueue::PlaceAddress::new(*name, &url).unwrap().schema(schema)
        });
        let hashed = uniqueue::PlaceMap::new(places).unwrap().hashed(&names[..count]).unwrap();
        sqlx::query("UPDATE uniqueue.place SET hashed = $1").bind(&names[..count]).execute(pool).await.unwrap();
        let found: Vec<String> = sqlx::query_scalar(
            "SELECT uniqueue.place_of(v.v) FROM unnest($1::text[]) WITH ORDINALITY AS v (v, n) ORDER BY v.n",
        )
        .bind(&values)
        .fetch_all(pool)
        .await
        .unwrap();
        for (value, found) in values.iter().zip(found) {
            assert_eq!(found, hashed.place_of(value).unwrap().as_str(), "{value:?} of {count}");
        }
    }
}

#[tokio::test]
async fn rust_and_sql_read_one_value_of_the_args() {
    let places = places().await;
    let pool = places.at("a").unwrap().pool();
    let odd = json!({
        "text": "e\u{301}", "number": 1.0, "large": 1e21, "whole": 18_446_744_073_709_551_615_u64, "small": -0.000_000_1,
        "null": null, "bool": true, "array": [1, "two", {"b": 1, "a": [2.50]}], "": {"/": {"~": 7}}, "a.b": " ",
        "id": {"unique_key": "x"}, "-1": 3
    });
    let selectors = "text number large whole small null bool array a.b id none /array/0 /array/2/a /array/-1 /array/01 /array/+1 \
        /array/3 / //~1/~0 /text /id/unique_key -1 0 /0";
    for args in [odd.clone(), json!([odd, 2]), json!([1, "two"]), json!("text"), json!({})] {
        for selector in selectors.split(' ') {
            let job = NewJob::new("k", &args);
            let in_rust = match places.of_job(&mut job.place(selector.parse::<PlaceBy>().unwrap())) {
                Ok(client) => Some(client.place().unwrap().to_string()),
                Err(error) => {
                    assert!(selector == "id" || error.to_string().contains("the job has no such value"), "{error}");
                    None
                }
            };
            let in_sql: Option<String> =
                sqlx::query_scalar("SELECT uniqueue.place_of(uniqueue._place_value($1, NULL, NULL, $2))")
                    .bind(selector)
                    .bind(&args)
                    .fetch_one(pool)
                    .await
                    .unwrap();
            if selector != "id" {
                assert_eq!(in_sql, in_rust, "{selector} of {args}");
            }
        }
    }
}
