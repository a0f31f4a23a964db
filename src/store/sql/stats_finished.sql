-- How long the jobs that finished last waited and ran: of the newest $1 jobs, and of a tenth as many before the
-- head of each of the first 20 queues where jobs wait (those were worked just before), the $2 that finished last, of
-- those that an attempt ended.
-- No index knows when jobs finished: it would cost every completion.
WITH waiting AS (
    SELECT a.queue FROM /* schema */_available_queues() AS a (queue) ORDER BY a.queue COLLATE "C" LIMIT 20
),
looked_at AS (
    (
        SELECT j.id, j.state, j.created_at, j.scheduled_at, j.attempted_at, j.finalized_at
        FROM /* schema */job AS j
        ORDER BY j.id DESC
        LIMIT $1
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
        LIMIT $1 / 10
    ) AS b
),
finished AS (
    SELECT
        l.finalized_at,
        greatest(extract(epoch FROM l.attempted_at - greatest(l.scheduled_at, l.created_at, 'epoch')), 0)::double precision AS wait,
        greatest(extract(epoch FROM l.finalized_at - l.attempted_at), 0)::double precision AS run
    FROM looked_at AS l
    WHERE l.state IN ('completed', 'discarded')
        -- Infinite times, which only a hand sets, cannot be subtracted.
        AND isfinite(l.attempted_at) AND isfinite(l.finalized_at)
        -- What has another time since its latest attempt (a retry, a snooze, a rescue) was not ended by that one, but
        -- discarded since it could not come back: it neither ran nor waited from the one time to the other.
        AND l.scheduled_at <= l.attempted_at
    ORDER BY l.finalized_at DESC
    LIMIT $2
)
SELECT
    array_agg(extract(epoch FROM f.finalized_at)::double precision) AS finalized,
    array_agg(f.wait) AS waits,
    array_agg(f.run) AS runs
FROM finished AS f
