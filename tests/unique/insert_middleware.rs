//! Middleware around inserts: one call a batch, before anything is sent, and the answers after.

use uniqueue::{ClientBuilder, InsertMiddleware, NextInsert, Result};

use support::prelude::*;

type Log = Arc<Mutex<Vec<String>>>;

/// Notes what it is called with and what came of it, and adds meta.
struct Tagging(&'static str, Log);

impl InsertMiddleware for Tagging {
    async fn call(&self, jobs: Vec<NewJob>, next: NextInsert<'_>) -> Result<Vec<Inserted>> {
        let kinds: Vec<_> = jobs.iter().map(NewJob::kind).collect();
        self.1.lock().unwrap().push(format!("{} {}", self.0, kinds.join(" ")));
        let jobs = jobs.into_iter().map(|job| {
            let before = job.meta_value("tag").and_then(|tag| tag.as_str()).unwrap_or_default().to_owned();
            job.meta("tag", before + self.0)
        });
        let answers = next.run(jobs.collect()).await?;
        let duplicates: Vec<_> = answers.iter().map(|answer| answer.duplicate.to_string()).collect();
        self.1.lock().unwrap().push(format!("{} {}", self.0, duplicates.join(" ")));
        Ok(answers)
    }
}

/// Refuses jobs of one kind.
struct Refusing(&'static str);

impl InsertMiddleware for Refusing {
    async fn call(&self, jobs: Vec<NewJob>, next: NextInsert<'_>) -> Result<Vec<Inserted>> {
        if jobs.iter().any(|job| job.kind() == self.0) {
            return Err(Error::refused(format!("no {} here", self.0)));
        }
        next.run(jobs).await
    }
}

fn client(database: &Database, with: impl FnOnce(ClientBuilder) -> ClientBuilder) -> Client {
    with(database.builder()).pool(database.pool().clone())
}

#[support::test]
async fn one_call_a_batch_sees_and_changes_the_jobs_and_sees_the_answers(database: Database) {
    let log = Log::default();
    let layers = |builder: ClientBuilder| {
        builder.insert_middleware(Tagging("a", log.clone())).insert_middleware(Tagging("b", log.clone()))
    };
    let client = client(&database, layers);
    let one = client.insert(job("x").unique_key(UniqueKey::raw("k"))).await.unwrap();
    assert_eq!(one.job.meta["tag"], "ab");
    let answers = client.insert_many([job("y"), job("x").unique_key(UniqueKey::raw("k"))]).await.unwrap();
    assert_eq!((answers.len(), answers[1].id()), (2, one.id()));
    let noted = std::mem::take(&mut *log.lock().unwrap());
    assert_eq!(noted, ["a x", "b x", "b false", "a false", "a y x", "b y x", "b false true", "a false true"]);
    client.insert_many(Vec::<NewJob>::new()).await.unwrap();
    assert!(log.lock().unwrap().is_empty(), "an empty batch is no insert");
    let stored = client.job(answers[0].id()).await.unwrap().unwrap();
    assert_eq!(stored.meta["tag"], "ab");
}

#[support::test]
async fn it_applies_in_the_callers_transaction_and_a_refusal_leaves_that_usable(database: Database) {
    let log = Log::default();
    let client = client(&database, |builder| {
        builder.insert_middleware(Refusing("bad")).insert_middleware(Tagging("t", log.clone()))
    });
    let mut tx = database.pool().begin().await.unwrap();
    let good = client.insert(job("good")).tx(&mut tx).await.unwrap();
    let error = client.insert_many([job("good"), job("bad")]).tx(&mut tx).await.unwrap_err();
    assert!(matches!(error, Error::Refused(_)));
    assert_eq!(error.to_string(), "the insert was refused: no bad here");
    client.insert(job("bad")).await.unwrap_err();
    tx.commit().await.unwrap();
    assert_eq!(good.job.meta["tag"], "t");
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 1);
}

#[support::test]
async fn meta_that_it_adds_is_in_a_key_only_when_the_policy_selects_it(database: Database) {
    let log = Log::default();
    let tagged = client(&database, |builder| builder.insert_middleware(Tagging("t", log.clone())));
    let unselected = || NewJob::new("a", &json!({})).unique(UniquePolicy::new().by_args());
    let plain = database.client.insert(unselected()).await.unwrap();
    assert_eq!(tagged.insert(unselected()).await.unwrap().id(), plain.id());
    let selected = || NewJob::new("b", &json!({})).unique(UniquePolicy::new().by_meta(["tag"]));
    database.client.insert(selected()).await.unwrap();
    assert!(!tagged.insert(selected()).await.unwrap().duplicate);
    assert!(tagged.insert(selected()).await.unwrap().duplicate);
}

#[support::test]
async fn answers_that_do_not_match_the_jobs_are_an_error_not_a_surprise(database: Database) {
    struct Losing;
    impl InsertMiddleware for Losing {
        async fn call(&self, mut jobs: Vec<NewJob>, next: NextInsert<'_>) -> Result<Vec<Inserted>> {
            jobs.pop();
            next.run(jobs).await
        }
    }
    let client = client(&database, |builder| builder.insert_middleware(Losing));
    let error = client.insert(job("a")).await.unwrap_err();
    assert!(error.to_string().contains("0 results for 1 jobs"), "{error}");
}

#[support::test]
async fn an_insert_through_middleware_sends_no_more_statements(database: Database) {
    let log = Log::default();
    let tagged = client(&database, |builder| builder.insert_middleware(Tagging("t", log.clone())));
    let (_, plain) = counting_statements(async { database.client.insert(job("a")).await.unwrap() }).await;
    let (_, through) = counting_statements(async { tagged.insert(job("a")).await.unwrap() }).await;
    assert_eq!(plain, through);
    // As services do it: on a task of the runtime's own.
    let spawned =
        tokio::spawn(async move { tagged.insert_many([job("a"), job("b")]).await.map(|answers| answers.len()) });
    assert_eq!(spawned.await.unwrap().unwrap(), 2);
}

#[support::test]
async fn an_error_after_the_insert_does_not_take_it_back(database: Database) {
    struct Late;

    impl InsertMiddleware for Late {
        async fn call(&self, jobs: Vec<NewJob>, next: NextInsert<'_>) -> Result<Vec<Inserted>> {
            next.run(jobs).await?;
            Err(Error::refused("late"))
        }
    }
    let client = client(&database, |builder| builder.insert_middleware(Late));
    client.insert(job("a")).await.unwrap_err();
    client.insert(job("a")).actor("anna").await.unwrap_err();
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 2);
}
