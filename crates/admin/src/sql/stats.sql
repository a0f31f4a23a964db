/* planned anew */
-- Statistics, but for the jobs by state, in one row.
WITH times AS MATERIALIZED (
    SELECT clock_timestamp() AS now
),
-- The throughput of the live runners, by the counts of their last heartbeats.
pace AS (
    SELECT
        count(*) AS runners,
        coalesce(sum(r.lately_completed / nullif(extract(epoch FROM r.lately), 0)), 0) AS completed,
        coalesce(sum(r.lately_failed / nullif(extract(epoch FROM r.lately), 0)), 0) AS failed,
        extract(epoch FROM max(r.lately)) AS worked_over
    FROM /* schema */runner AS r
    WHERE r.leased_until > clock_timestamp()
),
-- How many of the newest jobs were inserted within the time, and how old the oldest of those is that were read. Ids follow
-- time, so this scans the primary key from its end.
inserted AS (
    SELECT
        count(*) FILTER (WHERE n.created_at > t.now - make_interval(secs => ($1::jsonb ->> 'within')::float8)) AS inserted,
        extract(epoch FROM t.now - min(n.created_at) FILTER (WHERE isfinite(n.created_at))) AS reach
    FROM times AS t
    LEFT JOIN (SELECT j.created_at FROM /* schema */job AS j ORDER BY j.id DESC LIMIT 20000) AS n ON true
    GROUP BY t.now
),
-- How long the jobs that finished last waited and ran: of the newest jobs, and of a tenth as many before the head of each of
-- the first 20 queues where jobs wait (those were worked just before), the jobs that finished last, of those that an attempt
-- ended. No index knows when jobs finished: it would cost every completion.
waiting AS (
    SELECT a.queue FROM /* schema */_available_queues() AS a (queue) ORDER BY a.queue COLLATE "C" LIMIT 20
),
looked_at AS (
    (
        SELECT j.id, j.state, j.created_at, j.scheduled_at, j.attempted_at, j.finalized_at
        FROM /* schema */job AS j
        ORDER BY j.id DESC
        LIMIT 20000
    )
    UNION
    SELECT b.id, b.state, b.created_at, b.scheduled_at, b.attempted_at, b.finalized_at
    FROM waiting AS w
    CROSS JOIN LATERAL (SELECT j.id FROM /* schema */_available_jobs(w.queue, 1) AS j LIMIT 1) AS h
    CROSS JOIN LATERAL (
        SELECT j.id, j.state, j.created_at, j.scheduled_at, j.attempted_at, j.finalized_at
        FROM /* schema */job AS j
        WHERE j.id < h.id
        ORDER BY j.id DESC
        LIMIT 2000
    ) AS b
),
finished AS (
    SELECT
        l.finalized_at,
        greatest(extract(epoch FROM l.attempted_at - greatest(l.scheduled_at, l.created_at, 'epoch')), 0) AS wait,
        greatest(extract(epoch FROM l.finalized_at - l.attempted_at), 0) AS run
    FROM looked_at AS l
    WHERE l.state IN ('completed', 'discarded')
        -- Infinite times, which only a hand sets, cannot be subtracted.
        AND isfinite(l.attempted_at) AND isfinite(l.finalized_at)
        -- What has another time since its latest attempt (a retry, a snooze, a rescue) was not ended by that one, but
        -- discarded since it could not come back: it neither ran nor waited from the one time to the other.
        AND l.scheduled_at <= l.attempted_at
    ORDER BY l.finalized_at DESC
    LIMIT ($1::jsonb ->> 'sample')::bigint
)
SELECT
    t.now AS asked_at, p.runners,
    jsonb_build_object(
        'inserted', i.inserted / i.seconds, 'inserted_over', i.seconds,
        'completed', p.completed, 'failed', p.failed, 'worked_over', p.worked_over
    ) AS rates,
    ARRAY(SELECT to_jsonb(f) FROM finished AS f) AS finished
FROM times AS t
CROSS JOIN pace AS p
CROSS JOIN (
    SELECT
        n.inserted,
        -- If all jobs that were read are younger, there may be more: the rate is that of their own time.
        greatest(least(($1::jsonb ->> 'within')::float8, CASE WHEN n.inserted >= 20000 THEN n.reach::float8 END), 0.001) AS seconds
    FROM inserted AS n
) AS i
