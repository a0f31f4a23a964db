//! The jobs that a filter finds.

use support::prelude::*;

async fn matching(database: &Database, filter: JobFilter) -> Vec<JobId> {
    let count = database.client.count_jobs(filter.clone(), 1_000).await.unwrap();
    let found: Vec<_> = database.client.jobs(filter.oldest_first()).await.unwrap().iter().map(|job| job.id).collect();
    assert_eq!(count, JobCount::Exactly(found.len() as u64));
    found
}

#[support::test]
async fn a_filter_means_the_jobs_for_which_everything_holds(database: Database, client: &Client) {
    let insert = async |job: NewJob| client.insert(job).await.unwrap().id();
    let plain = insert(job("a")).await;
    let queued = insert(job("a").queue("other").priority(3).group("it's 1")).await;
    let kind = insert(job("b")).await;
    let keyed = insert(job("c").unique_key(UniqueKey::raw("it's"))).await;
    let args = insert(NewJob::new("d", &json!({"tenant": 7, "tags": ["x", "y"], "deep": {"a": 1, "b": 2}}))).await;
    let meta = insert(job("e").meta("trace", "abc").group("it's 1")).await;
    let later = insert(job("f").scheduled_in(HOUR).group("it's 12")).await;
    let failed = insert(job("g")).await;
    database.set_state(failed, "discarded").await;
    database
        .execute(&format!(
            "UPDATE {{schema}}.job SET attempt = 4, attempted_at = now() - interval '1 hour' WHERE id = '{failed}'"
        ))
        .await;
    let all = [plain, queued, kind, keyed, args, meta, later, failed];
    let new = JobFilter::new;
    let now = OffsetDateTime::now_utc();
    for (filter, meant) in [
        (JobFilter::all(), all.to_vec()),
        (new().states(JobState::Scheduled), vec![later]),
        (new().states([JobState::Scheduled, JobState::Retryable]), vec![later]),
        (new().states([JobState::Scheduled, JobState::Discarded]), vec![later, failed]),
        (new().states(JobState::Running), vec![]),
        (new().states(JobState::Available).kind("a"), vec![plain, queued]),
        (new().queue("other"), vec![queued]),
        (new().queue("other").kind("b"), vec![]),
        (new().queues(["other", "default"]).kinds(["a", "b"]), vec![plain, queued, kind]),
        (new().queues(["other", "none"]), vec![queued]),
        (new().kinds(["c", "d", "d"]), vec![keyed, args]),
        (new().priority(3), vec![queued]),
        (new().kind("b"), vec![kind]),
        (new().unique_key("it's"), vec![keyed]),
        (new().unique_key("its"), vec![]),
        (new().group("it's 1"), vec![queued, meta]),
        (new().group("it's 1").queue("default"), vec![meta]),
        (new().group("it's 12").states(JobState::Scheduled), vec![later]),
        (new().group("it's"), vec![]),
        (new().group("' OR ''='"), vec![]),
        (new().args(json!({"tenant": 7})), vec![args]),
        (new().args(json!({"tags": ["y"], "deep": {"b": 2}})), vec![args]),
        (new().args(json!({"tenant": "7"})), vec![]),
        (new().meta(json!({"trace": "abc"})), vec![meta]),
        (new().attempts_at_least(4), vec![failed]),
        (new().attempts_at_least(5), vec![]),
        (new().created_after(now - MINUTE), all.to_vec()),
        (new().created_before(now - MINUTE), vec![]),
        (new().scheduled_after(now + MINUTE), vec![later]),
        (new().scheduled_before(now - MINUTE), vec![]),
        (new().attempted_before(now + MINUTE), vec![failed]),
        (new().attempted_before(now + MINUTE).attempted_after(now), vec![]),
        (new().ids([queued, kind]), vec![queued, kind]),
        (new().ids([queued, kind]).priority(3), vec![queued]),
        (new().ids([] as [JobId; 0]), vec![]),
        (new().id_at_least(later), vec![later, failed]),
        (new().id_at_least(JobId::first_at(now + MINUTE)), vec![]),
        (new().finalized_after(now - MINUTE), vec![failed]),
        (new().finalized_before(now + MINUTE), vec![failed]),
        (new().kind("'; DROP TABLE job; --"), vec![]),
        (new().queue("\" OR true --").unique_key("' OR ''='"), vec![]),
    ] {
        assert_eq!(matching(&database, filter.clone()).await, meant, "{filter:?}");
    }
    for group in ["", "a\0", &"x".repeat(513)] {
        let refused = client.count_jobs(new().group(group), 10).await.unwrap_err();
        assert!(matches!(refused, Error::InvalidOption { option: "group", .. }), "{refused}");
    }
    // The key belongs to the job that claims it now.
    client.cancel(keyed).await.unwrap();
    assert_eq!(matching(&database, new().unique_key("it's")).await, []);
}

