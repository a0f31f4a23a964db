//! Registered kinds: by runners at their start and by clients, and what a deployment of another definition does.

use uniqueue_admin::{KindCache, KindRow, PeriodicChange};

use support::prelude::*;

/// The first version of a kind.
#[derive(Debug, Deserialize, Job, Serialize)]
#[job(kind = "mail", queue = "mails", priority = 3, max_attempts = 5)]
struct Mail {
    #[job(unique)]
    user: u32,
    text: String,
}

/// The second version of the same kind.
#[derive(Debug, Deserialize, Job, Serialize)]
#[job(kind = "mail", queue = "mails", unique(scope = "completed"), group(user), limit = 2)]
struct NewMail {
    #[job(unique)]
    user: u32,
    #[job(unique)]
    text: String,
}

fn mail(user: u32) -> Mail {
    Mail { user, text: format!("to {user}") }
}

#[derive(Deserialize, Job, Serialize)]
#[job(kind = "typed")]
struct Typed {}

fn new_mail(user: u32) -> NewMail {
    NewMail { user, text: format!("to {user}") }
}

static UNCOUNTED: AtomicU32 = AtomicU32::new(0);

/// Starts a runner of a version of the kind, which counts its jobs.
async fn service<J: Job>(client: &Client, name: &str, worked: &'static AtomicU32) -> RunnerHandle {
    let worker = move |_: RunningJob<J>| async move {
        worked.fetch_add(1, Ordering::Relaxed);
    };
    quick(client).name(name).queue("mails", 4).timeout(MINUTE).worker(worker).start().await.unwrap()
}

/// The kind as it is registered.
async fn registered(client: &Client, name: &str) -> KindRow {
    Admin::new(client).kind(name).await.unwrap().unwrap()
}

#[support::test]
async fn r22_a_runner_registers_the_kinds_of_its_workers_when_it_starts(database: Database) {
    service::<Mail>(&database.client, "mailer", &UNCOUNTED).await.stop().await.unwrap();
    let kind = registered(&database.client, "mail").await;
    assert_eq!(kind.queue.as_ref().unwrap().as_str(), "mails");
    assert_eq!((kind.priority, kind.max_attempts, kind.delay), (Some(3), Some(5), None));
    assert_eq!(kind.policy().unwrap(), Some(UniquePolicy::new().by_arg_fields(["user"])));
    assert_eq!((kind.timeout, kind.registered_by.as_str()), (Some(MINUTE), "mailer"));

    // What the job says itself counts, and the rest comes from the kind.
    let named = NewJob::new("mail", &json!({"user": 1, "text": "to 1"})).priority(-1);
    let by_name = database.client.insert(database.client.fill_in(named).await.unwrap()).await.unwrap();
    assert_eq!((by_name.job.queue.as_str(), by_name.job.priority, by_name.job.max_attempts), ("mails", -1, 5));
    let typed = database.client.insert(mail(1)).await.unwrap();
    assert_eq!((typed.duplicate, typed.id()), (true, by_name.id()));
    let unknown = database.client.fill_in(job("other")).await.unwrap();
    assert_eq!(unknown.queue_name(), None);
}

#[support::test]
async fn r22_the_newest_registration_counts_and_the_timeout_of_a_worker_stays(database: Database, client: &Client) {
    service::<Mail>(client, "mailer", &UNCOUNTED).await.stop().await.unwrap();
    let before = registered(client, "mail").await;
    assert!(client.register::<NewMail>().await.unwrap());
    let kind = registered(client, <NewMail as Job>::KIND).await;
    assert_eq!((kind.priority, kind.max_attempts, kind.group_limit), (None, None, Some(2)));
    assert_eq!(kind.groups().unwrap(), Some(UniquePolicy::new().by_arg_fields(["user"])));
    assert_eq!(kind.timeout, Some(MINUTE), "a client does not know it");
    assert!(kind.changed_at > before.changed_at);
    assert!(client.register::<NewMail>().await.unwrap());
    let again = registered(client, <NewMail as Job>::KIND).await;
    assert_eq!(again.changed_at, kind.changed_at);
    assert!(again.registered_at > kind.registered_at);
    let seconds = RetryPolicy::exponential().first(Duration::from_secs(10));
    let options = WorkerOptions::new().timeout(Duration::MAX).retry_policy(seconds);
    let runner = quick(client).queue("mails", 1).worker_with(async |_: RunningJob<NewMail>| {}, options);
    runner.start().await.unwrap().stop().await.unwrap();
    let kind = registered(client, "mail").await;
    assert_eq!((kind.timeout, kind.backoff), (None, Some(json!({"first": "PT10S"}))), "no limit");
    assert!(client.register::<NewMail>().await.unwrap());
    let kind = registered(client, <NewMail as Job>::KIND).await;
    assert_eq!(kind.backoff, Some(json!({"first": "PT10S"})), "a client does not know it");
    assert_eq!(Admin::new(client).kinds().await.unwrap().len(), 1);
    assert!(Admin::new(client).remove_kind("mail").await.unwrap());
    assert!(!Admin::new(client).remove_kind("mail").await.unwrap());
    assert!(Admin::new(client).kind("mail").await.unwrap().is_none());
}

