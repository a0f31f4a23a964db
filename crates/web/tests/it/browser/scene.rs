//! The jobs of the pictures: the same at the same time of the database's clock.

use test_support::prelude::*;

/// Runners, and the jobs of a day. `md5` of a number is the only chance in it.
const JOBS: &str = "
    INSERT INTO {schema}.runner (
        id, name, started_at, heartbeat_at, leased_until, counted_at, completed, failed, lately_completed, lately_failed,
        lately, queues, slots, knows_groups, version, host, kinds
    )
    SELECT
        md5('runner ' || n)::uuid, 'worker-' || n || '.eu-west', now() - n * interval '7 hours', now() - interval '2 s',
        now() + interval '1 hour', now() - interval '2 s', 61000 / n, 130 / n, 24, 1, interval '5 s',
        ARRAY['billing', 'emails', 'images', 'reports', 'search'], ARRAY[2, 8, 4, 2, 4], true,
        CASE n WHEN 3 THEN '2.4.0' ELSE '2.4.1' END, 'node-' || n, ARRAY['email.send', 'image.resize', 'invoice.create', 'report.build', 'search.index']
    FROM generate_series(1, 3) AS n;
    INSERT INTO {schema}.maintenance (service, holder, runner, leased_until, ran_at)
    SELECT s, md5('runner 1')::uuid, 'worker-1.eu-west', now() + interval '1 hour', now()
    FROM unnest(ARRAY['periodic', 'promoter', 'pruner', 'reindexer', 'rescuer']) AS s
    ON CONFLICT (service) DO UPDATE SET ran_at = now();
    INSERT INTO {schema}.job (
        id, created_at, scheduled_at, attempted_at, finalized_at, worker, state, attempt, max_attempts, unique_states,
        kind, queue, unique_key, args, errors, progress
    )
    SELECT
        (
            lpad(to_hex((extract(epoch FROM c.at) * 1000)::bigint), 12, '0') || '7' || substr(md5(n::text), 1, 3) || '8'
            || substr(md5(n::text), 4, 15)
        )::uuid,
        c.at,
        CASE
            WHEN k.state IN ('scheduled', 'retryable') THEN now() + (60 + k.chance % 700) * interval '11 s'
            ELSE c.at
        END,
        CASE WHEN k.state NOT IN ('available', 'scheduled', 'pending') THEN c.at + (20 + k.chance % 900) * interval '1 ms' END,
        CASE WHEN k.state IN ('completed', 'discarded', 'cancelled') THEN c.at + (80 + k.chance % 4000) * interval '1 ms' END,
        CASE WHEN k.state NOT IN ('available', 'scheduled', 'pending') THEN md5('runner ' || 1 + n % 3)::uuid END,
        k.state::{schema}.job_state,
        CASE k.state WHEN 'available' THEN 0 WHEN 'scheduled' THEN 0 WHEN 'pending' THEN 0 WHEN 'discarded' THEN 5 ELSE 1 + k.chance % 2 END,
        5,
        CASE WHEN k.kind IN ('email.send', 'report.build') THEN 241 END,
        k.kind,
        CASE k.kind
            WHEN 'email.send' THEN 'emails' WHEN 'image.resize' THEN 'images' WHEN 'invoice.create' THEN 'billing'
            WHEN 'report.build' THEN 'reports' ELSE 'search'
        END,
        CASE k.kind WHEN 'email.send' THEN 'email.send:welcome:' || n WHEN 'report.build' THEN 'report.build:tenant-' || n END,
        CASE k.kind
            WHEN 'email.send' THEN jsonb_build_object('user_id', n, 'template', 'welcome')
            WHEN 'image.resize' THEN jsonb_build_object('image', 'uploads/' || substr(md5('i' || n), 1, 12) || '.jpg', 'width', 640)
            WHEN 'invoice.create' THEN jsonb_build_object('order', 10000 + n, 'total', to_jsonb((k.chance % 90000) / 100.0))
            WHEN 'report.build' THEN jsonb_build_object('tenant', n, 'month', '2025-12')
            ELSE jsonb_build_object('document', n, 'language', (ARRAY['en', 'de', 'pt'])[1 + n % 3])
        END,
        CASE
            WHEN k.state NOT IN ('retryable', 'discarded') THEN '[]'::jsonb
            ELSE jsonb_build_array(jsonb_build_object(
                'attempt', 1, 'at', c.at + interval '1 s', 'error',
                (ARRAY['451 4.3.0 mailbox busy, try again later', 'connection refused (os error 111)',
                    'timeout after 30 s'])[1 + n % 3]
            ))
        END,
        CASE WHEN k.state = 'running' AND k.kind = 'report.build' THEN jsonb_build_object('page', k.chance % 40, 'of', 40) END
    FROM generate_series(1, 4000) AS n
    CROSS JOIN LATERAL (SELECT now() - interval '1 day' * (1 - sqrt(n / 4001.0)) AS at) AS c
    CROSS JOIN LATERAL (SELECT ('x' || substr(md5('c' || n), 1, 6))::bit(24)::integer AS chance) AS h
    CROSS JOIN LATERAL (
        SELECT
            h.chance,
            (ARRAY['email.send', 'search.index', 'image.resize', 'email.send', 'invoice.create', 'search.index', 'report.build'])
                [1 + h.chance / 1000 % 7] AS kind,
            CASE
                WHEN n > 3986 THEN 'running' WHEN n > 3800 AND h.chance % 3 = 0 THEN 'available'
                WHEN h.chance % 100 < 2 THEN 'discarded' WHEN h.chance % 100 = 2 THEN 'cancelled'
                WHEN h.chance % 100 < 6 THEN 'scheduled' WHEN h.chance % 200 = 13 THEN 'retryable'
                WHEN n % 1300 = 7 THEN 'pending' ELSE 'completed'
            END AS state
    ) AS k";

