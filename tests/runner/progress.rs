//! The progress that jobs report.

use uniqueue::Progress;

use support::prelude::*;

/// Waits until a job's stored progress is this.
async fn until_progress(database: &Database, id: JobId, progress: &Value) {
    eventually!(
        let row = database.client.job(id).await.unwrap().unwrap();
        row.progress.as_ref() == Some(progress), "job {id} is at {:?}, not {progress}", row.progress
    );
}

#[support::test]
async fn progress_can_be_read_while_the_job_runs_and_the_last_report_stays(database: Database) {
    static GATE: Gate = Gate::closed();
    let work = async |job: RunningJob<Task>| {
        for done in 0..=500 {
            job.progress(Progress::of(done, 1000));
        }
        GATE.pass().await;
        for done in 501..=1000 {
            job.progress(Progress::of(done, 1000));
        }
    };
    database.start(quick(&database.client).worker(work)).await;
    let job = database.client.insert(Task { n: 1 }).await.unwrap();
    assert_eq!(job.job.progress, None);
    until_progress(&database, job.id(), &json!({"done": 500, "total": 1000})).await;
    assert_eq!(database.client.job(job.id()).await.unwrap().unwrap().state, JobState::Running);
    GATE.open(1);
    // What was new at the end came with the result: there is nothing to wait for.
    let row = database.until_state(job.id(), JobState::Completed).await;
    let progress: Progress = serde_json::from_value(row.progress.unwrap()).unwrap();
    assert_eq!(progress, Progress::of(1000, 1000));
}

#[support::test]
async fn an_attempt_finds_how_far_the_last_one_came_however_it_ended(database: Database) {
    let work = |job: RunningJob<Task>| async move {
        let before = job.row().progress.as_ref().and_then(Value::as_u64).unwrap_or_default();
        assert_eq!(before, u64::from(job.attempt()) - 1);
        job.progress(before + 1);
        match job.attempt() {
            1 => Err::<(), BoxError>("not yet".into()),
            2 => panic!("not yet"),
            _ => {
                let mut tx = job.client().pool().begin().await?;
                job.complete_in(&mut tx).await?;
                tx.commit().await?;
                Ok(())
            }
        }
    };
    database.start(quick(&database.client).worker(work)).await;
    let job = database.client.insert(Task { n: 1 }).await.unwrap();
    let row = database.until_state(job.id(), JobState::Completed).await;
    assert_eq!((row.attempt, row.progress), (3, Some(json!(3))), "{:?}", row.errors);
}

#[support::test]
async fn a_report_that_cannot_be_stored_costs_neither_its_job_nor_the_others_anything(database: Database) {
    // Only the database rejects it: by a CHECK of the application.
    database.execute("ALTER TABLE {schema}.job ADD CHECK (progress IS NULL OR progress <> '13')").await;
    static GATE: Gate = Gate::closed();
    let work = async |job: RunningJob<Task>| {
        match job.args.n {
            0 => job.progress("nul \0 inside"),
            1 => job.progress(HashMap::from([((1, 2), 3)])),
            2 => job.progress(13),
            n => job.progress(n),
        }
        GATE.pass().await;
        if job.args.n == 2 {
            // Once more, to come with the result.
            job.progress(0);
            job.progress(13);
        }
    };
    database.start(quick(&database.client).worker(work)).await;
    let jobs = database.client.insert_many((0..5).map(|n| Task { n })).await.unwrap();
    until_progress(&database, jobs[3].id(), &json!(3)).await;
    until_progress(&database, jobs[4].id(), &json!(4)).await;
    GATE.open(5);
    for (n, job) in jobs.iter().enumerate() {
        let row = database.until_state(job.id(), JobState::Completed).await;
        assert_eq!((row.errors.len(), row.progress), (0, (n > 2).then(|| json!(n))));
    }
}