#[support::test]
async fn a_filter_that_says_nothing_is_refused_by_everything_that_takes_one(database: Database, client: &Client) {
    client.insert(job("a")).await.unwrap();
    let nothing = JobFilter::new;
    for error in [
        client.delete(nothing()).await.unwrap_err(),
        client.cancel(nothing().limit(1)).await.unwrap_err(),
        client.jobs(nothing()).await.unwrap_err(),
        client.count_jobs(nothing(), 10).await.unwrap_err(),
    ] {
        assert!(matches!(error, Error::InvalidOption { option: "filter", .. }), "{error}");
    }
    assert_eq!(client.delete(JobFilter::all()).await.unwrap().len(), 1);
}

#[support::test]
async fn pages_go_through_all_jobs_once_in_either_direction(database: Database, client: &Client) {
    let jobs = client.insert_many((0..25).map(|_| job("a"))).await.unwrap();
    let mut ids: Vec<_> = jobs.iter().map(|job| job.id()).collect();
    ids.sort_unstable();
    for is_oldest_first in [true, false] {
        let page = |after: Option<JobId>| {
            let jobs = JobFilter::new().kind("a").limit(10).after(after);
            client.jobs(if is_oldest_first { jobs.oldest_first() } else { jobs })
        };
        let (mut seen, mut lengths, mut after) = (Vec::new(), Vec::new(), None);
        loop {
            let rows = page(after).await.unwrap();
            lengths.push(rows.len());
            let Some(last) = rows.last() else { break };
            after = Some(last.id);
            seen.extend(rows.iter().map(|row| row.id));
        }
        assert_eq!(lengths, [10, 10, 5, 0]);
        if !is_oldest_first {
            seen.reverse();
        }
        assert_eq!(seen, ids);
    }
    let mut tx = database.pool().begin().await.unwrap();
    client.insert(job("b")).tx(&mut tx).await.unwrap();
    assert_eq!(client.jobs(JobFilter::new().kind("b")).tx(&mut tx).await.unwrap().len(), 1);
    assert_eq!(client.jobs(JobFilter::new().kind("b")).await.unwrap().len(), 0);
}

#[support::test]
async fn a_list_goes_no_further_than_an_id(database: Database, client: &Client) {
    let mut ids = Vec::new();
    for second in 0..4 {
        let at = JobId::first_at(datetime!(2026-02-12 15:15:00 UTC) + Duration::from_secs(second));
        ids.push(client.insert(job("a").id(at)).await.unwrap().id());
    }
    let found =
        async |filter: JobFilter| client.jobs(filter).await.unwrap().iter().map(|job| job.id).collect::<Vec<_>>();
    let new = JobFilter::new;
    assert_eq!(found(new().id_at_least(ids[2])).await, [ids[3], ids[2]]);
    assert_eq!(found(new().after(ids[2]).id_at_least(ids[1])).await, [ids[1]]);
    assert_eq!(found(new().oldest_first().id_at_most(ids[1])).await, [ids[0], ids[1]]);
    assert_eq!(
        client.delete(new().after(ids[2]).id_at_most(ids[0])).await.unwrap(),
        [ids[0]],
        "a change means the same"
    );
    let sql: uuid::Uuid = sqlx::query_scalar(database.sql("SELECT {schema}.id_at('2026-02-12T15:15:01Z')"))
        .fetch_one(database.pool())
        .await
        .unwrap();
    assert_eq!(JobId::from(sql), ids[1], "as in SQL");
}