/// The history of a day, with a worse hour in the night and after the last deploy.
const HISTORY: &str = "
    SELECT {schema}._add_history(date_trunc('minute', now()) - n * interval '1 minute', (
        SELECT jsonb_agg(jsonb_build_object(
            'kind', k.kind, 'queue', k.queue, 'inserted', c.jobs, 'duplicates', c.jobs / 12, 'completed', c.jobs - c.failed,
            'failed', c.failed, 'discarded', c.failed / 6, 'waits', w.waits, 'runs', w.runs, 'wait_seconds', c.jobs, 'run_seconds', c.jobs
        ))
        FROM (VALUES
            ('email.send', 'emails', 0.35, 1), ('search.index', 'search', 0.5, 0), ('report.build', 'reports', 0.15, 0),
            ('', 'emails', 0.35, 1), ('', 'search', 0.5, 0), ('', 'reports', 0.15, 0), ('', '', 1, 1)
        ) AS k (kind, queue, share, fails)
        CROSS JOIN LATERAL (
            SELECT
                (s.minutes * k.share * (420 + 260 * sin(n / 190.0) + 40 * sin(n / 3.0)))::integer AS jobs,
                CASE WHEN n % 1440 BETWEEN 8 AND 26 OR n BETWEEN 600 AND 660 THEN k.fails * s.minutes * (20 + n % 7) ELSE n % 5 * k.fails * s.minutes END AS failed
        ) AS c
        CROSS JOIN LATERAL (
            SELECT ARRAY[0, 0, c.jobs / 3, c.jobs / 3, c.jobs / 5, c.jobs / 9, c.failed] AS waits,
                ARRAY[0, 0, 0, c.jobs / 9, c.jobs / 3, c.jobs / 3, c.jobs / 8, c.failed, c.failed / 4] AS runs
        ) AS w
    ))
    FROM (SELECT n, 1 FROM generate_series(1, 90) AS n UNION ALL SELECT n, 10 FROM generate_series(100, 1500, 10) AS n) AS s (n, minutes);
    INSERT INTO {schema}.deploy (at, version)
    VALUES (now() - interval '11 hours', '2.4.0'), (now() - interval '26 minutes', '2.4.1')";

/// Registered kinds, and periodic jobs that have run.
const KINDS: &str = "
    SELECT FROM (VALUES
        ('email.send', 'emails', '{\"keys\": [\"type\", \"args\"], \"args_keys\": [\"user_id\", \"template\"]}'),
        ('image.resize', 'images', NULL), ('invoice.create', 'billing', '{\"keys\": [\"type\", \"args\"], \"args_keys\": [\"order\"]}'),
        ('report.build', 'reports', '{\"keys\": [\"type\", \"args\"], \"period\": \"PT24H\"}'), ('search.index', 'search', NULL)
    ) AS k (name, queue, policy)
    CROSS JOIN LATERAL {schema}.register_kind(
        k.name, queue => k.queue, unique_policy => k.policy::jsonb, registered_by => 'worker-1.eu-west'
    );
    UPDATE {schema}.kind SET registered_at = now() - interval '26 minutes', changed_at = now() - interval '9 days';
    UPDATE {schema}.periodic SET
        last_at = now() - length(schedule) * interval '43 minutes', next_at = now() + length(name) * interval '17 minutes',
        last_job = (SELECT id FROM {schema}.job ORDER BY id LIMIT 1)";