#[support::test]
async fn a_locked_row_holds_up_no_other_report_and_has_its_own_stored_later(database: Database) {
    static GATE: Gate = Gate::closed();
    let work = async |job: RunningJob<Task>| {
        GATE.pass().await;
        job.progress(job.args.n);
        job.stopped().await;
    };
    database.start(quick(&database.client).stop_timeout(Duration::ZERO).worker(work)).await;
    let locked = database.client.insert(Task { n: 1 }).await.unwrap();
    let free = database.client.insert(Task { n: 2 }).await.unwrap();
    for job in [&locked, &free] {
        database.until_state(job.id(), JobState::Running).await;
    }
    let lock = format!("SELECT id FROM {{schema}}.job WHERE id = '{}' FOR UPDATE", locked.id());
    let open = database.begin(&lock).await;
    GATE.open(2);
    until_progress(&database, free.id(), &json!(2)).await;
    assert_eq!(database.client.job(locked.id()).await.unwrap().unwrap().progress, None);
    open.commit().await.unwrap();
    until_progress(&database, locked.id(), &json!(1)).await;
}

#[support::test]
async fn the_report_of_an_attempt_that_is_over_is_dropped(database: Database) {
    static GATE: Gate = Gate::closed();
    let work = async |job: RunningJob<Task>| {
        GATE.pass().await;
        job.progress("mine");
        std::future::pending::<()>().await;
    };
    let runner = quick(&database.client).stop_timeout(Duration::ZERO).stop_grace(Duration::ZERO).worker(work);
    database.start(runner).await;
    let taken = database.client.insert(Task { n: 1 }).await.unwrap();
    let kept = database.client.insert(Task { n: 2 }).await.unwrap();
    for job in [&taken, &kept] {
        database.until_state(job.id(), JobState::Running).await;
    }
    // Another run has it, of the same runner and with the same attempt's number.
    let take = format!("UPDATE {{schema}}.job SET run = 2, progress = '\"theirs\"' WHERE id = '{}'", taken.id());
    database.execute(&take).await;
    GATE.open(2);
    // Both were to be stored in one statement.
    until_progress(&database, kept.id(), &json!("mine")).await;
    let row = database.client.job(taken.id()).await.unwrap().unwrap();
    assert_eq!(row.progress, Some(json!("theirs")));
}

#[support::test(with_connections(1))]
async fn connections_from_before_a_column_was_added_go_on_as_if_nothing_had_been(database: Database, client: &Client) {
    let key = || job("a").unique_key(uniqueue::UniqueKey::raw("k"));
    let replace = || job("a").unique_key(uniqueue::UniqueKey::raw("k").on_conflict(uniqueue::OnConflict::Replace));
    let all = async || {
        // Everything that hands whole rows around, on the one connection, which keeps its plans.
        let one = client.insert(key()).await.unwrap();
        let two = client.insert(key()).await.unwrap();
        assert!(two.duplicate && two.id() == one.id());
        let many = client.insert_many([key(), job("b").unique_key(UniqueKey::raw("l"))]).await.unwrap();
        assert!(many[0].duplicate && many[0].id() == one.id());
        client.job(one.id()).await.unwrap().unwrap();
        let replaced = client.insert(replace()).await.unwrap();
        assert_eq!(replaced.replaced, Some(one.id()));
        let door = database.sql("SELECT id FROM {schema}.insert_job('c', '{}')");
        sqlx::query(door).execute(database.pool()).await.unwrap();
        client.cancel([replaced.id(), many[1].id()]).await.unwrap();
    };
    // Often enough for the plans to be kept.
    for _ in 0..7 {
        all().await;
    }
    let mut other = PgConnection::connect(&database.url).await.unwrap();
    for column in ["more", "still_more"] {
        let add = database.sql(&format!("ALTER TABLE {{schema}}.job ADD COLUMN {column} jsonb"));
        sqlx::query(add).execute(&mut other).await.unwrap();
        all().await;
    }
}
