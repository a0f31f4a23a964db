//! docs/reference/states.md against the database: every transition is driven from every state, and what it
//! did is compared with the page's table and picture.
//!
//! `GOLDEN=overwrite cargo test --test unique states` writes the table anew; review its diff.

mod seen;

use uniqueue::testing::{self, Database};

use self::seen::Seen;
use support::prelude::*;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/reference/states.md");
const BEGIN: &str = "<!-- the table: written by tests/unique/states.rs -->\n";
const END: &str = "<!-- the end of the table -->\n";

/// Jobs to drive, each with a key of its own that it claims in the default scope.
struct Stage {
    database: Database,
    seen: Seen,
    count: u32,
}

impl Stage {
    fn client(&self) -> &Client {
        self.database.client()
    }

    async fn row(&self, id: JobId) -> Option<JobRow> {
        self.client().job(id).await.unwrap()
    }

    fn key(&mut self) -> UniqueKey {
        self.count += 1;
        UniqueKey::raw(format!("k{}", self.count)).scope(UniqueScope::Active)
    }

    /// A job in a state, as its life would leave it there, due since a moment where it waits.
    async fn job_in(&mut self, state: JobState, due: bool) -> JobRow {
        let key = self.key();
        let id = self.client().insert(Task { n: 0 }).unique_key(key).pending().await.unwrap().id();
        let scheduled_at = if due { "now() - interval '1 min'" } else { "now() + interval '1 h'" };
        let set = format!(
            "UPDATE uniqueue.job SET state = $2::uniqueue.job_state,
                attempt = CASE WHEN $2 IN ('available', 'pending', 'scheduled') THEN 0 ELSE 1 END,
                worker = CASE WHEN $2 = 'running' THEN gen_random_uuid() END,
                scheduled_at = CASE WHEN $2 IN ('scheduled', 'retryable', 'pending') THEN {scheduled_at} ELSE scheduled_at END,
                finalized_at = CASE WHEN $2 IN ('completed', 'cancelled', 'discarded') THEN now() END
             WHERE id = $1"
        );
        sqlx::query(sqlx::AssertSqlSafe(set))
            .bind(id.as_uuid())
            .bind(state.as_str())
            .execute(self.database.pool())
            .await
            .unwrap();
        let row = self.row(id).await.unwrap();
        assert_eq!(row.state, state);
        row
    }

    /// Does something to one job in each of the states, and notes what it did.
    async fn drive(
        &mut self,
        who: &'static str,
        due: bool,
        states: &[JobState],
        change: impl AsyncFn(&Client, &JobRow),
    ) {
        for state in states {
            let before = self.job_in(*state, due).await;
            change(self.client(), &before).await;
            let after = self.row(before.id).await;
            self.seen.add(who, Some(&before), after.as_ref());
            // Nothing is left for the next.
            sqlx::query("DELETE FROM uniqueue.job").execute(self.database.pool()).await.unwrap();
        }
    }

    async fn inserts(&mut self) {
        let client = self.client().clone();
        let insert = || client.insert(Task { n: 0 });
        for insert in [insert(), insert().scheduled_in(HOUR), insert().pending()] {
            let row = insert.unique_key(self.key()).await.unwrap().job;
            self.seen.add("an insert", None, Some(&row));
        }
        self.drive("an insert that replaces it", false, &JobState::ALL, async |client, before| {
            let key = UniqueKey::raw(before.unique_key.clone().unwrap()).on_conflict(OnConflict::Replace);
            let _ = client.insert(Task { n: 1 }).unique_key(key).await;
        })
        .await;
    }

    async fn runners_begin(&mut self) {
        let not_running: Vec<_> = JobState::ALL.into_iter().filter(|state| *state != JobState::Running).collect();
        self.drive("the promoter, when it is due", true, &not_running, async |client, _| {
            testing::advance(client, Duration::ZERO).await.unwrap();
        })
        .await;
        self.drive("the expirer, when it has not started in time", false, &not_running, async |client, _| {
            for statement in ["UPDATE uniqueue.job SET expires_at = now()", "SELECT uniqueue._run_service('expirer')"] {
                sqlx::query(statement).execute(client.pool()).await.unwrap();
            }
        })
        .await;
    }

