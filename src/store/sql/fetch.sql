-- Takes the next jobs of several queues, each up to its own free slots, and counts the attempt.
-- Per queue the scan walks job_fetch in order and locks as it goes, so that no two runners wait
-- for each other. It starts at the queue's head, or, where places are given, behind one place for
-- each priority: then it need not walk what lies before them. The locked rows go on as an array: the
-- planner cannot know how many a LIMIT of slots gives, and joins what it takes for a tenth of the
-- backlog by reading the whole table. By their places in the table, which a lock keeps: that spares a
-- probe of the primary key each. (A job that somebody changed and committed while the scan came by has a
-- place that this statement does not see yet; the next fetch takes it.)
--
-- The first row says what the scan was; the others are the jobs. What a column costs on its way it costs
-- with each job, so what is usual in most jobs (fetch.rs knows it) is not sent: `particulars` come with a job
-- of which anything of them is unusual, and `papers` with one that has any.
WITH wanted AS MATERIALIZED (
    SELECT
        w.queue, w.free, q.max_running IS NOT NULL AS is_limited,
        CASE
            WHEN q.paused_at IS NOT NULL THEN 0
            WHEN q.max_running IS NULL THEN w.free
            -- Asked only where there is a limit over all runners, by all in one order of queues.
            ELSE /* schema */free_places(w.queue, w.free)
        END AS slots
    FROM unnest($1::text[], $2::integer[]) AS w (queue, free)
    LEFT JOIN /* schema */queue AS q ON q.name = w.queue
    -- A runner that has not noticed yet that its lease ran out would take what was just rescued.
    WHERE EXISTS (
        SELECT FROM /* schema */runner AS r WHERE r.id = $4 AND r.leased_until > clock_timestamp()
    )
    ORDER BY w.queue COLLATE "C"
),
next AS MATERIALIZED (
    SELECT n.ctid
    FROM wanted AS w
    CROSS JOIN LATERAL (
        SELECT j.ctid
        FROM /* schema */job AS j
        WHERE j.queue = w.queue AND j.ready AND j.kind = ANY ($3::text[])
        ORDER BY j.priority DESC, j.scheduled_at, j.id
        LIMIT w.slots
        FOR UPDATE SKIP LOCKED
    ) AS n
    WHERE w.queue <> ALL ($5::text[])
    UNION ALL
    SELECT o.ctid
    FROM wanted AS w
    CROSS JOIN LATERAL (
        SELECT n.ctid
        -- The places come with the highest priority first, and unnest keeps their order.
        FROM unnest($5::text[], $6::smallint[], $7::timestamptz[], $8::uuid[])
            AS p (queue, priority, scheduled_at, id)
        CROSS JOIN LATERAL (
            SELECT j.ctid
            FROM /* schema */job AS j
            WHERE j.queue = p.queue
                AND j.ready
                AND j.priority = p.priority
                AND (j.scheduled_at, j.id) > (p.scheduled_at, p.id)
                AND j.kind = ANY ($3::text[])
            ORDER BY j.scheduled_at, j.id
            LIMIT w.slots
            FOR UPDATE SKIP LOCKED
        ) AS n
        WHERE p.queue = w.queue
        LIMIT w.slots
    ) AS o
    WHERE w.queue = ANY ($5::text[])
),
scanned AS MATERIALIZED (
    SELECT clock_timestamp() AS at
    FROM (SELECT count(*) FROM next) AS n
),
started AS (
    UPDATE /* schema */job AS j
    SET state = 'running',
        -- Counted at fetch, so that a crash uses one up. Capped, so that no count stops a queue.
        attempt = least(j.attempt::integer + 1, 32767),
        -- Read before the first row is changed.
        attempted_at = (SELECT s.at FROM scanned AS s),
        worker = $4,
        unique_states = CASE WHEN j.until_start AND j.unique_states > 0 THEN 0 ELSE j.unique_states END,
        unique_yielded = j.unique_yielded OR /* schema */enters_claim(j.unique_states, 'available', 'running')
    WHERE j.ctid = ANY (ARRAY(SELECT n.ctid FROM next AS n))
    RETURNING
        j.id, j.attempt, j.scheduled_at, j.args, j.unique_key, j.unique_states,
        CASE
            WHEN j.kind = ($3::text[])[1]
                AND j.queue = ($1::text[])[1]
                AND j.created_at = j.scheduled_at
                AND j.priority = 0
                AND j.max_attempts = 25
                AND NOT j.unique_yielded
                AND NOT j.until_start
                AND j.unique_until IS NULL
                AND j.replaced_by IS NULL
                THEN NULL
            ELSE ROW(
                j.kind, j.queue, j.created_at, j.priority, j.max_attempts,
                j.claims, j.until_start, j.unique_until, j.replaced_by
            )
        END AS particulars,
        CASE
            -- Empty JSON has no more than its length and its kind; a comparison would walk it.
            WHEN pg_column_size(j.meta) <= 8
                AND pg_column_size(j.errors) <= 8
                AND jsonb_typeof(j.errors) = 'array'
                AND j.output IS NULL
                AND j.progress IS NULL
                THEN NULL
            ELSE ROW(j.meta, j.errors, j.output, j.progress)
        END AS papers,
        j.unique_yielded
),
given_up AS MATERIALIZED (
    SELECT /* schema */take_claims(array_agg(s.id)) AS ids
    FROM started AS s
    WHERE s.unique_yielded
    HAVING count(*) > 0
)
SELECT
    ROW(
        s.at - statement_timestamp(), statement_timestamp(), s.at,
        (SELECT array_agg(w.queue) FROM wanted AS w WHERE w.slots < w.free),
        (SELECT array_agg(w.queue) FROM wanted AS w WHERE w.is_limited)
    ) AS look,
    NULL::uuid AS id, NULL::smallint AS attempt, NULL::timestamptz AS scheduled_at, NULL::jsonb AS args,
    NULL::text AS unique_key, NULL::smallint AS unique_states, NULL::record AS particulars, NULL::record AS papers
FROM scanned AS s
UNION ALL
SELECT
    NULL, j.id, j.attempt, j.scheduled_at, j.args, j.unique_key, j.unique_states, j.particulars, j.papers
FROM started AS j
WHERE j.id <> ALL (coalesce((SELECT g.ids FROM given_up AS g), '{}'))