#[support::test]
async fn r22_a_type_without_options_registers_nothing_and_leaves_what_others_declared(database: Database) {
    let client = &database.client;
    let start = async || {
        // One that has a timeout or a retry policy declares it.
        let runner = Runner::new(client.clone()).queue("typed", 1).worker(async |_: RunningJob<Typed>| {});
        runner.start().await.unwrap().stop().await.unwrap();
    };
    start().await;
    assert!(!client.register::<Typed>().await.unwrap());
    assert!(Admin::new(client).kinds().await.unwrap().is_empty());
    let select = "SELECT {schema}.register_kind('typed', 'q', max_attempts => 2, registered_by => 'a producer')";
    database.execute(select).await;
    start().await;
    assert!(client.register::<Typed>().await.unwrap());
    let kind = registered(client, <Typed as Job>::KIND).await;
    assert_eq!((kind.queue.unwrap().as_str(), kind.max_attempts, &*kind.registered_by), ("q", Some(2), "a producer"));
}

#[support::test]
async fn r22_programs_that_declare_other_members_of_a_kind_do_not_conflict(database: Database, client: &Client) {
    let mailer = service::<Mail>(client, "mailer", &UNCOUNTED).await;
    let conflicts = async || {
        let findings = Admin::new(client).diagnose().await.unwrap().findings;
        findings.into_iter().filter(|finding| finding.code == "kind_conflict").count()
    };
    database.execute("SELECT {schema}.register_kind('mail', delay => '1 min', registered_by => 'a producer')").await;
    assert_eq!(conflicts().await, 0);
    let kind = registered(client, "mail").await;
    assert_eq!((kind.priority, kind.delay), (Some(3), Some(MINUTE)));
    database.execute("SELECT {schema}.register_kind('mail', priority => 4, registered_by => 'a producer')").await;
    assert_eq!(conflicts().await, 1);
    mailer.stop().await.unwrap();
}

#[support::test]
async fn r22_a_client_registers_what_its_own_inserts_would_use(database: Database) {
    #[derive(Deserialize, Serialize)]
    struct Debounced {
        page: u32,
    }
    impl Job for Debounced {
        const KIND: &'static str = "debounced";

        fn options() -> InsertOptions {
            let policy = UniquePolicy::new().by_arg_fields(["page"]).scope(UniqueScope::Queued);
            InsertOptions::new().unique(policy.on_conflict(OnConflict::Update)).scheduled_in(Duration::from_secs(90))
        }
    }
    let defaults = InsertOptions::new().queue("of client").priority(7);
    let client = database.builder().defaults(defaults).pool(database.pool().clone());
    let mut transaction = database.pool().begin().await.unwrap();
    assert!(client.register::<Debounced>().tx(&mut transaction).await.unwrap());
    assert!(Admin::new(&client).kind("debounced").await.unwrap().is_none(), "not before the commit");
    transaction.commit().await.unwrap();
    let kind = registered(&client, "debounced").await;
    assert_eq!(kind.queue.as_ref().unwrap().as_str(), "of client");
    assert_eq!((kind.priority, kind.delay), (Some(7), Some(Duration::from_secs(90))));
    let typed = client.insert(Debounced { page: 1 }).await.unwrap();
    let named = client.fill_in(NewJob::new("debounced", &json!({"page": 1}))).await.unwrap();
    let named = database.client.insert(named).await.unwrap();
    assert_eq!((named.updated, named.id()), (true, typed.id()));
}