    /// Fetches, and each way in which an attempt ends.
    async fn attempts(&mut self) {
        const ENDS: [(&str, u16); 7] = [
            ("its worker completes it", 3),
            ("its worker fails", 3),
            ("its worker fails, no attempt left", 1),
            ("its worker fails, and retries at once", 3),
            ("its worker snoozes it", 3),
            ("its worker cancels it", 3),
            ("its worker discards it", 3),
        ];
        let running: Arc<Mutex<HashMap<JobId, JobRow>>> = Arc::default();
        let noted = running.clone();
        let work = move |job: RunningJob<Task>| {
            let noted = noted.clone();
            async move {
                let row = job.client().job(job.id()).await.unwrap().unwrap();
                noted.lock().unwrap().insert(job.id(), row);
                match job.args.n {
                    0 => Ok(Outcome::complete()),
                    1 | 2 => Err("no luck"),
                    3 => {
                        // Or the drain would take it again.
                        job.client().queue("default").pause().await.unwrap();
                        Ok(Outcome::retry(Duration::ZERO, "again"))
                    }
                    4 => Ok(Outcome::snooze(HOUR)),
                    5 => Ok(Outcome::cancel("unwanted")),
                    _ => Ok(Outcome::discard("hopeless")),
                }
            }
        };
        let mut jobs = Vec::new();
        for (n, (who, max_attempts)) in (0..).zip(ENDS) {
            let key = self.key();
            // The one that pauses the queue comes last.
            let priority = if n == 3 { -1 } else { 0 };
            let insert = self.client().insert(Task { n }).unique_key(key).max_attempts(max_attempts).priority(priority);
            jobs.push((who, insert.await.unwrap().job));
        }
        let policy = uniqueue::RetryPolicy::fixed(HOUR);
        let runner = Runner::new(self.client().clone()).queue("default", 1).retry_policy(policy).worker(work);
        testing::drain(runner).await.unwrap();
        for (_, fetched) in &jobs {
            self.seen.add("a runner fetches it", Some(fetched), Some(&running.lock().unwrap()[&fetched.id]));
        }
        for (who, fetched) in jobs {
            let running = running.lock().unwrap()[&fetched.id].clone();
            let after = self.row(fetched.id).await;
            self.seen.add(who, Some(&running), after.as_ref());
        }
        self.client().queue("default").resume().await.unwrap();

        sqlx::query("INSERT INTO uniqueue.queue (name, keep_completed) VALUES ('unkept', '0')")
            .execute(self.database.pool())
            .await
            .unwrap();
        let key = self.key();
        let id = self.client().insert(Task { n: 0 }).queue("unkept").unique_key(key).await.unwrap().id();
        let running: Arc<Mutex<Option<JobRow>>> = Arc::default();
        let noted = running.clone();
        let work = move |job: RunningJob<Task>| {
            let noted = noted.clone();
            async move { *noted.lock().unwrap() = job.client().job(job.id()).await.unwrap() }
        };
        testing::drain(Runner::new(self.client().clone()).queue("unkept", 1).worker(work)).await.unwrap();
        let before = running.lock().unwrap().take();
        let after = self.row(id).await;
        self.seen.add("its worker completes it, in a queue that keeps none", before.as_ref(), after.as_ref());
        sqlx::query("DELETE FROM uniqueue.job").execute(self.database.pool()).await.unwrap();
    }

    /// A runner that stops before the work is done, one that dies, and one that cleans up.
    async fn runners_end(&mut self) {
        let key = self.key();
        let job = self.client().insert(Task { n: 0 }).unique_key(key).await.unwrap().job;
        let mut events = self.client().events();
        let runner = Runner::new(self.client().clone())
            .queue("default", 1)
            .worker(|_: RunningJob<Task>| std::future::pending::<()>())
            .stop_timeout(Duration::ZERO)
            .stop_grace(Duration::ZERO)
            .start()
            .await
            .unwrap();
        while !matches!(events.recv().await.unwrap().happened, Happened::Started { .. }) {}
        let running = self.row(job.id).await.unwrap();
        runner.stop().await.unwrap();
        let after = self.row(job.id).await;
        self.seen.add("its runner stops, and gives it back", Some(&running), after.as_ref());

        let rescue = async |client: &Client, _: &JobRow| {
            testing::advance(client, Duration::ZERO).await.unwrap();
        };
        self.drive("the rescuer, when its runner has died the first time", false, &[JobState::Running], rescue).await;
        for (who, crash) in [
            ("the rescuer, at a crash as a suspect", "crashes = 1"),
            ("the rescuer, at the third crash", "crashes = 2"),
            ("the rescuer, of a job with one attempt", "max_attempts = 1"),
        ] {
            self.drive(who, false, &[JobState::Running], async |client, before| {
                let set = sqlx::AssertSqlSafe(format!("UPDATE uniqueue.job SET {crash} WHERE id = $1"));
                sqlx::query(set).bind(before.id.as_uuid()).execute(client.pool()).await.unwrap();
                rescue(client, before).await;
            })
            .await;
        }

        let mut jobs = Vec::new();
        for state in JobState::ALL {
            jobs.push(self.job_in(state, false).await);
        }
        let keep = Retention::forever().completed(Duration::ZERO).cancelled(Duration::ZERO).discarded(Duration::ZERO);
        let runner = Runner::new(self.client().clone())
            .queue("elsewhere", 1)
            .worker(|_: RunningJob<Task>| async {})
            .retention(keep)
            .prune_interval(Duration::from_millis(5))
            // Later than this test ends, so that nothing else moves.
            .promote_interval(HOUR)
            .start()
            .await
            .unwrap();
        let finals = "SELECT count(*) FROM uniqueue.job WHERE finalized_at IS NOT NULL";
        eventually!(
            sqlx::query_scalar::<_, i64>(finals).fetch_one(self.database.pool()).await.unwrap() == 0,
            "the pruner leaves final jobs"
        );
        runner.stop().await.unwrap();
        for before in jobs {
            let after = self.row(before.id).await;
            // The runner's rescuer has taken the job that ran without a runner.
            if before.state != JobState::Running {
                self.seen.add("the pruner, after its retention", Some(&before), after.as_ref());
            }
        }
        sqlx::query("DELETE FROM uniqueue.job").execute(self.database.pool()).await.unwrap();
    }

