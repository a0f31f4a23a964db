//! Failures that only a pooler can cause.

use super::{Ground, Mode};
use support::bouncer::{self, Bouncer};
use support::prelude::*;

#[tokio::test]
async fn no_session_behind_the_pooler_keeps_anything() {
    let Some(ground) = Ground::new(Mode::Pooled).await else { return };
    let runner = ground.runner().worker(at_once).start().await.unwrap();
    let jobs = ground.client.insert_many((0..200).map(|n| Task { n })).await.unwrap();
    for job in jobs {
        ground.until(job.id(), uniqueue::JobState::Completed).await;
    }
    runner.stop().await.unwrap();
    let kept = "SELECT pg_backend_pid(), concat_ws(', ',
            (SELECT string_agg(s.name || ' = ' || s.setting, ', ') FROM pg_settings AS s
             WHERE s.source = 'session' AND s.name NOT IN
                ('application_name', 'client_encoding', 'DateStyle', 'TimeZone', 'IntervalStyle',
                 'standard_conforming_strings', 'extra_float_digits', 'session_authorization')),
            (SELECT string_agg('listens to ' || c, ', ') FROM pg_listening_channels() AS c),
            (SELECT 'advisory locks' FROM pg_locks AS l
             WHERE l.pid = pg_backend_pid() AND l.locktype = 'advisory' LIMIT 1),
            (SELECT 'cursor ' || c.name FROM pg_cursors AS c WHERE c.is_holdable LIMIT 1)), pg_sleep(0.01)";
    let mut sessions = HashSet::new();
    for _ in 0..30 {
        // Two at once, so that one session is not enough.
        let look = || sqlx::query_as::<_, (i32, String, ())>(kept).fetch_one(ground.client.pool());
        let (one, other) = tokio::try_join!(look(), look()).unwrap();
        for (session, kept, ()) in [one, other] {
            assert_eq!(kept, "");
            sessions.insert(session);
        }
    }
    assert!(sessions.len() > 1, "the pooler gives every transaction the same session: nothing was tested");
}

#[tokio::test]
async fn a_runner_that_would_listen_through_a_pooler_does_not_start() {
    let Some(ground) = Ground::new(Mode::Pooled).await else { return };
    let runner = Runner::new(ground.client.clone()).queue("default", 1).worker(at_once);
    let error = runner.start().await.unwrap_err();
    assert!(error.to_string().contains("hint: add .poll_only()"), "{error}");
}

#[tokio::test]
async fn a_pooler_that_mixes_up_prepared_statements_is_refused_by_name() {
    let Some(_) = bouncer::shared().await else { return };
    // As versions before 1.21 always do.
    let careless = Bouncer::start("max_prepared_statements = 0").await.expect("it is there");
    let database = Database::new().await;
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .acquire_timeout(WAIT)
        .connect_lazy(&careless.url(&database.url))
        .unwrap();
    let runner = Runner::new(database.client_over(pool)).queue("default", 1).poll_only().worker(at_once);
    let error = runner.start().await.unwrap_err();
    assert!(matches!(error, Error::Database(_) | Error::InvalidRunner { .. }), "{error}");
    assert!(error.to_string().contains("1.21") && error.to_string().contains("max_prepared_statements"), "{error}");
}
