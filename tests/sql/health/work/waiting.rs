//! Jobs that wait, claims and maintenance.

use support::prelude::*;
use uniqueue_admin::{Severity, Thresholds};

use super::{Task, runner};
use crate::health::{find, gone, paste, seek};

#[support::test]
async fn jobs_that_wait_are_told_by_why_they_wait(database: Database) {
    for queue in ["paused", "unworked", "limited", "busy"] {
        database.client.insert(job("task").queue(queue)).await.unwrap();
    }
    database.client.queue("paused").pause().await.unwrap();
    runner(&database, "one", "limited,busy,paused", 1).await;
    let defaults = Thresholds::new();
    let notice = find(&database, defaults.clone(), "queue_paused", Severity::Notice, "queue paused").await;
    find(&database, defaults.clone(), "queue_unworked", Severity::Notice, "queue unworked").await;
    assert!(seek(&database, defaults.clone(), "queue_late", "").await.is_none(), "they have not waited long");

    database.pass(Duration::from_secs(600)).await;
    find(&database, defaults.clone(), "queue_paused", Severity::Warning, "queue paused").await;
    let unworked = find(&database, defaults.clone(), "queue_unworked", Severity::Warning, "queue unworked").await;
    assert!(unworked.seen.contains("1 job available, the oldest for 10m"), "{unworked:?}");
    let busy = find(&database, defaults.clone(), "queue_late", Severity::Warning, "queue busy").await;
    assert!(busy.seen.contains("1 live runner works it, 0 jobs running"), "{busy:?}");
    let worse = defaults.clone().waiting(Duration::ZERO, Duration::from_secs(60));
    find(&database, worse.clone(), "queue_late", Severity::Critical, "queue busy").await;

    let running = database.client.insert(job("task").queue("limited").priority(9)).await.unwrap().id();
    database.set_state(running, "running").await;
    database.execute("UPDATE {schema}.job SET attempted_at = now(), worker = (SELECT id FROM {schema}.runner) WHERE state = 'running'").await;
    database.client.queue("limited").limit(Some(1)).await.unwrap();
    let limited = find(&database, defaults.clone(), "queue_late", Severity::Warning, "queue limited").await;
    assert!(limited.seen.ends_with("1 job running, which is its limit"), "{limited:?}");
    paste(&database, limited.remedy.sql.as_deref().unwrap()).await;
    assert_eq!(database.client.queue("limited").settings().await.unwrap().limit, Some(2));

    let rate = uniqueue::Rate::per(5, Duration::from_secs(60));
    database.client.queue("busy").set(QueueChanges::new().rate(Some(rate))).await.unwrap();
    let rated = find(&database, defaults.clone(), "queue_late", Severity::Notice, "queue busy").await;
    assert!(rated.seen.ends_with("0 jobs running, under its rate of 5/1m"), "{rated:?}");
    assert!(rated.remedy.command.unwrap().starts_with("uniqueue queue rate busy"));

    paste(&database, notice.remedy.sql.as_deref().unwrap()).await;
    gone(&database, defaults.clone(), "queue_paused", "").await;
    database.client.cancel(JobFilter::new().queue("unworked")).await.unwrap();
    gone(&database, defaults.clone(), "queue_unworked", "").await;
}

#[support::test]
async fn a_kind_that_no_live_runner_of_its_queue_knows_is_named(database: Database) {
    let real = Runner::new(database.client.clone()).queue("default", 1).worker(|_: RunningJob<Task>| async {});
    let real = real.start().await.unwrap();
    database.client.insert_many([job("gone"), job("task"), job("gone")]).await.unwrap();
    let finding = find(&database, Thresholds::new(), "kind_unknown", Severity::Notice, "kind gone").await;
    assert!(finding.seen.contains("2 jobs available in queue default"), "{finding:?}");
    let command = finding.remedy.command.unwrap();
    let expected = format!("uniqueue job cancel --queue default --schema {} --kind gone --dry-run", database.schema);
    assert_eq!(command, expected);
    assert!(seek(&database, Thresholds::new(), "kind_unknown", "kind task").await.is_none());
    database.pass(Duration::from_secs(600)).await;
    find(&database, Thresholds::new(), "kind_unknown", Severity::Warning, "kind gone").await;
    // A runner from before migration 14 does not say its kinds, and may know any.
    database.execute("UPDATE {schema}.runner SET kinds = NULL").await;
    assert!(seek(&database, Thresholds::new(), "kind_unknown", "").await.is_none());
    database.execute("UPDATE {schema}.runner SET kinds = '{task}'").await;
    database.client.cancel(JobFilter::new().kind("gone")).await.unwrap();
    gone(&database, Thresholds::new(), "kind_unknown", "").await;
    real.stop().await.unwrap();
}

