//! The five pages on unique jobs that this project is measured by, sentence by sentence.
//!
//! One file a page. Each example and each rule of a page is a test, named for what the page says. A rule of several pages is one
//! test below, or in the file of one of them. Where two pages disagree, a test below says which constructor gives which.

#![allow(clippy::expect_used, clippy::unwrap_used)]

mod faktory;
mod ojs;
mod river;
mod zizq_node;
mod zizq_rust;

use tokio::sync::Mutex;
use uniqueue::Result;

use support::prelude::*;

/// A failure that leaves the job waiting for its next attempt for as long as any test lasts.
fn failure() -> Outcome {
    Outcome::retry(HOUR, "failed as told")
}

/// A runner for one kind of job whose attempts end as the test says.
struct Stage<'a> {
    database: &'a Database,
    started: mpsc::UnboundedReceiver<JobId>,
    orders: mpsc::UnboundedSender<Outcome>,
}

impl<'a> Stage<'a> {
    async fn of<J: Job>(database: &'a Database) -> Self {
        let (starting, started) = mpsc::unbounded_channel();
        let (orders, ordered) = mpsc::unbounded_channel();
        let ordered = Arc::new(Mutex::new(ordered));
        let work = move |job: RunningJob<J>| {
            let (starting, ordered) = (starting.clone(), ordered.clone());
            async move {
                starting.send(job.id()).expect("the test");
                ordered.lock().await.recv().await.unwrap_or(Outcome::complete())
            }
        };
        // An attempt without an order does not hold up the end of a test.
        let runner = quick(&database.client).stop_timeout(SECOND).stop_grace(Duration::ZERO);
        database.start(runner.worker(work)).await;
        Self { database, started, orders }
    }

    /// Waits for the next attempt to start.
    async fn started(&mut self) -> JobId {
        next(&mut self.started).await
    }

    /// Ends an attempt that runs.
    fn end(&self, outcome: Outcome) {
        self.orders.send(outcome).expect("the worker");
    }

    /// Ends an attempt of a job that runs, and waits until the job is in a state.
    async fn ends(&self, id: JobId, outcome: Outcome, state: JobState) -> JobRow {
        self.end(outcome);
        self.database.until_state(id, state).await
    }

    /// Waits until an attempt of a job starts, ends it, and waits until the job is in a state.
    async fn works(&mut self, id: JobId, outcome: Outcome, state: JobState) -> JobRow {
        assert_eq!(self.started().await, id);
        self.ends(id, outcome, state).await
    }
}

/// Lets retention do its work on all that is past it now.
async fn prune(database: &Database, retention: Retention) {
    // Ids follow time and the pruner follows the ids, so that when this job is gone, the walk has
    // come past all others.
    let last = database.client.insert(job("last")).await.expect("an insert");
    database.set_state(last.id(), "cancelled").await;
    let runner = database.runner().queue("nothing", 1).worker(at_once).retention(retention.cancelled(Duration::ZERO));
    let runner = runner.prune_interval(Duration::from_millis(10)).start().await.expect("a runner");
    eventually!(database.client.job(last.id()).await.expect("an answer").is_none(), "nothing is pruned");
    runner.stop().await.expect("a stop");
}

/// Inserts on as many connections at once as asked, at one moment.
async fn race(database: &Database, inserters: usize, make: impl Fn() -> NewJob) -> Vec<Result<Inserted>> {
    let insert = |_| {
        let (client, job) = (database.client.clone(), make());
        async move { client.insert(job).await }
    };
    together((0..inserters).map(insert)).await
}

/// How many jobs there are.
async fn jobs(database: &Database) -> i64 {
    database.number("SELECT count(*) FROM {schema}.job").await
}

/// What a policy makes of a job, without a database.
fn claim(policy: &UniquePolicy, kind: &str, queue: &str, args: &Value) -> Option<uniqueue::Claim> {
    let subject = Subject { kind, queue, args, meta: &json!({}), window_at: Some(time::OffsetDateTime::UNIX_EPOCH) };
    policy.resolve(&subject).expect("a claim")
}