#[support::test]
async fn r22_a_typed_insert_never_reads_the_registered_kinds(database: Database) {
    database.execute("ALTER TABLE {schema}.kind RENAME TO gone").await;
    let first = database.client.insert(mail(1)).await.unwrap();
    assert_eq!(database.client.insert(mail(1)).await.unwrap().id(), first.id());
    let many = database.client.insert_many([mail(1), mail(2), mail(2)]).await.unwrap();
    assert_eq!(many.iter().map(|one| one.duplicate).collect::<Vec<_>>(), [true, false, true]);
    assert!(database.client.insert(job("by name")).await.is_ok());
}

#[support::test]
async fn r22_a_job_made_by_name_is_filled_in_from_its_registered_kind(database: Database, client: &Client) {
    client.register::<Mail>().await.unwrap();
    let named = |user: u32| NewJob::new("mail", &json!({"user": user, "text": "by name"}));
    let filled = client.fill_in(named(1)).await.unwrap();
    let explained = client.explain(filled.clone()).await.unwrap();
    let first = client.insert(filled).await.unwrap();
    assert_eq!((first.job.queue.as_str(), first.job.priority, first.job.max_attempts), ("mails", 3, 5));
    assert_eq!(explained.unique_key, first.job.unique_key);
    assert_eq!(client.insert(mail(1)).await.unwrap().id(), first.id(), "one key, whoever inserts");
    let mut transaction = database.pool().begin().await.unwrap();
    let own = client.fill_in(named(1).queue("other").not_unique()).tx(&mut transaction).await.unwrap();
    let own = client.insert(own).tx(&mut transaction).await.unwrap();
    assert_eq!((own.job.queue.as_str(), own.job.priority, own.job.unique_key), ("other", 3, None));
    transaction.commit().await.unwrap();
}

