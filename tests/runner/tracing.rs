//! The span of an attempt, and the trace it is in.

use opentelemetry::trace::{SpanKind, Status};
use tracing::Instrument;

use support::prelude::*;
use support::{Trace, attribute};

/// Waits until this many spans of the name have ended in the trace.
async fn ended(trace: &Trace, name: &str, wanted: usize) -> Vec<opentelemetry_sdk::trace::SpanData> {
    eventually!(
        let spans = trace.ended(name);
        spans.len() >= wanted, "{} of {wanted} spans {name}", spans.len()
    )
}

#[support::test]
async fn the_workers_span_is_in_the_inserters_trace(database: Database) {
    let (trace, request) = Trace::begin();
    let job = database.client.insert(Task { n: 1 }).into_future().instrument(request.clone()).await.unwrap();
    drop(request);
    let request = ended(&trace, "request", 1).await.remove(0);
    let parent = job.job.meta["traceparent"].as_str().unwrap();
    assert_eq!(parent, format!("00-{}-{}-01", trace.id, request.span_context.span_id()));
    assert_eq!(job.job.meta["tracestate"], "vendor=of-the-caller");

    // The runner knows of the trace from the database alone.
    let work = |_: RunningJob<Task>| async {
        tracing::info_span!(target: "traced", "inside").in_scope(|| {});
    };
    let runner = quick(&database.client).worker(work).start().await.unwrap();
    database.until_state(job.id(), JobState::Completed).await;
    runner.stop().await.unwrap();
    let attempt = ended(&trace, "task", 1).await.remove(0);
    assert_eq!(attempt.parent_span_id, request.span_context.span_id());
    assert!(attempt.parent_span_is_remote);
    assert_eq!(attempt.span_context.trace_state().header(), "vendor=of-the-caller");
    let inside = ended(&trace, "inside", 1).await.remove(0);
    assert_eq!(inside.parent_span_id, attempt.span_context.span_id());
}

#[support::test]
async fn the_span_says_which_attempt_it_is_and_how_it_ended(database: Database) {
    let (trace, request) = Trace::begin();
    let work = |job: RunningJob<Task>| async move {
        match job.args.n {
            0 => Ok(Outcome::complete()),
            1 => Err("no luck"),
            2 => Ok(Outcome::snooze(Duration::from_secs(600))),
            3 => Ok(Outcome::cancel("not wanted")),
            _ => Ok(Outcome::discard("hopeless")),
        }
    };
    database.start(quick(&database.client).worker(work)).await;
    let failed = |reason: &'static str| Status::error(reason);
    for (n, state, outcome, status) in [
        (0, JobState::Completed, "completed", Status::Ok),
        (1, JobState::Discarded, "discarded", failed("no luck")),
        (2, JobState::Scheduled, "snoozed", Status::Unset),
        (3, JobState::Cancelled, "cancelled", Status::Unset),
        (4, JobState::Discarded, "discarded", failed("hopeless")),
    ] {
        let attempts = if n == 1 { 2 } else { 1 };
        let before = trace.ended("task").len();
        let insert = database.client.insert(Task { n }).max_attempts(2);
        let job = insert.into_future().instrument(request.clone()).await.unwrap();
        database.until_state(job.id(), state).await;
        let spans = ended(&trace, "task", before + attempts).await;
        let span = spans.last().unwrap();
        let said = |name| attribute(span, name).unwrap_or_default();
        assert_eq!((said("job.id"), said("job.kind")), (job.id().to_string(), "task".to_owned()));
        assert_eq!((said("queue"), said("attempt")), ("default".to_owned(), attempts.to_string()));
        assert_eq!(said("outcome"), outcome);
        assert_eq!(said("traceparent"), job.job.meta["traceparent"].as_str().unwrap());
        assert_eq!((&span.span_kind, &span.status), (&SpanKind::Consumer, &status));
        if n == 1 {
            assert_eq!(attribute(&spans[before], "outcome").unwrap(), "retried");
            assert!(spans[before].events.iter().any(|event| event.name == "attempt failed"), "{spans:?}");
        }
    }
}

#[support::test]
async fn what_was_completed_in_a_transaction_is_traced_as_completed(database: Database) {
    let (trace, request) = Trace::begin();
    let work = |job: RunningJob<Task>| async move {
        let mut tx = job.client().pool().begin().await?;
        job.complete_in(&mut tx).await?;
        if job.args.n == 2 {
            // The transaction is rolled back.
            return Err("too late".into());
        }
        tx.commit().await?;
        Ok::<_, BoxError>(())
    };
    database.start(quick(&database.client).worker(work)).await;
    for (n, state, outcome, status) in [
        (1, JobState::Completed, "completed", Status::Ok),
        (2, JobState::Discarded, "discarded", Status::error("too late")),
    ] {
        let insert = database.client.insert(Task { n }).max_attempts(1).into_future().instrument(request.clone());
        let job = insert.await.unwrap();
        database.until_state(job.id(), state).await;
        let span = ended(&trace, "task", n as usize).await.pop().unwrap();
        assert_eq!((attribute(&span, "outcome").unwrap().as_str(), &span.status), (outcome, &status));
    }
}

#[support::test]
async fn a_trace_of_the_callers_own_stays_and_without_one_there_is_none(database: Database) {
    let outside = database.client.insert(Task { n: 1 }).await.unwrap();
    assert!(outside.job.meta.is_empty(), "{:?}", outside.job.meta);
    let (_, request) = Trace::begin();
    let own = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
    let batch = [NewJob::new("a", &Value::Null).meta("traceparent", own), NewJob::new("b", &Value::Null)];
    let answers = database.client.insert_many(batch).into_future().instrument(request).await.unwrap();
    assert_eq!(answers[0].job.meta["traceparent"], own);
    assert!(!answers[0].job.meta.contains_key("tracestate"), "it belongs to another trace");
    assert_ne!(answers[1].job.meta["traceparent"], own);
}

#[support::test]
async fn the_trace_context_is_in_no_key_unless_somebody_selects_it(database: Database) {
    let keyed = |policy: UniquePolicy| NewJob::new("a", &Value::Null).meta("tenant", 7).unique(policy);
    let (_, first) = Trace::begin();
    let (_, second) = Trace::begin();
    for (policy, is_duplicate) in [
        (UniquePolicy::new().by_args(), true),
        (UniquePolicy::new().by_meta(["tenant"]), true),
        (UniquePolicy::new().by_meta(["tenant", "traceparent"]), false),
    ] {
        database.client.insert(keyed(policy.clone())).into_future().instrument(first.clone()).await.unwrap();
        let again = database.client.insert(keyed(policy)).into_future().instrument(second.clone()).await.unwrap();
        assert_eq!(again.duplicate, is_duplicate, "{:?}", again.job.unique_key);
    }
}

#[support::test]
async fn a_traceparent_that_is_none_stops_no_job(database: Database) {
    database.start(quick(&database.client).worker(at_once)).await;
    for odd in [Value::from("nonsense"), Value::from(7), Value::Null] {
        let job = database.client.insert(Task { n: 1 }).meta("traceparent", odd).await.unwrap();
        database.until_state(job.id(), JobState::Completed).await;
    }
}
