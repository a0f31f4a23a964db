-- Puts jobs $1 in the groups $2 with the limits $3 (null: none), in order where $4 is true. Only jobs that wait, still have
-- the group $5 (null: none) and were updated $6 times are changed. Returns the ids of these. Locked jobs are left for later.
--
-- A fetch counts the running jobs of a group while it has the queue's row. So a job leaves a group under the same lock, that
-- of the queues $7; where another transaction has one of the rows for long, nothing is changed. A job that has no group yet
-- needs no such lock: when a fetch locks the job's row, it checks once more that the job has none.
WITH given AS MATERIALIZED (
    SELECT g.id, g.group_key, g.group_limit, g.in_order, g.seen_group, g.seen_updates
    FROM unnest($1::uuid[], $2::text[], $3::smallint[], $4::boolean[], $5::text[], $6::integer[])
        AS g (id, group_key, group_limit, in_order, seen_group, seen_updates)
),
queues AS MATERIALIZED (
    -- In the order of fetches, which unnest keeps.
    SELECT coalesce(bool_and((/* schema */_lock_queue(q.name)).name IS NOT NULL), true) AS are_locked
    FROM unnest($7::text[]) AS q (name)
),
free AS MATERIALIZED (
    -- In one order, so that two backfills cannot deadlock.
    SELECT j.id
    FROM /* schema */job AS j
    WHERE j.id = ANY ($1::uuid[]) AND (SELECT q.are_locked FROM queues AS q)
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
