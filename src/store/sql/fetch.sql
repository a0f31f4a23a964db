-- Takes the next jobs of several queues, each up to its own free slots.
-- Per queue the scan walks job_fetch in order and locks as it goes, so that no two runners wait
-- for each other. It starts at the queue's head; fetch_onward, which is this with onward.sql in it, says
-- where else. The last row says what the look was; the others are the jobs.
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
    /* onward */
),
/* started */
SELECT
    j.id, j.attempt, j.run, j.scheduled_at, j.args, j.unique_key, j.unique_states,
    j.particulars, j.papers, NULL::record AS look
FROM started AS j
WHERE NOT j.unique_yielded OR j.id <> ALL (
    -- Asked once, and only where a job came to its claim's states while it was fetched, or had yielded before.
    coalesce((SELECT /* schema */take_claims(array_agg(s.id)) FROM started AS s WHERE s.unique_yielded), '{}')
)
UNION ALL
SELECT
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    ROW(
        statement_timestamp(), coalesce((SELECT s.attempted_at FROM started AS s LIMIT 1), clock_timestamp()),
        array_agg(w.queue) FILTER (WHERE w.slots < w.free), array_agg(w.queue) FILTER (WHERE w.is_limited)
    )
FROM wanted AS w