/// The policy of each seed with what it needs at the least to enforce anything.
fn defaults() -> [(&'static str, UniquePolicy); 5] {
    [
        ("own", UniquePolicy::new()),
        ("zizq", UniquePolicy::zizq()),
        ("river", UniquePolicy::river().by_args()),
        ("ojs", UniquePolicy::ojs()),
        ("faktory", UniquePolicy::faktory(HOUR)),
    ]
}

/// The states of the holder that make a duplicate: by the default of each seed, by a list of states of Open Job Spec, and by each
/// scope of Zizq, in the spelling of its pages. For Faktory even a discarded job holds its lock.
#[support::test]
async fn only_jobs_in_the_states_of_their_claim_are_duplicates(database: Database) {
    use JobState::{Cancelled, Completed, Discarded, Running};
    let ojs = |states: Value| UniquePolicy::from_ojs(&json!({ "states": states })).unwrap();
    let zizq = |scope: &str| UniquePolicy::new().scope(scope.parse::<UniqueScope>().unwrap());
    let but_final = StateSet::ALL.without(Completed).without(Cancelled).without(Discarded);
    let listed = json!(["available", "active", "scheduled", "retryable", "pending", "completed"]);
    for (name, policy, states) in [
        ("own", UniquePolicy::new(), but_final),
        ("zizq", UniquePolicy::zizq(), but_final.without(Running)),
        ("queued", zizq("queued"), but_final.without(Running)),
        ("active", zizq("active"), but_final),
        ("exists", zizq("exists"), StateSet::ALL),
        ("river", UniquePolicy::river().by_args(), StateSet::ALL.without(Cancelled).without(Discarded)),
        ("ojs", UniquePolicy::ojs(), but_final),
        ("ojs, scheduled", ojs(json!(["scheduled"])), StateSet::from(JobState::Scheduled)),
        ("ojs, with completed", ojs(listed), StateSet::ALL.without(Cancelled).without(Discarded)),
        ("faktory", UniquePolicy::faktory(HOUR), StateSet::ALL.without(Completed)),
    ] {
        for state in JobState::ALL {
            let policy = || policy.clone().on_conflict(OnConflict::Ignore);
            let insert = || database.client.insert(job(&format!("{name} {state}")).unique(policy())).into_future();
            let holder = insert().await.unwrap();
            assert!(!holder.duplicate, "{name} {state}");
            database.set_state(holder.id(), state.as_str()).await;
            let second = insert().await.unwrap();
            assert_eq!(second.duplicate, states.contains(state), "{name} {state}");
            if second.duplicate {
                assert_eq!((second.id(), second.job.state), (holder.id(), state), "{name}");
            }
        }
    }
}

/// A form that is submitted twice makes one job, also where the two come at once, and each of the others gets that job: as its
/// answer, or in its error.
#[support::test(with_connections(16))]
async fn of_many_equal_inserts_at_once_one_is_new_and_all_others_see_it(database: Database) {
    let raw = UniquePolicy::new().key("rebuild_index");
    let daily = UniquePolicy::river().by_args().by_queue().window(DAY).states(UniqueScope::Completed);
    for (seed, policy) in defaults().into_iter().chain([("raw", raw), ("daily", daily)]) {
        // In a century no window ends during the test.
        let due = datetime!(2126-02-12 15:21 UTC);
        let answers = race(&database, 16, || job(seed).unique(policy.clone()).scheduled_at(due)).await;
        let new: Vec<_> = answers.iter().flatten().filter(|answer| !answer.duplicate).map(Inserted::id).collect();
        assert_eq!(new.len(), 1, "{seed}");
        let seen = |answer: &Result<Inserted>| match answer {
            Ok(answer) => Some(answer.id()),
            Err(error) => error.rejections()[0].holder,
        };
        assert!(answers.iter().all(|answer| seen(answer) == Some(new[0])), "{seed}: {answers:?}");
    }
}

/// Whose states count. OJS tells of the newcomer's list, Zizq and River's index of the states of the
/// job in place. Here it is the job in place for every constructor; while one kind has one policy,
/// which is what OJS's page shows, the two readings are one.
#[support::test]
async fn seeds_disagree_on_whose_states_count_and_the_job_in_place_decides(database: Database) {
    for (seed, policy) in defaults() {
        let narrow = policy.clone().states([JobState::Scheduled]).on_conflict(OnConflict::Ignore);
        let broad = policy.scope(UniqueScope::Exists).on_conflict(OnConflict::Ignore);
        for (first, second, is_duplicate) in [(&broad, &narrow, true), (&narrow, &broad, false)] {
            database.execute("DELETE FROM {schema}.job").await;
            let first = database.client.insert(job(seed).unique(first.clone())).await.unwrap();
            database.set_state(first.id(), "running").await;
            let second = database.client.insert(job(seed).unique(second.clone())).await.unwrap();
            assert_eq!(second.duplicate, is_duplicate, "{seed}");
        }
    }
}

/// Whose length of time counts: again that of the job in place, whatever the newcomer brings.
#[support::test]
async fn the_period_of_the_job_in_place_decides_and_a_job_without_a_policy_is_in_nobodys_way(database: Database) {
    let insert = |policy: UniquePolicy| database.client.insert(job("a").unique(policy)).into_future();
    let ignored = || UniquePolicy::ojs().on_conflict(OnConflict::Ignore);
    database.client.insert(job("a")).await.unwrap();
    assert!(!insert(ignored().period(HOUR)).await.unwrap().duplicate, "the job without a policy claims nothing");
    database.pass(2 * MINUTE).await;
    assert!(insert(ignored().period(MINUTE)).await.unwrap().duplicate);
    database.pass(HOUR).await;
    assert!(!insert(ignored()).await.unwrap().duplicate);
}

/// What a duplicate meets: OJS and Faktory make it visible, the others hand back the holder.
#[support::test]
async fn seeds_disagree_on_what_a_duplicate_does_by_default(database: Database) {
    for (seed, policy) in defaults() {
        let insert = || database.client.insert(job(seed).unique(policy.clone())).into_future();
        let first = insert().await.unwrap();
        match insert().await {
            Ok(second) => {
                assert!(["own", "zizq", "river"].contains(&seed), "{seed}");
                assert!(second.duplicate);
                assert_eq!(second.id(), first.id());
            }
            Err(error) => {
                assert!(["ojs", "faktory"].contains(&seed), "{seed}");
                assert_eq!(error.rejections()[0].holder, Some(first.id()));
            }
        }
    }
    assert_eq!(UniqueKey::raw("k").claim().unwrap().terms.on_conflict, OnConflict::Ignore);
}

/// What a key is made from when nothing is said: the kind alone, or the args and the queue too.
#[test]
fn seeds_disagree_on_what_makes_two_jobs_the_same_by_default() {
    for (seed, policy) in defaults() {
        let key = |kind: &str, queue: &str, args: Value| claim(&policy, kind, queue, &args).unwrap().key;
        let base = key("k", "q", json!({"a": 1}));
        assert_ne!(key("other", "q", json!({"a": 1})), base, "{seed}: the kind always counts");
        let args_count = key("k", "q", json!({"a": 2})) != base;
        assert_eq!(args_count, ["zizq", "river", "faktory"].contains(&seed), "{seed}");
        let queue_counts = key("k", "other", json!({"a": 1})) != base;
        assert_eq!(queue_counts, seed == "faktory", "{seed}");
    }
    assert_eq!(claim(&UniquePolicy::river(), "k", "q", &json!({})), None, "River's empty options enforce nothing");
}

/// Three seeds have a length of time, and mean three things by it.
#[support::test]
async fn seeds_disagree_on_what_a_length_of_time_means(database: Database) {
    // Half past the hour, so that the calendar's hour and the job's own differ.
    let due = time::macros::datetime!(2126-02-12 15:30 UTC);
    let at = |kind, due, policy| job(kind).scheduled_at(due).unique(policy);
    let insert = |new: NewJob| database.client.insert(new).into_future();

    // OJS: from the holder's creation, whenever it is due.
    let ojs = insert(at("ojs", due, UniquePolicy::ojs().period(HOUR))).await.unwrap().job;
    assert_eq!(ojs.unique_until.unwrap() - ojs.created_at, HOUR);
    // Faktory: from when the holder is due.
    let faktory = insert(at("faktory", due, UniquePolicy::faktory(HOUR))).await.unwrap().job;
    assert_eq!(faktory.unique_until.unwrap() - faktory.scheduled_at, HOUR);
    // River: the hour of the calendar that the job falls into, which is part of the key.
    let river = |due| at("river", due, UniquePolicy::river().window(HOUR));
    let first = insert(river(due)).await.unwrap().job;
    assert_eq!(first.unique_until, None);
    assert!(insert(river(due + 29 * MINUTE)).await.unwrap().duplicate);
    assert!(!insert(river(due + 30 * MINUTE)).await.unwrap().duplicate);
    // Zizq has none, and a key may carry either of the first two.
    assert_eq!(UniqueKey::raw("k").period(HOUR).claim().unwrap().terms.period, Some(HOUR.into()));
    assert_eq!(UniqueKey::raw("k").ttl(HOUR).claim().unwrap().terms.ttl, Some(HOUR.into()));
    for both in [
        UniquePolicy::ojs().period(HOUR).ttl(HOUR),
        UniquePolicy::faktory(HOUR).window(HOUR),
        UniquePolicy::river().window(HOUR).period(HOUR),
    ] {
        assert!(both.check().is_err(), "one meaning at a time");
    }
}

/// A job that comes back and finds its key taken: River discards it, and the other pages do not say.
#[test]
fn seeds_disagree_on_reentry_and_no_constructor_discards_unasked() {
    for (seed, policy) in defaults() {
        assert_eq!(claim(&policy, "k", "q", &json!({})).unwrap().terms.on_reentry, OnReentry::GoOn, "{seed}");
        let asked = policy.on_reentry(OnReentry::Discard);
        assert_eq!(claim(&asked, "k", "q", &json!({})).unwrap().terms.on_reentry, OnReentry::Discard, "{seed}");
    }
}

/// Faktory's lock ends at success or at the start, by one word; the others have states for it.
#[test]
fn seeds_disagree_on_how_the_end_of_a_claim_is_said() {
    let success = claim(&UniquePolicy::faktory(HOUR), "k", "q", &json!({})).unwrap();
    assert_eq!(UniquePolicy::new().until(Until::Success), UniquePolicy::new().states(success.terms.states));
    let start = claim(&UniquePolicy::faktory(HOUR).until(Until::Start), "k", "q", &json!({})).unwrap();
    assert!(start.terms.until_start && !success.terms.until_start);
    let zizq = claim(&UniquePolicy::zizq(), "k", "q", &json!({})).unwrap();
    assert!(!zizq.terms.until_start, "Zizq's Queued comes back with a retry, Faktory's start does not");
}

/// The constructors' keys are distinct only by what they hold: one way of making keys for all.
#[test]
fn seeds_share_one_way_of_making_keys() {
    let keys: BTreeSet<_> = [
        UniquePolicy::zizq(),
        UniquePolicy::new().by_args(),
        UniquePolicy::river().by_args(),
        UniquePolicy::ojs().by_args(),
        UniquePolicy::from_ojs(&json!({"keys": ["args"]})).unwrap(),
    ]
    .iter()
    .map(|policy| claim(policy, "k", "q", &json!({"a": 1})).unwrap().key)
    .collect();
    assert_eq!(keys.len(), 1, "{keys:?}");
}