#[support::test]
async fn a_group_that_has_waited_long_is_told_with_what_holds_it_up(database: Database) {
    let limits = Thresholds::new();
    runner(&database, "live", "default", 0).await;
    let began = database.client.insert(job("task").group("began").in_order()).await.unwrap().id();
    let full = database.client.insert(job("task").group("full").group_limit(1)).await.unwrap().id();
    let rest = [
        job("task").group("began").in_order(),
        job("task").group("full").group_limit(1),
        job("gone").group("unknown"),
        job("task").group("free"),
        job("task").group("paused").queue("paused").in_order(),
        job("gone").group("unworked").queue("unworked"),
    ];
    database.client.insert_many(rest).await.unwrap();
    database.client.queue("paused").pause().await.unwrap();
    database.set_state(full, "running").await;
    database.execute("UPDATE {schema}.job SET attempted_at = now(), worker = (SELECT id FROM {schema}.runner) WHERE state = 'running'").await;
    database.set_state(began, "retryable").await;
    database.execute("UPDATE {schema}.job SET began = 1 WHERE state = 'retryable'").await;
    assert!(seek(&database, limits.clone(), "group_held", "").await.is_none(), "it waits for moments");

    let wait = |minutes: u32| {
        format!(
            "UPDATE {{schema}}.job SET created_at = now() - interval '{minutes} min',
                 scheduled_at = now() - interval '{minutes} min' WHERE state = 'available'"
        )
    };
    database.execute(&wait(10)).await;
    let told = |diagnosis: uniqueue_admin::Diagnosis| -> Vec<_> {
        let held = diagnosis.findings.into_iter().filter(|finding| finding.code == "group_held");
        held.map(|finding| {
            let (wait, such) = finding.seen.split_once(", such as").unwrap();
            // Seconds pass until the database is asked.
            let seen = format!("{} 10m, such as{such}", wait.split(" 10m").next().unwrap());
            (finding.severity, finding.subject, seen, finding.remedy.command.unwrap())
        })
        .collect()
    };
    let gone = "SELECT id::text FROM {schema}.job WHERE queue = 'default' AND kind = 'gone'";
    let gone = database.text(gone).await;
    let one = "1 group has its first job waiting for up to 10m, such as";
    let groups = Admin::new(&database.client).groups().await.unwrap();
    let sentence = |name: &str| {
        let group = groups.iter().find(|group| group.group == name).unwrap();
        group.held_by.as_ref().unwrap().reason.trim_end_matches('.').to_owned()
    };
    let command = format!("uniqueue queue groups default --schema {}", database.schema);
    let of_queue = |severity, seen| (severity, "queue default".to_owned(), format!("{one} {seen}"), command.clone());
    let expected = [
        of_queue(Severity::Warning, format!("began: {}", sentence("began"))),
        of_queue(
            Severity::Warning,
            format!(
                "unknown: Group \"unknown\" waits for its first job, {gone}: No live runner of queue \"default\" has a \
                 worker for kind \"gone\""
            ),
        ),
        of_queue(Severity::Notice, format!("full: {}", sentence("full"))),
    ];
    assert_eq!(told(Admin::new(&database.client).diagnose().await.unwrap()), expected);

    // The remedies.
    database.execute(&wait(70)).await;
    database.client.cancel(JobFilter::new().kind("gone")).await.unwrap();
    database.client.cancel(JobFilter::new().ids([began])).await.unwrap();
    let left = told(Admin::new(&database.client).diagnose().await.unwrap());
    assert_eq!((left.len(), left[0].0), (1, Severity::Warning), "{left:?}");
    database.execute("UPDATE {schema}.job SET group_limit = 2 WHERE group_key = 'full'").await;
    assert!(seek(&database, limits.clone(), "group_held", "").await.is_none());
}

