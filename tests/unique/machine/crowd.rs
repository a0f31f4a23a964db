//! Many connections on a few keys: inserters, workers, maintenance and an operator. An observer checks the invariants
//! all the time. At the end a real runner drains the rest.

use super::moves::{End, Moves};
use super::{length, not_running, seed, watch_claims};
use support::prelude::*;

const KEYS: usize = 6;
const QUEUES: [&str; 3] = ["a", "b", "c"];

#[derive(Debug, Deserialize, Job, Serialize)]
#[job(kind = "task")]
struct Task {}

/// What all of the crowd share.
#[derive(Clone)]
struct Crowd {
    database: Arc<Database>,
    moves: Moves,
    ends_at: Instant,
    /// The ids of the jobs that committed inserts answered with as new.
    inserted: Arc<Mutex<HashSet<Uuid>>>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r1_r6_r11_hold_for_a_crowd_at_every_moment() {
    let mut random = Dice::new(seed(), 0);
    let database = Arc::new(Database::slow_to_see_deadlocks(40).await);
    database.execute("CREATE TABLE {schema}.gone (id uuid, finalized_at timestamptz)").await;
    let note = "INSERT INTO {schema}.gone VALUES (OLD.id, OLD.finalized_at);";
    database.trigger("AFTER DELETE", "true", note).await;
    let crowd = Crowd {
        moves: Moves::new(&database),
        database,
        ends_at: Instant::now() + length(Duration::from_secs(2), Duration::from_secs(6)),
        inserted: Arc::default(),
    };
    let mut tasks = JoinSet::new();
    for _ in 0..5 {
        tasks.spawn(crowd.clone().inserts(Dice::new(random.number(), 0)));
    }
    for _ in 0..3 {
        tasks.spawn(crowd.clone().works(Dice::new(random.number(), 0)));
    }
    for _ in 0..2 {
        tasks.spawn(crowd.clone().maintains(Dice::new(random.number(), 0)));
    }
    tasks.spawn(crowd.clone().operates(Dice::new(random.number(), 0)));
    let watch = tokio::spawn(watch_claims(crowd.database.clone()));
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    crowd.drain().await;
    assert!(!watch.is_finished(), "two rows claimed a key");
    watch.abort();
    crowd.account().await;
}

impl Crowd {
    fn is_over(&self) -> bool {
        Instant::now() > self.ends_at
    }

    async fn inserts(self, mut random: Dice) {
        while !self.is_over() {
            let size = random.of(&[1, 1, 1, 3, 20]);
            let jobs: Vec<_> = (0..size).map(|_| new_job(&mut random)).collect();
            let max_wait = random.once_in(4).then(|| Duration::from_millis(1 + random.index(20) as u64));
            let in_transaction = random.once_in(3);
            let commits = !random.once_in(3);
            let mut connection = self.database.pool().begin().await.unwrap();
            let answers = if in_transaction {
                let answers = self.send(jobs, max_wait, Some(&mut connection)).await;
                // Still usable, whatever the answer was.
                sqlx::query("SELECT 1").execute(&mut *connection).await.unwrap();
                tokio::time::sleep(Duration::from_millis(random.index(15) as u64)).await;
                support::end(connection, commits).await;
                if commits { answers } else { Vec::new() }
            } else {
                connection.rollback().await.unwrap();
                self.send(jobs, max_wait, None).await
            };
            let new = answers.iter().filter(|answer| !answer.duplicate).map(|answer| answer.id().as_uuid());
            self.inserted.lock().unwrap().extend(new);
        }
    }