#[support::test]
async fn r22_a_periodic_job_made_by_name_takes_from_its_registered_kind_at_each_slot(database: Database) {
    let client = &database.client;
    client.register::<Mail>().await.unwrap();
    let named = NewJob::new("mail", &json!({"user": 1, "text": "each hour"}));
    client.define_periodic(PeriodicJob::cron("named", "0 * * * *", named.clone())).await.unwrap();
    client.define_periodic(PeriodicJob::cron("own", "0 * * * *", named.queue("own").not_unique())).await.unwrap();
    database.execute(r#"SELECT {schema}.set_periodic('sql', 'mail', '0 * * * *', args => '{"user": 3}')"#).await;
    // A type says all of it: this one has no queue, no key and no group.
    database.execute("SELECT {schema}.register_kind('typed', 'q', group_policy => '{\"key\": \"g\"}')").await;
    client.define_periodic(PeriodicJob::cron("typed", "0 * * * *", Typed {})).await.unwrap();
    let run = "SELECT count(*) FROM {schema}.periodic AS p
        CROSS JOIN LATERAL {schema}.run_periodic(
            p.name, p.next_at, p.starts_at, ARRAY[coalesce(p.next_at, now())], coalesce(p.next_at, now()) + interval '1 hour'
        ) AS r
        WHERE r.outcome = 'inserted'";
    assert_eq!(database.number(run).await, 4);
    let jobs =
        "SELECT string_agg(concat_ws(' ', meta #>> '{periodic,name}', queue, priority, max_attempts, group_key), ', '
            ORDER BY meta #>> '{periodic,name}')
        FROM {schema}.job";
    let jobs = database.text(jobs).await;
    assert_eq!(jobs, "named mails 3 5, own own 3 5, sql mails 3 5, typed default 0 25");
    assert!(client.insert(mail(1)).await.unwrap().duplicate, "the key of the kind");
    let listed = Admin::new(client).periodic().list().await.unwrap();
    let queues: Vec<_> = listed.iter().map(|one| (one.queue.as_str(), one.priority, one.max_attempts)).collect();
    assert_eq!(queues, [("mails", 3, 5), ("own", 3, 5), ("mails", 3, 5), ("default", 0, 25)]);
    // The next slot follows the newest registration.
    database.execute("SELECT {schema}.register_kind('mail', 'letters', unique_policy => 'null')").await;
    assert_eq!(database.number(run).await, 4);
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job WHERE queue = 'letters'").await, 2);
}

#[support::test]
async fn r22_the_jobs_of_a_periodic_job_expire_as_it_says_or_as_its_registered_kind_says(database: Database) {
    #[derive(Deserialize, Job, Serialize)]
    #[job(kind = "brief")]
    struct Brief {}
    let periodic = Admin::new(&database.client).periodic();
    database.execute("SELECT {schema}.register_kind('brief', expires_in => '1 hour')").await;
    let named = || NewJob::new("brief", &json!({}));
    for (name, job) in [
        ("of the kind", named()),
        ("own", named().expires_in(MINUTE)),
        ("never", named().never_expires()),
        ("typed", NewJob::from(Brief {})),
        ("typed and own", NewJob::from(Brief {}).expires_in(MINUTE)),
    ] {
        database.client.define_periodic(PeriodicJob::cron(name, "0 * * * *", job)).await.unwrap();
    }
    database.execute("SELECT {schema}.set_periodic('sql', 'brief', '0 * * * *', expires_in => '2 min')").await;
    let run = "SELECT count(*) FROM {schema}.periodic AS p
        CROSS JOIN LATERAL {schema}.run_periodic(p.name, p.next_at, p.starts_at, ARRAY[now()], now() + interval '1 hour') AS r
        WHERE r.outcome = 'inserted'";
    assert_eq!(database.number(run).await, 6);
    for listed in periodic.list().await.unwrap() {
        periodic.run_now(listed.name.as_str()).await.unwrap();
    }
    let jobs = "SELECT string_agg(DISTINCT concat_ws(' ', meta #>> '{periodic,name}', round(extract(epoch FROM expires_at - scheduled_at))), ', ')
        FROM {schema}.job";
    let expected = "never, of the kind 3600, own 60, sql 120, typed, typed and own 60";
    assert_eq!(database.text(jobs).await, expected, "of slots and of runs at once");
    let lengths = periodic.list().await.unwrap();
    let lengths: Vec<_> = lengths.iter().map(|one| one.expires_in.map(|length| length.as_secs())).collect();
    assert_eq!(lengths, [None, Some(3_600), Some(60), Some(120), None, Some(60)]);

    assert!(periodic.set("own", PeriodicChange::new().expires_in(Duration::ZERO)).await.unwrap());
    assert_eq!(periodic.find("own").await.unwrap().unwrap().expires_in, None);
    let too_long = PeriodicChange::new().expires_in(MINUTE * 60 * 24 * 366 * 101);
    let error = periodic.set("own", too_long).await.unwrap_err().to_string();
    assert!(error.contains("expires_in") && error.contains("at most 100 years"), "{error}");
    // PostgreSQL alone would read 100 years as 36,000 days.
    let longest = PeriodicChange::new().expires_in(uniqueue::period::LONGEST);
    assert!(periodic.set("own", longest).await.unwrap());
    let at = named().expires_at(time::OffsetDateTime::now_utc() + MINUTE);
    let error =
        database.client.define_periodic(PeriodicJob::cron("at", "0 * * * *", at)).await.unwrap_err().to_string();
    assert!(error.contains("give it an expires_in"), "{error}");
}

#[support::test]
async fn r22_a_runner_whose_role_may_not_register_works_all_the_same(database: Database) {
    let role = database.name_of("unregistered");
    for statement in [
        format!("CREATE ROLE {role} LOGIN"),
        format!("GRANT USAGE ON SCHEMA {{schema}} TO {role}"),
        format!("GRANT ALL ON ALL TABLES IN SCHEMA {{schema}} TO {role}"),
        format!("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {{schema}} TO {role}"),
        format!("REVOKE INSERT, UPDATE, DELETE ON {{schema}}.kind FROM {role}"),
    ] {
        database.execute(&statement).await;
    }
    let options: PgConnectOptions = database.url.parse().unwrap();
    let pool = PgPoolOptions::new().acquire_timeout(WAIT).connect_with(options.username(&role)).await.unwrap();
    let client = database.client_over(pool);
    assert!(client.register::<Mail>().await.unwrap_err().to_string().contains("kind"));
    let runner = service::<Mail>(&client, "without rights", &UNCOUNTED).await;
    assert!(Admin::new(&client).kind("mail").await.unwrap().is_none());
    database.client.insert(mail(1)).await.unwrap();
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'completed'", 1).await;
    runner.stop().await.unwrap();
}

#[support::test]
async fn r22_a_rolling_deploy_with_two_definitions_is_a_finding_and_loses_nothing(database: Database, client: &Client) {
    const EACH: u32 = 40;
    static WORKED: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];
    let [old_worked, new_worked] = &WORKED;
    let conflicts = async || {
        let findings = Admin::new(client).diagnose().await.unwrap().findings;
        findings.into_iter().filter(|finding| finding.code == "kind_conflict").collect::<Vec<_>>()
    };
    let old = service::<Mail>(client, "mailer 1", old_worked).await;
    assert!(conflicts().await.is_empty());
    let new = service::<NewMail>(client, "mailer 2", new_worked).await;
    let found = conflicts().await;
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(found[0].subject, "kind mail");
    assert!(
        found[0].seen.contains("mailer 1, mailer 2") && found[0].seen.contains("that of mailer 2 counts"),
        "{found:?}"
    );

    // Both versions insert, by both doors, while both work.
    let mut inserts = JoinSet::new();
    for user in 0..EACH {
        let (by_old, by_new, by_name) = (client.clone(), client.clone(), client.clone());
        inserts.spawn(async move { by_old.insert(mail(user)).await });
        inserts.spawn(async move { by_new.insert(new_mail(1_000 + user)).await });
        inserts.spawn(async move {
            let named = NewJob::new("mail", &json!({"user": 2_000 + user, "text": "by name"}));
            by_name.insert(by_name.fill_in(named).await?).await
        });
    }
    assert!(inserts.join_all().await.into_iter().all(|inserted| !inserted.unwrap().duplicate));
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'completed'", i64::from(3 * EACH)).await;
    assert_eq!(old_worked.load(Ordering::Relaxed) + new_worked.load(Ordering::Relaxed), 3 * EACH);

    // The old version starts once more: the two register in turn.
    old.stop().await.unwrap();
    assert!(conflicts().await.is_empty());
    service::<Mail>(client, "mailer 1", old_worked).await.stop().await.unwrap();
    assert_eq!(conflicts().await.len(), 1, "the definition that no live runner has counts");
    service::<NewMail>(client, "mailer 3", new_worked).await.stop().await.unwrap();
    let found = conflicts().await;
    assert_eq!(found.len(), 1, "{found:#?}");
    database.execute("UPDATE {schema}.kind SET returned_at = returned_at - interval '1 hour'").await;
    assert!(conflicts().await.is_empty());
    new.stop().await.unwrap();
    let left = client.count_jobs(JobFilter::new().states(JobState::Available), 10).await.unwrap();
    assert_eq!(left.to_string(), "0");
}

