-- Puts jobs in groups: $1 is an array of objects with the columns of `given`. Only jobs that wait, still have the group
-- `seen_group` and were updated `seen_updates` times are changed. Returns the ids of these. Locked jobs are left for later.
--
-- A fetch counts the running jobs of a group while it has the queue's row. So a job leaves a group under the same lock, that
-- of its queue; where another transaction has one of the rows for long, nothing is changed. A job that has no group yet
-- needs no such lock: when a fetch locks the job's row, it checks once more that the job has none.
/* planned anew */
WITH given AS MATERIALIZED (
    SELECT g.id, g.queue, g.group_key, g.group_limit, g.in_order, g.seen_group, g.seen_updates
    FROM jsonb_to_recordset($1::jsonb) AS g (
        id uuid, queue text, group_key text, group_limit smallint, in_order boolean, seen_group text, seen_updates integer
    )
),
queues AS MATERIALIZED (
    SELECT coalesce(bool_and((/* schema */_lock_queue(q.name)).name IS NOT NULL), true) AS are_locked
    FROM (
        SELECT DISTINCT g.queue COLLATE "C" AS name
        FROM given AS g
        WHERE g.seen_group IS NOT NULL
        -- In the order of fetches, byte by byte.
        ORDER BY name
    ) AS q
),
free AS MATERIALIZED (
    -- In one order, so that two backfills cannot deadlock.
    SELECT j.id
    FROM /* schema */job AS j
    WHERE j.id = ANY (ARRAY(SELECT g.id FROM given AS g)) AND (SELECT q.are_locked FROM queues AS q)
    ORDER BY j.id
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE /* schema */job AS j
SET group_key = g.group_key,
    group_limit = g.group_limit,
    in_order = nullif(g.in_order, false),
    -- A job that began in one line has no place in another.
    began = CASE WHEN g.in_order AND j.group_key = g.group_key THEN j.began END
FROM given AS g
WHERE j.id = g.id
    AND j.id = ANY (ARRAY(SELECT f.id FROM free AS f))
    AND j.state IN ('available', 'pending', 'retryable', 'scheduled')
    AND j.group_key IS NOT DISTINCT FROM g.seen_group
    AND j.updates IS NOT DISTINCT FROM g.seen_updates
RETURNING j.id