    /// Sends a batch. Empty: rejected, or busy where that was allowed.
    async fn send(
        &self,
        jobs: Vec<NewJob>,
        max_wait: Option<Duration>,
        connection: Option<&mut sqlx::PgConnection>,
    ) -> Vec<Inserted> {
        let size = jobs.len();
        let mut insert = self.database.client.insert_many(jobs);
        if let Some(connection) = connection {
            insert = insert.tx(connection);
        }
        if let Some(max_wait) = max_wait {
            insert = insert.max_wait(max_wait);
        }
        match insert.await {
            Ok(answers) => {
                assert_eq!(answers.len(), size, "R11: one answer an input");
                answers
            }
            Err(Error::Rejected(rejections)) => {
                assert!(!rejections.is_empty());
                Vec::new()
            }
            Err(Error::Busy { .. }) if max_wait.is_some() => Vec::new(),
            Err(error) => panic!("an insert failed: {error:?}"),
        }
    }

    async fn works(self, mut random: Dice) {
        let mut connection = self.database.pool().acquire().await.unwrap();
        let mut reporting = self.database.pool().acquire().await.unwrap();
        while !self.is_over() {
            let worker = self.moves.register(&mut connection).await.unwrap();
            for _ in 0..5 {
                let queue = random.of(&QUEUES);
                let slots = 1 + random.index(20) as i32;
                let alone = random.index(4) == 0;
                let held = self.moves.fetch(&mut connection, worker, queue, slots, alone).await.expect("a fetch");
                if held.is_empty() {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                    continue;
                }
                if random.once_in(2) {
                    tokio::time::sleep(Duration::from_millis(random.index(5) as u64)).await;
                }
                if random.once_in(6) {
                    // The worker dies with these in its hands.
                    break;
                }
                let is_plain = random.once_in(2);
                let ends: Vec<_> = (held.iter())
                    .map(|held| (*held, if is_plain { End::Complete } else { random.of(&End::ALL) }))
                    .collect();
                // Reports and results of the same jobs at once.
                let reported = self.moves.report(&mut reporting, worker, &held);
                let (reported, finished) = tokio::join!(reported, self.moves.finish(&mut connection, worker, &ends));
                reported.expect("a report");
                let finished = finished.expect("a finish");
                assert_eq!(finished.len(), held.len(), "every result counts while its worker lives");
            }
            self.moves.kill(&mut connection, worker).await.unwrap();
        }
    }

    async fn maintains(self, mut random: Dice) {
        let due = self.database.sql(
            "UPDATE {schema}.job SET scheduled_at = now()
             WHERE id IN (
                SELECT j.id FROM {schema}.job AS j WHERE j.state IN ('scheduled', 'retryable') LIMIT 10 FOR UPDATE SKIP LOCKED
             )",
        );
        let mut connection = self.database.pool().acquire().await.unwrap();
        while !self.is_over() {
            match random.index(4) {
                0 => self.moves.promote(&mut connection).await.expect("a promotion"),
                1 => self.moves.rescue(&mut connection).await.expect("a rescue"),
                2 => self.moves.prune(&mut connection).await.expect("a prune"),
                _ => {
                    sqlx::query(due.clone()).execute(&mut *connection).await.expect("time passing");
                }
            }
            tokio::time::sleep(Duration::from_millis(random.index(4) as u64)).await;
        }
    }

    async fn operates(self, mut random: Dice) {
        let any = self.database.sql("SELECT j.id FROM {schema}.job AS j WHERE j.state <> 'running' LIMIT 50");
        let expire = self
            .database
            .sql("UPDATE {schema}.job SET unique_until = clock_timestamp() WHERE id = $1 AND unique_key IS NOT NULL");
        let mut connection = self.database.pool().acquire().await.unwrap();
        while !self.is_over() {
            let rows = sqlx::query(any.clone()).fetch_all(&mut *connection).await.unwrap();
            let ids: Vec<Uuid> = rows.iter().map(|row| row.get("id")).collect();
            if !ids.is_empty() {
                let id = random.of(&ids);
                if random.once_in(4) {
                    sqlx::query(expire.clone()).bind(id).execute(&mut *connection).await.expect("an expiry");
                } else {
                    let state = random.of(&not_running());
                    self.moves.operate(&mut connection, id, state).await.expect("an operator's move");
                }
            }
            tokio::time::sleep(Duration::from_millis(random.index(3) as u64)).await;
        }
    }