#[support::test]
async fn a_hold_is_told_only_where_it_ends_in_more_than_an_hour(database: Database) {
    let limits = Thresholds::new();
    runner(&database, "live", "default", 0).await;
    database.client.insert_many([job("task"), job("task").group("g")]).await.unwrap();
    database.pass(Duration::from_secs(600)).await;
    database.execute("UPDATE {schema}.runner SET started_at = now() - interval '1 day', leased_until = now() + interval '1 h', heartbeat_at = now()").await;
    let queue = database.client.queue("default");
    queue.hold(Duration::from_secs(1_800)).await.unwrap();
    for code in ["queue_held", "queue_late", "group_held"] {
        assert!(seek(&database, limits.clone(), code, "").await.is_none(), "{code}");
    }
    assert!(Admin::new(&database.client).stuck_jobs().await.unwrap().is_empty(), "it is held");
    queue.hold(Duration::from_secs(7_200)).await.unwrap();
    let held = find(&database, limits.clone(), "queue_held", Severity::Notice, "queue default").await;
    assert!(held.seen.starts_with("it is held for another ") && held.seen.contains("the oldest for 10m"), "{held:?}");
    paste(&database, held.remedy.sql.as_deref().unwrap()).await;
    gone(&database, limits.clone(), "queue_held", "").await;
    assert_eq!(Admin::new(&database.client).stuck_jobs().await.unwrap().len(), 1, "the job without a group");

    queue.hold_group("g", Duration::from_secs(1_800)).await.unwrap();
    assert!(seek(&database, limits.clone(), "group_held", "").await.is_none());
    queue.hold_group("g", Duration::from_secs(7_200)).await.unwrap();
    let held = find(&database, limits.clone(), "group_held", Severity::Notice, "queue default").await;
    assert!(held.seen.contains("such as g: Group \"g\" is held until "), "{held:?}");

    // A job that waits for its rate is not stuck.
    let rate = uniqueue::Rate::per(1, Duration::from_secs(3_600));
    queue.set(QueueChanges::new().rate(Some(rate))).await.unwrap();
    database.execute("UPDATE {schema}.queue SET rate_full_at = now() + interval '30 min'").await;
    assert!(Admin::new(&database.client).stuck_jobs().await.unwrap().is_empty(), "it waits for its rate");
    database.execute("UPDATE {schema}.queue SET rate_full_at = now() - interval '10 min'").await;
    assert_eq!(Admin::new(&database.client).stuck_jobs().await.unwrap().len(), 1, "its token has been there for long");
}

#[support::test]
async fn due_jobs_that_nobody_promotes_and_long_ones_are_told(database: Database) {
    database.client.insert(job("task").scheduled_in(Duration::from_secs(60))).await.unwrap();
    let running = database.client.insert(job("task")).await.unwrap().id();
    runner(&database, "one", "default", 1).await;
    database.set_state(running, "running").await;
    let update = "UPDATE {schema}.job SET attempted_at = now() - interval '3 hours', worker = (SELECT id FROM {schema}.runner) WHERE state = 'running'";
    database.execute(update).await;
    database.pass(Duration::from_secs(300)).await;
    let due = find(&database, Thresholds::new(), "job_overdue", Severity::Warning, "queue default").await;
    assert!(due.seen.starts_with("1 job for up to 4m") && due.seen.contains("has made it available"), "{due:?}");
    let long = find(&database, Thresholds::new(), "job_long", Severity::Notice, "queue default").await;
    assert!(long.seen.contains("3h") && long.seen.contains(&running.to_string()), "{long:?}");
    paste(&database, long.remedy.sql.as_deref().unwrap()).await;
    gone(&database, Thresholds::new(), "job_long", "").await;
    let real = Runner::new(database.client.clone()).queue("other", 1).worker(|_: RunningJob<Task>| async {});
    let real = real.start().await.unwrap();
    gone(&database, Thresholds::new(), "job_overdue", "").await;
    real.stop().await.unwrap();
}

