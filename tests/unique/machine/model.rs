//! One step at a time against a model: the effect of each transition on each claim.

use super::moves::{End, Held, Moves};
use super::{length, not_running, seed};
use support::prelude::*;

/// What the rules say about one job.
#[derive(Clone, Debug)]
struct Modelled {
    id: Uuid,
    queue: String,
    state: JobState,
    states: StateSet,
    yielded: bool,
    until_start: bool,
    discard_on_reentry: bool,
    is_limited: bool,
    is_expired: bool,
    attempt: i16,
    max_attempts: i16,
    crashes: i16,
    worker: Option<Uuid>,
    run: i32,
    replaced_by: Option<Uuid>,
}

impl Modelled {
    /// Whether the row says that it claims. An expired claim does so until an insert meets it.
    fn is_marked(&self) -> bool {
        !self.yielded && self.states.contains(self.state)
    }

    fn holds(&self) -> bool {
        self.is_marked() && !self.is_expired
    }

    fn is_final(&self) -> bool {
        matches!(self.state, JobState::Completed | JobState::Cancelled | JobState::Discarded)
    }
}

/// The jobs of one key.
struct Story<'a> {
    database: &'a Database,
    moves: &'a Moves,
    key: String,
    jobs: Vec<Modelled>,
    log: Vec<String>,
}

#[support::test]
async fn r1_to_r6_every_mask_and_transition_does_what_the_rules_say(database: Database) {
    let mut random = Dice::new(seed(), 0);
    let moves = Moves::new(&database);
    let mut connection = database.pool().acquire().await.unwrap();
    let begun = Instant::now();
    let until = length(Duration::from_secs(3), Duration::from_secs(10));
    let mut steps = 0;
    'rounds: for round in 0.. {
        for bits in 1..=255_i16 {
            let mut story = Story {
                database: &database,
                moves: &moves,
                key: format!("{round} {bits}"),
                jobs: Vec::new(),
                log: Vec::new(),
            };
            let states = StateSet::from_bits(bits).unwrap();
            story.insert(&mut connection, &mut random, Some(states)).await;
            for _ in 0..12 {
                story.step(&mut connection, &mut random).await;
                steps += 1;
            }
            // Nothing of this story is left to be promoted or rescued in the next.
            database.execute(&format!("DELETE FROM {{schema}}.job WHERE unique_key = '{}'", story.key)).await;
            if round > 0 && begun.elapsed() > until {
                break 'rounds;
            }
        }
        if begun.elapsed() > until {
            break;
        }
    }
    println!("{steps} steps");
}