    /// With runners running, everything comes to an end, whatever holds whichever key.
    async fn drain(&self) {
        let release = "UPDATE {schema}.job SET scheduled_at = now(), state = 'available',
                unique_yielded = unique_yielded OR {schema}._enters_claim(unique_states, state, 'available')
             WHERE state = 'pending'";
        self.database.execute(release).await;
        let update = "UPDATE {schema}.job SET scheduled_at = now() WHERE state IN ('scheduled', 'retryable')";
        self.database.execute(update).await;
        let work = |job: RunningJob<Task>| async move {
            match job.id().as_uuid().as_u128() % 4 {
                0 if job.attempt() < 3 => Outcome::retry(Duration::ZERO, "once more"),
                1 if job.attempt() < 3 => Outcome::retry(Duration::from_millis(5), "once more"),
                _ => Outcome::complete(),
            }
        };
        let mut runner = Runner::new(self.database.client.clone())
            .worker(work)
            .lease(Duration::from_secs(5))
            .retry_policy(RetryPolicy::fixed(Duration::ZERO))
            .promote_interval(Duration::from_millis(20));
        for queue in QUEUES {
            runner = runner.queue(queue, 20);
        }
        let runner = runner.start().await.unwrap();
        let left =
            "SELECT coalesce(string_agg(j::text, chr(10)), '') FROM {schema}.job AS j WHERE finalized_at IS NULL";
        eventually!(let left = self.database.text(left).await; left.is_empty(), "stuck: {left}");
        runner.stop().await.unwrap();
    }

    /// No job is lost, none came from nowhere, and only final ones were deleted.
    async fn account(&self) {
        let ids = async |text: &str| -> HashSet<Uuid> {
            let rows = sqlx::query(self.database.sql(text)).fetch_all(self.database.pool()).await.unwrap();
            rows.iter().map(|row| row.get(0)).collect()
        };
        let mut known = ids("SELECT id FROM {schema}.job").await;
        known.extend(ids("SELECT id FROM {schema}.gone").await);
        let inserted = self.inserted.lock().unwrap().clone();
        assert_eq!(known.symmetric_difference(&inserted).count(), 0);
        assert_eq!(ids("SELECT id FROM {schema}.gone WHERE finalized_at IS NULL").await.len(), 0);
    }
}

/// A job of a random policy, or a plain one.
fn new_job(random: &mut Dice) -> NewJob {
    let mut new = job("task").queue(random.of(&QUEUES)).max_attempts(1 + random.index(4) as u16);
    match random.index(5) {
        0 => new = new.scheduled_in(Duration::from_millis(random.index(50) as u64)),
        1 => new = new.pending(),
        _ => {}
    }
    if random.once_in(8) {
        return new;
    }
    let states = StateSet::from_bits(1 + random.index(255) as i16).unwrap();
    let on_conflict = random.of(&[
        OnConflict::Ignore,
        OnConflict::Ignore,
        OnConflict::Reject,
        OnConflict::Replace,
        OnConflict::Replace,
        OnConflict::ReplaceExceptSchedule,
        OnConflict::Update,
        OnConflict::RunAgain,
    ]);
    // A scope with `running` is an error.
    let covers_run = states.contains(JobState::Running);
    let on_conflict = if on_conflict == OnConflict::RunAgain && covers_run { OnConflict::Ignore } else { on_conflict };
    let mut key = UniqueKey::raw(format!("k{}", random.index(KEYS))).states(states).on_conflict(on_conflict);
    if random.once_in(3) {
        key = key.on_reentry(OnReentry::Discard);
    }
    if random.once_in(6) && !states.intersection(UniqueScope::Queued.states()).is_empty() {
        key = key.until_start();
    }
    let limit = Duration::from_millis(5 + random.index(100) as u64);
    match random.index(6) {
        0 => key = key.period(limit),
        1 => key = key.ttl(limit),
        _ => {}
    }
    new.unique_key(key)
}