#[support::test]
async fn keys_of_jobs_that_nothing_moves_are_told_and_freed_by_the_remedy(database: Database) {
    let key = |name: &str| UniqueKey::raw(name).states(JobState::ALL);
    let given_up = database.client.insert(job("a").unique_key(key("it's\\held"))).await.unwrap().id();
    database.set_state(given_up, "discarded").await;
    database.client.insert(job("b").pending().unique_key(key("held back"))).await.unwrap();
    // A job that moves, and a claim that has ended, are no findings.
    database.client.insert(job("c").unique_key(key("moves"))).await.unwrap();
    let freed = database.client.insert(job("d").unique_key(UniqueKey::raw("frees"))).await.unwrap().id();
    database.set_state(freed, "discarded").await;
    let any = Thresholds::new().claim(Duration::ZERO);
    for kind in ["kind a", "kind b"] {
        let finding = find(&database, any.clone(), "claim_idle", Severity::Notice, kind).await;
        assert!(finding.seen.contains("1 key is held by"), "{finding:?}");
        paste(&database, finding.remedy.sql.as_deref().unwrap()).await;
        gone(&database, any.clone(), "claim_idle", kind).await;
    }
    assert!(seek(&database, any.clone(), "claim_idle", "").await.is_none());
    assert!(!database.client.insert(job("a").unique_key(key("it's\\held"))).await.unwrap().duplicate);
    // A running holder whose runner is dead.
    let lost = database.client.insert(job("e").unique_key(key("lost"))).await.unwrap().id();
    database.set_state(lost, "running").await;
    database.execute("UPDATE {schema}.job SET attempted_at = now() - interval '2 hours' WHERE state = 'running'").await;
    let finding = find(&database, Thresholds::new(), "claim_idle", Severity::Warning, "kind e").await;
    assert!(finding.seen.contains("its runner is dead"), "{finding:?}");
}

#[support::test]
async fn each_service_that_is_off_is_told_with_what_is_not_done(database: Database) {
    runner(&database, "one", "default", 1).await;
    let services = [
        ("promoter", "scheduled and failed jobs do not become available"),
        ("expirer", "expired jobs wait and keep their unique keys"),
        ("rescuer", "the jobs of dead runners stay running"),
        ("pruner", "final jobs are kept for ever"),
        ("releaser", "jobs that wait for other jobs stay pending"),
        ("periodic", "periodic jobs are not inserted"),
        ("reindexer", "bloated indexes are not rebuilt"),
    ];
    for (service, undone) in services {
        let off =
            format!("INSERT INTO {{schema}}.maintenance (service, leased_until) VALUES ('{service}', 'infinity')");
        database.execute(&off).await;
        let subject = format!("service {service}");
        let found = seek(&database, Thresholds::new(), "service_off", &subject).await.unwrap();
        assert_eq!(found.seen, format!("it is switched off for all runners: {undone}"));
    }
}

#[support::test]
async fn maintenance_that_is_off_or_done_by_nobody_is_told(database: Database) {
    runner(&database, "one", "default", 1).await;
    let off = "INSERT INTO {schema}.maintenance (service, leased_until) VALUES ('pruner', 'infinity')";
    database.execute(off).await;
    let finding = find(&database, Thresholds::new(), "service_off", Severity::Warning, "service pruner").await;
    assert!(finding.seen.contains("final jobs are kept for ever"), "{finding:?}");
    paste(&database, finding.remedy.sql.as_deref().unwrap()).await;
    gone(&database, Thresholds::new(), "service_off", "").await;
    let idle = "UPDATE {schema}.maintenance SET leased_until = now() - interval '10 min'";
    database.execute(idle).await;
    find(&database, Thresholds::new(), "service_idle", Severity::Warning, "service pruner").await;
    // Without a live runner there is no finding.
    database.execute("DELETE FROM {schema}.runner").await;
    gone(&database, Thresholds::new(), "service_idle", "").await;
    // No lease was ever taken, although a runner of ten minutes offers the services.
    database.execute("TRUNCATE {schema}.maintenance").await;
    runner(&database, "two", "default", 1).await;
    database.execute("UPDATE {schema}.runner SET started_at = now()").await;
    assert!(seek(&database, Thresholds::new(), "service_idle", "").await.is_none());
    database.execute("UPDATE {schema}.runner SET started_at = now() - interval '10 min'").await;
    let idle = find(&database, Thresholds::new(), "service_idle", Severity::Warning, "service rescuer").await;
    assert!(idle.seen.contains("for 10m"), "{idle:?}");
    assert!(seek(&database, Thresholds::new(), "service_idle", "service reindexer").await.is_none());
    database.execute("DELETE FROM {schema}.runner").await;

    let hourly = PeriodicJob::every("digest", Duration::from_secs(3600), job("a"));
    database.client.define_periodic(hourly).await.unwrap();
    assert!(seek(&database, Thresholds::new(), "periodic_problem", "").await.is_none());
    database.execute("UPDATE {schema}.periodic SET starts_at = now() - interval '10 min'").await;
    assert!(seek(&database, Thresholds::new(), "periodic_problem", "").await.is_none());
    database.execute("UPDATE {schema}.periodic SET created_at = now() - interval '10 min'").await;
    let unseen = find(&database, Thresholds::new(), "periodic_problem", Severity::Warning, "digest").await;
    assert!(unseen.seen.contains("no runner has read it"), "{unseen:?}");
    database.execute("UPDATE {schema}.periodic SET next_at = now() - interval '10 min'").await;
    find(&database, Thresholds::new(), "periodic_problem", Severity::Warning, "periodic job digest").await;
    database.execute("UPDATE {schema}.periodic SET schedule = 'nonsense', next_at = NULL, created_at = now()").await;
    let real = Runner::new(database.client.clone()).queue("other", 1).worker(|_: RunningJob<Task>| async {});
    let real = real.start().await.unwrap();
    let broken = find(&database, Thresholds::new(), "periodic_problem", Severity::Critical, "digest").await;
    assert!(broken.seen.contains("nonsense"), "{broken:?}");
    real.stop().await.unwrap();
}