#[support::test]
async fn a_count_says_where_it_stopped(database: Database) {
    database.client.insert_many((0..25).map(|_| job("a"))).await.unwrap();
    for (up_to, counted, text) in
        [(24, JobCount::AtLeast(24), "> 24"), (25, JobCount::Exactly(25), "25"), (0, JobCount::AtLeast(0), "> 0")]
    {
        let count = database.client.count_jobs(JobFilter::all(), up_to).await.unwrap();
        assert_eq!((count, count.to_string().as_str()), (counted, text));
    }
}

#[support::test]
async fn jobs_are_found_by_the_time_of_their_last_error_whenever_they_were_inserted(database: Database) {
    let client = &database.client;
    let ids: Vec<_> =
        client.insert_many((0..4).map(|_| job("send"))).await.unwrap().iter().map(|one| one.id()).collect();
    let failed_at = [datetime!(2026-01-01 8:00 UTC), datetime!(2026-01-01 9:00 UTC), datetime!(2026-01-01 10:00 UTC)];
    for (id, at) in ids.iter().zip(failed_at) {
        let at = at.format(&Rfc3339).unwrap();
        let errors = json!([
            { "attempt": 1, "at": "2020-01-01T00:00:00Z", "error": "no" },
            { "attempt": 2, "at": at, "error": "no" },
        ]);
        database.execute(&format!("UPDATE {{schema}}.job SET errors = '{errors}' WHERE id = '{id}'")).await;
    }
    let found = async |filter: JobFilter| {
        client.jobs(filter.oldest_first()).await.unwrap().iter().map(|job| job.id).collect::<Vec<_>>()
    };
    assert_eq!(found(JobFilter::new().failed_after(failed_at[1])).await, ids[1..3]);
    assert_eq!(found(JobFilter::new().failed_before(failed_at[1])).await, ids[..1]);
    assert_eq!(found(JobFilter::new().failed_after(failed_at[0]).except_ids([ids[1]])).await, [ids[0], ids[2]]);
    assert_eq!(found(JobFilter::new().except_ids(&ids[1..])).await, ids[..1]);
    // A note by hand has no time.
    database.execute("UPDATE {schema}.job SET errors = errors || '\"a note\"'::jsonb").await;
    assert_eq!(found(JobFilter::new().failed_after(failed_at[0])).await, []);
}

#[support::test]
async fn jobs_are_found_by_a_path_in_their_args(database: Database, client: &Client) {
    let args = [json!({"to": {"mail": "Ada@example.com"}}), json!({"to": "eve"}), json!([1])];
    let jobs = args.map(|args| NewJob::new("send", &args));
    let ids: Vec<_> = client.insert_many(jobs).await.unwrap().iter().map(|one| one.id()).collect();
    for (path, found) in [
        (r#"$.to.mail ? (@ like_regex "^ada@" flag "i")"#, &ids[..1]),
        (r#"$.** ? (@ like_regex "a" flag "iq")"#, &ids[..1]),
        ("$[0] ? (@ == 1)", &ids[2..]),
        ("$.none", &[]),
    ] {
        let jobs = client.jobs(JobFilter::new().args_path(path)).await.unwrap();
        assert_eq!(jobs.iter().map(|job| job.id).collect::<Vec<_>>(), found, "{path}");
    }
    assert!(client.jobs(JobFilter::new().args_path("$.")).await.is_err());
    assert_eq!(client.discard(JobFilter::new().args_path("$.to")).await.unwrap().len(), 2);
    let errors = client.job(ids[0]).await.unwrap().unwrap().errors;
    assert_eq!(errors[0].code.as_deref(), Some("by_operator"));
}