#[support::test]
async fn a_cache_of_the_kinds_asks_the_database_rarely_and_sees_a_change_soon(database: Database) {
    database.client.register::<Mail>().await.unwrap();
    let cache = KindCache::new(database.client.clone());
    let queue = async |kind| {
        let filled = cache.fill_in(NewJob::new(kind, &json!({}))).await.unwrap();
        filled.queue_name().map(str::to_owned)
    };
    let asking = async { (cache.knows("mail").await.unwrap(), cache.knows("other").await.unwrap()) };
    let (known, sent) = counting_statements(asking).await;
    assert_eq!((known, sent), ((true, false), 1));
    let (found, sent) = counting_statements(async { (queue("mail").await, queue("other").await) }).await;
    assert_eq!((found, sent), ((Some("mails".to_owned()), None), 0));
    database.execute("UPDATE {schema}.kind SET queue = 'letters' WHERE name = 'mail'").await;
    eventually!(queue("mail").await.as_deref() == Some("letters"), "the change is not seen");
}

#[support::test]
async fn a_length_that_was_changed_by_hand_hides_no_other_kind(database: Database, client: &Client) {
    client.register::<Mail>().await.unwrap();
    database.execute("SELECT {schema}.register_kind('other', priority => 1)").await;
    let lengths =
        "UPDATE {schema}.kind SET delay = '-1 hour', timeout = '-1 s', expires_in = '100000 years' WHERE name = 'mail'";
    database.execute(lengths).await;
    let kinds = Admin::new(client).kinds().await.unwrap();
    assert_eq!(kinds.iter().map(|kind| kind.name.as_str()).collect::<Vec<_>>(), ["mail", "other"]);
    assert_eq!((kinds[0].delay, kinds[0].timeout), (None, None));
    assert_eq!(
        client.fill_in(NewJob::new("mail", &json!({"user": 1, "text": ""}))).await.unwrap().queue_name(),
        Some("mails")
    );
}