#[support::test]
async fn r21_many_jobs_that_expire_are_found(database: Database) {
    let late = |n: u32| uniqueue::NewJob::new("late", &n).expires_at(time::OffsetDateTime::UNIX_EPOCH);
    database.client.insert_many((0..99).map(late)).await.unwrap();
    database.execute("SELECT {schema}._run_service('expirer')").await;
    assert!(seek(&database, Thresholds::new(), "job_expired", "kind late").await.is_none());
    database.client.insert(late(99)).await.unwrap();
    database.execute("SELECT {schema}._run_service('expirer')").await;
    let found = find(&database, Thresholds::new(), "job_expired", Severity::Warning, "kind late").await;
    assert!(found.seen.starts_with("100 jobs of queue default expired before they started"), "{found:?}");
    database.execute("UPDATE {schema}.job SET finalized_at = now() - interval '2 hours'").await;
    gone(&database, Thresholds::new(), "job_expired", "kind late").await;
}

#[support::test]
async fn r22_waiting_jobs_that_are_older_than_the_registration_of_their_kind_are_told(database: Database) {
    let insert = "SELECT {schema}.insert_job('mail.send', '{\"to\": 1}') FROM generate_series(1, 3)";
    database.execute(insert).await;
    assert!(seek(&database, Thresholds::new(), "job_unregistered", "").await.is_none(), "it is not registered");
    let register = |policy: &str| {
        format!(
            "SELECT {{schema}}.register_kind('mail.send', 'mail', unique_policy => {policy}, registered_by => 'mailer')"
        )
    };
    database.execute(&register("'{\"keys\": [\"type\", \"args\"]}'")).await;
    // What an insert leaves out on purpose is no finding.
    database.execute(insert).await;
    database.execute("SELECT {schema}.insert_job('mail.send', '{}', 'default', unique_policy => 'null')").await;
    let found = find(&database, Thresholds::new(), "job_unregistered", Severity::Warning, "kind mail.send").await;
    let first = database.text("SELECT min(id::text COLLATE \"C\") FROM {schema}.job WHERE queue = 'default'").await;
    assert_eq!(
        found.seen,
        format!(
            "3 waiting jobs in queue default were inserted before the kind was registered by mailer: 3 without its unique \
             key, not in its queue mail; such as {first}"
        )
    );
    // A registration that comes again changes nothing.
    database.execute(&register("'{\"keys\": [\"type\", \"args\"]}'")).await;
    assert_eq!(seek(&database, Thresholds::new(), "job_unregistered", "").await.unwrap().seen, found.seen);
    database.execute("DELETE FROM {schema}.job WHERE queue = 'default' AND args <> '{}'").await;
    // Nor does a later change tell anything of the job that has no key on purpose.
    database.execute("SELECT {schema}.register_kind('mail.send', max_attempts => 3)").await;
    gone(&database, Thresholds::new(), "job_unregistered", "").await;
}