impl Story<'_> {
    async fn step(&mut self, connection: &mut PgConnection, random: &mut Dice) {
        match random.index(11) {
            0 | 1 => self.insert(connection, random, None).await,
            2 => self.roll_back(random).await,
            3 | 4 => self.fetch(connection, random).await,
            5 | 6 => self.finish(connection, random).await,
            7 => self.promote(connection, random).await,
            8 => self.rescue(connection, random).await,
            9 => self.expire(random).await,
            _ => self.operate(connection, random).await,
        }
        self.check(connection).await;
    }

    fn holder(&self) -> Option<usize> {
        self.jobs.iter().position(Modelled::holds)
    }

    /// A random choice of the jobs that fit.
    fn pick(&self, random: &mut Dice, fits: impl Fn(&Modelled) -> bool) -> Option<usize> {
        let fitting: Vec<_> = (0..self.jobs.len()).filter(|index| fits(&self.jobs[*index])).collect();
        if fitting.is_empty() { None } else { Some(random.of(&fitting)) }
    }

    /// A random new job of this key, and what the model knows of it before it is sent.
    fn newcomer(&self, random: &mut Dice, states: Option<StateSet>) -> (NewJob, Modelled, OnConflict) {
        let on_conflict = random.of(&OnConflict::ALL);
        let states = states.unwrap_or_else(|| StateSet::from_bits(1 + random.index(255) as i16).unwrap());
        let until_start = !states.intersection(UniqueScope::Queued.states()).is_empty() && random.once_in(5);
        // A scope with `running` is an error.
        let covers_run = states.contains(JobState::Running) && !until_start;
        let on_conflict =
            if on_conflict == OnConflict::RunAgain && covers_run { OnConflict::Ignore } else { on_conflict };
        let discard_on_reentry = random.once_in(3);
        let limit = random.index(6);
        let mut key = UniqueKey::raw(&self.key).states(states).on_conflict(on_conflict);
        if until_start {
            key = key.until_start();
        }
        if discard_on_reentry {
            key = key.on_reentry(OnReentry::Discard);
        }
        match limit {
            0 => key = key.period(HOUR),
            1 => key = key.ttl(HOUR),
            _ => {}
        }
        let id = Uuid::now_v7();
        let queue = format!("q{id}");
        let max_attempts = 1 + random.index(3) as i16;
        let mut new = job("task").id(id).queue(&queue).max_attempts(max_attempts as u16).unique_key(key);
        let state = random.of(&[JobState::Available, JobState::Scheduled, JobState::Pending]);
        match state {
            JobState::Scheduled => new = new.scheduled_in(HOUR),
            JobState::Pending => new = new.pending(),
            _ => {}
        }
        let modelled = Modelled {
            id,
            queue,
            state,
            states,
            yielded: false,
            until_start,
            discard_on_reentry,
            is_limited: limit < 2,
            is_expired: false,
            attempt: 0,
            max_attempts,
            crashes: 0,
            worker: None,
            run: 0,
            replaced_by: None,
        };
        (new, modelled, on_conflict)
    }

    async fn insert(&mut self, connection: &mut PgConnection, random: &mut Dice, states: Option<StateSet>) {
        let (new, mut modelled, on_conflict) = self.newcomer(random, states);
        self.log.push(format!("insert {modelled:?} {on_conflict:?}"));
        let answer = self.database.client.insert(new).tx(connection).await;
        let Some(holder) = self.holder() else {
            let answer = answer.unwrap_or_else(|error| panic!("{error}: {:#?}", self.log));
            assert!(!answer.duplicate && answer.id().as_uuid() == modelled.id, "{:#?}", self.log);
            self.release_expired();
            self.jobs.push(modelled);
            return;
        };
        let held = &mut self.jobs[holder];
        match (on_conflict, answer) {
            (OnConflict::Ignore, Ok(answer)) => {
                assert!(answer.duplicate && answer.id().as_uuid() == held.id, "{:#?}", self.log);
            }
            (OnConflict::Reject, Err(Error::Rejected(rejections))) => {
                assert_eq!(rejections[0].holder, Some(held.id.into()));
                assert_eq!(rejections[0].holder_state, Some(held.state));
            }
            (OnConflict::Replace | OnConflict::ReplaceExceptSchedule, Err(Error::Rejected(_))) => {
                assert_eq!(held.state, JobState::Running, "{:#?}", self.log);
            }
            (OnConflict::RunAgain, Ok(answer)) => {
                assert!(answer.covered && answer.duplicate && answer.id().as_uuid() == held.id, "{:#?}", self.log);
                assert!(!held.is_final() && held.state != JobState::Running, "{:#?}", self.log);
            }
            (OnConflict::Update | OnConflict::RunAgain, Err(Error::Rejected(_))) => {
                assert!(held.is_final() || held.state == JobState::Running, "{:#?}", self.log);
            }
            // Overdue, the holder gave up its claim.
            (OnConflict::Update, Ok(answer)) if !answer.duplicate => {
                assert!(answer.id().as_uuid() == modelled.id && answer.replaced.is_none(), "{:#?}", self.log);
                let waits_for_its_time = [JobState::Available, JobState::Retryable, JobState::Scheduled];
                assert!(waits_for_its_time.contains(&held.state), "{:#?}", self.log);
                held.states = StateSet::EMPTY;
                modelled.state = answer.job.state;
                self.jobs.push(modelled);
            }
            (OnConflict::Update, Ok(answer)) => {
                assert!(answer.duplicate && answer.updated && answer.id().as_uuid() == held.id, "{:#?}", self.log);
                assert!(!held.is_final() && held.state != JobState::Running, "{:#?}", self.log);
                assert_eq!(answer.job.state, held.state);
                if held.attempt > 0 {
                    held.max_attempts = held.attempt + modelled.max_attempts;
                }
            }
            (OnConflict::Replace | OnConflict::ReplaceExceptSchedule | OnConflict::Preempt, Ok(answer)) => {
                assert!(!answer.duplicate && answer.id().as_uuid() == modelled.id, "{:#?}", self.log);
                let may_run = on_conflict == OnConflict::Preempt;
                assert!(may_run || held.state != JobState::Running, "{:#?}", self.log);
                assert_eq!(answer.replaced.map(|id| id.as_uuid()), Some(held.id), "{:#?}", self.log);
                if !held.is_final() {
                    held.state = JobState::Cancelled;
                    held.replaced_by = Some(modelled.id);
                }
                held.states = StateSet::EMPTY;
                modelled.state = answer.job.state;
                self.jobs.push(modelled);
            }
            (_, answer) => panic!("{answer:?}: {:#?}", self.log),
        }
    }

    /// An insert that meets expired claims gives them up for good.
    fn release_expired(&mut self) {
        for job in &mut self.jobs {
            if job.is_marked() && job.is_expired {
                job.states = StateSet::EMPTY;
            }
        }
    }

    /// A transaction that rolls back leaves nothing.
    async fn roll_back(&mut self, random: &mut Dice) {
        let (new, modelled, on_conflict) = self.newcomer(random, None);
        self.log.push(format!("insert and roll back {modelled:?} {on_conflict:?}"));
        let mut tx = self.database.pool().begin().await.unwrap();
        match self.database.client.insert(new).tx(&mut tx).await {
            Ok(_) | Err(Error::Rejected(_)) => {}
            Err(error) => panic!("{error}: {:#?}", self.log),
        }
        tx.rollback().await.unwrap();
    }

    async fn fetch(&mut self, connection: &mut PgConnection, random: &mut Dice) {
        let Some(index) = self.pick(random, |job| job.state == JobState::Available) else { return };
        let worker = self.moves.register(connection).await.unwrap();
        self.log.push(format!("fetch {index}"));
        let fetched = self
            .moves
            .fetch(connection, worker, &self.jobs[index].queue, 5, self.jobs[index].crashes > 1)
            .await
            .expect("a fetch");
        let job = &mut self.jobs[index];
        job.attempt += 1;
        job.run += 1;
        job.worker = Some(worker);
        if job.until_start {
            job.states = StateSet::EMPTY;
        }
        self.go_to(index, JobState::Running);
        let is_running = self.jobs[index].state == JobState::Running;
        assert_eq!(fetched.len(), usize::from(is_running), "{:#?}", self.log);
    }

    async fn finish(&mut self, connection: &mut PgConnection, random: &mut Dice) {
        let Some(index) = self.pick(random, |job| job.state == JobState::Running) else { return };
        let end = random.of(&End::ALL);
        self.log.push(format!("finish {index} {end:?}"));
        let job = &self.jobs[index];
        let held = Held { id: job.id, run: job.run };
        // A worker that is not the job's, and a run that is over, say nothing: also where the attempt's number came
        // back.
        let worker = job.worker.unwrap();
        for (speaker, said) in [(Uuid::now_v7(), held), (worker, Held { run: held.run - 1, ..held })] {
            assert!(self.moves.finish(connection, speaker, &[(said, end)]).await.unwrap().is_empty());
        }
        let finished = self.moves.finish(connection, worker, &[(held, end)]).await.expect("a finish");
        let is_out = job.attempt >= job.max_attempts;
        let state = match end {
            End::Complete | End::CompleteWithOutput => JobState::Completed,
            End::Cancel => JobState::Cancelled,
            End::Discard => JobState::Discarded,
            End::Retry { .. } if is_out => JobState::Discarded,
            End::Retry { at_once: true } | End::Snooze { at_once: true } | End::GiveBack => JobState::Available,
            End::Retry { at_once: false } => JobState::Retryable,
            End::Snooze { at_once: false } => JobState::Scheduled,
        };
        if matches!(end, End::Snooze { .. } | End::GiveBack) {
            self.jobs[index].attempt -= 1;
        }
        if matches!(end, End::Retry { .. } | End::Snooze { .. }) {
            self.jobs[index].crashes = 0;
        }
        self.go_to(index, state);
        let job = &self.jobs[index];
        assert_eq!(finished, [job.id], "{:#?}", self.log);
    }

    async fn promote(&mut self, connection: &mut PgConnection, random: &mut Dice) {
        let waits = |job: &Modelled| matches!(job.state, JobState::Scheduled | JobState::Retryable);
        let Some(index) = self.pick(random, waits) else { return };
        self.log.push(format!("promote {index}"));
        let due = format!(
            "UPDATE {{schema}}.job SET scheduled_at = now() - interval '1 s' WHERE id = '{}'",
            self.jobs[index].id
        );
        self.database.execute(&due).await;
        self.moves.promote(connection).await.expect("a promotion");
        self.go_to(index, JobState::Available);
    }

    async fn rescue(&mut self, connection: &mut PgConnection, random: &mut Dice) {
        let Some(index) = self.pick(random, |job| job.state == JobState::Running) else { return };
        self.log.push(format!("rescue {index}"));
        self.moves.kill(connection, self.jobs[index].worker.unwrap()).await.unwrap();
        self.moves.rescue(connection).await.expect("a rescue");
        let job = &mut self.jobs[index];
        let crashes = job.crashes;
        job.crashes += 1;
        // It is the latest job of its runner.
        if job.max_attempts == 1 || crashes >= 2 {
            return self.go_to(index, JobState::Discarded);
        }
        // The first crash uses up no attempt, the second not the last one.
        job.attempt = if crashes == 0 { job.attempt - 1 } else { job.attempt.min(job.max_attempts - 1) };
        self.go_to(index, JobState::Retryable);
    }

    async fn expire(&mut self, random: &mut Dice) {
        let Some(index) = self.pick(random, |job| job.is_limited && !job.is_expired) else { return };
        self.log.push(format!("expire {index}"));
        self.jobs[index].is_expired = true;
        let expire = format!(
            "UPDATE {{schema}}.job SET unique_until = now() - interval '1 s' WHERE id = '{}'",
            self.jobs[index].id
        );
        self.database.execute(&expire).await;
    }

    async fn operate(&mut self, connection: &mut PgConnection, random: &mut Dice) {
        let Some(index) = self.pick(random, |job| job.state != JobState::Running) else { return };
        let state = random.of(&not_running());
        self.log.push(format!("operator moves {index} to {state}"));
        let moved = self.moves.operate(connection, self.jobs[index].id, state).await.expect("an operator's move");
        self.go_to(index, state);
        assert_eq!(moved, Some(self.jobs[index].state.to_string()), "{:#?}", self.log);
    }

    /// R6: what enters its states takes its claim back if the key is free.
    fn go_to(&mut self, index: usize, state: JobState) {
        let job = &mut self.jobs[index];
        job.yielded |= job.states.contains(state) && !job.states.contains(job.state);
        job.state = state;
        if !job.yielded || !job.states.contains(state) || job.is_expired {
            return;
        }
        if self.holder().is_none() {
            // The expired claim in the way is given up for good.
            self.release_expired();
            self.jobs[index].yielded = false;
        } else if self.jobs[index].discard_on_reentry && !self.jobs[index].is_final() {
            self.jobs[index].state = JobState::Discarded;
        }
    }

    /// The table says what the model says, and one job at most claims the key.
    async fn check(&self, connection: &mut PgConnection) {
        let text = self.database.sql(
            "SELECT j.id, j.state::text AS state, j.claims, j.unique_states, j.attempt, j.crashes, j.run, j.replaced_by
             FROM {schema}.job AS j
             WHERE j.unique_key = $1",
        );
        let rows = sqlx::query(text).bind(&self.key).fetch_all(connection).await.unwrap();
        assert_eq!(rows.len(), self.jobs.len(), "{:#?}", self.log);
        assert!(rows.iter().filter(|row| row.get("claims")).count() <= 1, "{:#?}", self.log);
        for (index, job) in self.jobs.iter().enumerate() {
            let row = rows.iter().find(|row| row.get::<Uuid, _>("id") == job.id).expect("the job");
            let found = (
                row.get::<String, _>("state"),
                row.get::<bool, _>("claims"),
                row.get::<i16, _>("unique_states"),
                (row.get::<i16, _>("attempt"), row.get::<i16, _>("crashes")),
                row.get::<i32, _>("run"),
                row.get::<Option<Uuid>, _>("replaced_by"),
            );
            let counts = (job.attempt, job.crashes);
            let expected =
                (job.state.to_string(), job.is_marked(), job.states.bits(), counts, job.run, job.replaced_by);
            assert_eq!(found, expected, "job {index}: {:#?}", self.log);
        }
    }
}