/// Changes the database between two samples: inserts jobs, and lets runners report their counts.
const ROUND: &str = "
    INSERT INTO {schema}.job (id, kind, queue, args)
    SELECT
        (
            lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0') || '7' || substr(md5(n || 'r{round}'), 1, 3)
            || '8' || substr(md5(n || 'r{round}'), 4, 15)
        )::uuid,
        'search.index', 'search', jsonb_build_object('document', 5000 + n)
    FROM generate_series(1, greatest(0, 9 + (7 * sin({round} / 3.0))::integer)) AS n;
    UPDATE {schema}.job SET state = 'completed', finalized_at = now(), worker = md5('runner 1')::uuid, attempt = 1
    WHERE id IN (SELECT id FROM {schema}.job WHERE state = 'available' AND queue = 'search' ORDER BY id LIMIT 9);
    UPDATE {schema}.job SET scheduled_at = greatest(scheduled_at, now() - interval '5 s') WHERE state = 'available';
    UPDATE {schema}.job SET attempted_at = greatest(attempted_at, now() - get_byte(uuid_send(id), 15) % 30 * interval '0.1 s')
    WHERE state = 'running';
    UPDATE {schema}.maintenance SET ran_at = now();
    UPDATE {schema}.runner SET
        heartbeat_at = now(), leased_until = now() + interval '1 hour', counted_at = now(),
        lately_completed = 26 + (9 * sin({round} / 4.0))::integer, lately_failed = ({round} % 7 = 3)::integer";

/// A job that waits for its next attempt and claims its key for a time.
pub(super) const KEY: &str = "digest.send:all";

/// Fills a database, and returns the job with the key.
pub(super) async fn fill(database: &Database) -> JobId {
    let client = &database.client;
    Admin::new(client).audit_duplicates("email.send", None).await.unwrap();
    let digest = || NewJob::new("digest.send", &serde_json::json!({"audience": "all"})).queue("emails");
    let job = |kind| NewJob::new(kind, &serde_json::json!({}));
    for (name, schedule, job) in [
        ("daily-digest", "0 9 * * MON-FRI", digest()),
        ("invoices-of-the-month", "0 4 1 * *", job("invoice.create")),
        ("nightly-reports", "30 2 * * *", job("report.build")),
        ("search-index", "*/10 * * * *", job("search.index")),
    ] {
        client.define_periodic(PeriodicJob::cron(name, schedule, job)).await.unwrap();
    }
    database.execute(JOBS).await;
    database.execute(HISTORY).await;
    database.execute(KINDS).await;
    let now = client.database_time().await.unwrap();
    let key = uniqueue::UniqueKey::raw(KEY).period(std::time::Duration::from_secs(7_200));
    let id = uuid::Uuid::from_u128(JobId::first_at(now).as_uuid().as_u128() | 0x7c41_8a52_0d6e_91f3_4b27);
    let job = digest().id(id).unique_key(key).scheduled_at(now + std::time::Duration::from_secs(2_539));
    let id = client.insert(job).actor("ada").await.unwrap().id();
    for (index, user) in [3_900, 3_901, 3_905, 3_911].into_iter().enumerate() {
        let key = uniqueue::UniqueKey::raw(format!("email.send:welcome:{user}"));
        let job = NewJob::new("email.send", &serde_json::json!({"user_id": user, "template": "welcome"}));
        for number in 0..=index {
            let id = JobId::first_at(now + std::time::Duration::from_millis((10 * index + number + 1) as u64));
            client.insert(job.clone().queue("emails").unique_key(key.clone()).id(id)).await.unwrap();
        }
    }
    let import =
        |group: &str| NewJob::new("orders.import", &serde_json::json!({"shop": group})).queue("imports").group(group);
    for group in ["shop:1", "shop:1", "shop:1", "shop:2", "shop:2", "shop:3"] {
        client.insert(import(group).group_limit(1)).await.unwrap();
    }
    client.queue("imports").set(QueueChanges::new().group_limit(Some(3))).await.unwrap();
    client.queue("imports").set(QueueChanges::new().fair(true)).await.unwrap();
    let hour = std::time::Duration::from_secs(3_600);
    client.queue("imports").set(QueueChanges::new().group_rate(Some(Rate::per(100, hour).burst(5)))).await.unwrap();
    client.queue("imports").hold_group("shop:2", hour).await.unwrap();
    client
        .queue("search")
        .set(QueueChanges::new().rate(Some(Rate::per(10, std::time::Duration::from_secs(1)))))
        .await
        .unwrap();
    client.queue("search").hold(hour / 6).await.unwrap();
    let start = "
        UPDATE {schema}.job SET state = 'running', attempt = 1, attempted_at = now(), worker = md5('runner 1')::uuid
        WHERE id IN (SELECT id FROM {schema}.job WHERE group_key = 'shop:1' ORDER BY id LIMIT 1)";
    database.execute(start).await;
    client.queue("reports").limit(Some(2)).actor("ben").await.unwrap();
    client.queue("images").pause().actor("ada").await.unwrap();
    id
}

/// Lets a little time of work pass.
pub(super) async fn pass(database: &Database, round: u32) {
    database.execute(&ROUND.replace("{round}", &round.to_string())).await;
}