    async fn operators(&mut self) {
        let all = &JobState::ALL;
        self.drive("`cancel`", false, all, async |client, job| drop(client.cancel([job.id]).await.unwrap())).await;
        self.drive("`retry`", false, all, async |client, job| drop(client.retry([job.id]).await.unwrap())).await;
        self.drive("`release`, due", true, all, async |client, job| drop(client.release([job.id]).await.unwrap()))
            .await;
        self.drive("`release`, not due", false, all, async |client, job| {
            drop(client.release([job.id]).await.unwrap());
        })
        .await;
        self.drive("`reschedule` to a later time", false, all, async |client, job| {
            let at = time::OffsetDateTime::now_utc() + 5 * HOUR;
            drop(client.reschedule([job.id], at).await.unwrap());
        })
        .await;
        self.drive("`reschedule` to now", false, all, async |client, job| {
            drop(client.reschedule([job.id], time::OffsetDateTime::now_utc()).await.unwrap());
        })
        .await;
        self.drive("`delete`", false, all, async |client, job| drop(client.delete([job.id]).await.unwrap())).await;
    }
}

#[support::test(flavor = "multi_thread")]
async fn the_page_tells_every_transition_and_no_other(database: testing::Database) {
    let mut stage = Stage { database, seen: Seen::default(), count: 0 };
    stage.inserts().await;
    stage.runners_begin().await;
    stage.attempts().await;
    stage.runners_end().await;
    stage.operators().await;
    let table = stage.seen.table();
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (head, rest) = page.split_once(BEGIN).expect("the table's beginning");
    let (told, tail) = rest.split_once(END).expect("the table's end");
    if std::env::var("GOLDEN").is_ok_and(|value| value == "overwrite") {
        std::fs::write(PAGE, format!("{head}{BEGIN}{table}{END}{tail}")).unwrap();
        return;
    }
    for (told, seen) in told.lines().zip(table.lines()) {
        assert_eq!(told, seen, "hint: GOLDEN=overwrite, then review the diff");
    }
    assert_eq!(told.lines().count(), table.lines().count(), "hint: GOLDEN=overwrite, then review the diff");
}

/// Every change of state that the page's table tells, but for those to and from nothing.
fn told_changes(page: &str) -> BTreeSet<(String, String)> {
    let table = page.split_once(BEGIN).unwrap().1.split_once(END).unwrap().0;
    let mut changes = BTreeSet::new();
    for row in table.lines().skip(2) {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        for from in cells[2].split(", ").filter(|from| *from != "–" && cells[3] != "gone" && *from != cells[3]) {
            changes.insert((from.to_owned(), cells[3].to_owned()));
        }
    }
    changes
}

#[test]
fn the_picture_shows_every_change_of_state_and_no_other() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let picture = page.split_once("```mermaid\n").unwrap().1.split_once("```").unwrap().0;
    let mut shown = BTreeSet::new();
    for line in picture.lines() {
        let Some((from, to)) = line.split_once(" --> ").or_else(|| line.split_once(" -.-> ")).or_else(|| {
            // With a label: `a -->|why| b`.
            let (from, rest) = line.split_once(" -->|").or_else(|| line.split_once(" -.->|"))?;
            Some((from, rest.split_once("| ")?.1))
        }) else {
            continue;
        };
        for from in from.split(" & ") {
            shown.insert((from.trim().to_owned(), to.trim().to_owned()));
        }
    }
    let is_state = |name: &String| name.parse::<JobState>().is_ok();
    let shown: BTreeSet<_> = shown.into_iter().filter(|(from, to)| is_state(from) && is_state(to)).collect();
    let told = told_changes(&page);
    assert!(told.len() > 12, "{told:?}");
    assert_eq!(shown, told);
}
