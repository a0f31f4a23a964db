-- Views of groups, for people.

CREATE FUNCTION _visited_groups(queue_name text, look_at integer, after_queue text, after_group text)
RETURNS TABLE (
    queue short_name, priority integer, group_key key_text, id uuid, kind short_name, group_limit smallint, in_order boolean,
    since timestamptz
)
    LANGUAGE sql STABLE
AS $$
-- A row without an id is where a scan begins: before all priorities of a queue, or after after_group in one of them.
WITH RECURSIVE visit AS (
    SELECT
        coalesce(queue_name, after_queue, '') COLLATE "C" AS queue, 32768 AS priority,
        coalesce(after_group, '') COLLATE "C" AS group_key, NULL::uuid AS id,
        -- Groups in this priority, at least that many in this queue and in those before, entries in all.
        0 AS place, 0 AS most, 0 AS before, 0 AS visited,
        NULL::text COLLATE "C" AS kind, NULL::smallint AS group_limit, NULL::boolean AS in_order, NULL::timestamptz AS since
    UNION ALL
    SELECT
        j.queue::text, j.priority::integer, CASE WHEN n.is_after THEN after_group ELSE j.group_key::text END,
        CASE WHEN NOT n.is_after THEN j.id END,
        n.place, greatest(n.most, n.place), n.before, v.visited + (NOT n.is_after)::integer,
        j.kind::text, j.group_limit::smallint, j.in_order, greatest(j.scheduled_at, j.created_at)
    FROM visit AS v
    CROSS JOIN LATERAL (
        -- The next group of the priority, else the next priority of the queue, else the next queue.
        (
            SELECT j.id, v.place + 1 AS place, v.most AS most, v.before AS before, false AS is_after
            FROM job AS j
            WHERE j.group_key IS NOT NULL AND j.state = 'available'
                AND j.queue = v.queue AND j.priority = v.priority AND j.group_key > v.group_key
                AND (after_queue IS NULL OR v.before + v.place < look_at)
            ORDER BY j.group_key, j.scheduled_at, j.id
            LIMIT 1
        )
        UNION ALL
        (
            SELECT j.id, (NOT a.is_after)::integer, v.most, v.before, a.is_after
            FROM job AS j
            CROSS JOIN (SELECT coalesce(v.queue = after_queue AND after_group <> '', false) AS is_after) AS a
            WHERE j.group_key IS NOT NULL AND j.state = 'available'
                AND j.queue = v.queue AND j.priority < v.priority
            ORDER BY j.priority DESC, j.group_key, j.scheduled_at, j.id
            LIMIT 1
        )
        UNION ALL
        (
            SELECT j.id, 1, 0, v.before + v.most, false
            FROM job AS j
            WHERE j.group_key IS NOT NULL AND j.state = 'available' AND j.queue > v.queue
                AND queue_name IS NULL AND (after_queue IS NULL OR v.before + v.most < look_at)
            ORDER BY j.queue, j.priority DESC, j.group_key, j.scheduled_at, j.id
            LIMIT 1
        )
        LIMIT 1
    ) AS n
    -- A probe for each.
    CROSS JOIN LATERAL (
        SELECT o.id, o.kind, o.queue, o.priority, o.group_key, o.group_limit, o.in_order, o.scheduled_at, o.created_at
        FROM job AS o
        WHERE o.id = n.id
        LIMIT 1
    ) AS j
    WHERE after_queue IS NOT NULL OR v.visited < look_at
)
SELECT v.queue, v.priority, v.group_key, v.id, v.kind, v.group_limit, v.in_order, v.since
FROM visit AS v
WHERE v.id IS NOT NULL
$$;
COMMENT ON FUNCTION _visited_groups IS 'The first available job of each group at each priority. The arguments are those of groups().';

CREATE FUNCTION groups(
    queue_name text DEFAULT NULL, look_at integer DEFAULT 1000, after_queue text DEFAULT NULL, after_group text DEFAULT NULL
)
RETURNS TABLE (
    queue text, group_key text, running bigint, group_limit integer, waiting bigint, head uuid, head_kind text,
    head_since timestamptz, held_code text, held_by text, held_details jsonb, held_until timestamptz
)
    LANGUAGE sql STABLE
AS $$
-- One row for each group and priority, and one entry of job_group_held for each group that holds a place.
WITH RECURSIVE held AS (
    SELECT
        coalesce(queue_name, after_queue, '') COLLATE "C" AS queue, coalesce(after_group, '') COLLATE "C" AS group_key, 0 AS place
    UNION ALL
    SELECT n.queue::text, n.group_key::text, h.place + 1
    FROM held AS h
    CROSS JOIN LATERAL (
        SELECT j.queue, j.group_key
        FROM job AS j
        WHERE j.group_key IS NOT NULL AND j.finalized_at IS NULL AND (j.state = 'running' OR j.began IS NOT NULL)
            AND (j.queue, j.group_key) > (h.queue, h.group_key)
        ORDER BY j.queue, j.group_key
        LIMIT 1
    ) AS n
    WHERE h.place < look_at AND (queue_name IS NULL OR h.queue = queue_name)
),
waiting AS (
    SELECT DISTINCT ON (v.queue, v.group_key)
        v.queue, v.group_key, v.id, v.kind, v.since, v.group_limit, v.in_order,
        sum(w.waiting) OVER (PARTITION BY v.queue, v.group_key)::bigint AS waiting
    FROM _visited_groups(queue_name, look_at, after_queue, after_group) AS v
    CROSS JOIN LATERAL (
        SELECT count(*) AS waiting
        FROM (
            SELECT
            FROM job AS j
            WHERE j.queue = v.queue AND j.group_key IS NOT NULL AND j.state = 'available'
                AND j.priority = v.priority AND j.group_key = v.group_key
            ORDER BY j.scheduled_at
            LIMIT 1001
        ) AS c
    ) AS w
    ORDER BY v.queue, v.group_key, v.priority DESC
),
named AS (
    SELECT w.queue, w.group_key FROM waiting AS w
    UNION
    SELECT h.queue, h.group_key FROM held AS h WHERE h.place > 0 AND (queue_name IS NULL OR h.queue = queue_name)
),
queue_hold AS MATERIALIZED (
    SELECT n.queue, o.code, o.details
    FROM (SELECT DISTINCT d.queue FROM named AS d) AS n
    CROSS JOIN LATERAL _queue_obstacles(n.queue) AS o
    WHERE o.code IN ('queue_paused', 'queue_held', 'queue_rate')
)
SELECT
    n.queue, n.group_key, p.running, least(CASE WHEN w.in_order THEN 1 END, w.group_limit, q.max_per_group),
    coalesce(w.waiting, 0), w.id, w.kind, w.since,
    h.codes[1], _obstacle_reason(h.codes[1], h.details[1]), h.details[1], h.until
FROM named AS n
LEFT JOIN waiting AS w ON w.queue = n.queue AND w.group_key = n.group_key
LEFT JOIN queue AS q ON q.name = n.queue
CROSS JOIN LATERAL (
    SELECT count(*) AS running
    FROM (
        SELECT
        FROM job AS j
        WHERE j.queue = n.queue AND j.group_key = n.group_key AND j.group_key IS NOT NULL AND j.finalized_at IS NULL
            AND j.state = 'running'
        LIMIT 1001
    ) AS r
) AS p
CROSS JOIN LATERAL (
    SELECT
        -- A line without a job is not held up.
        array_agg(o.code ORDER BY array_position(_obstacle_codes(), o.code)) FILTER (WHERE w.id IS NOT NULL) AS codes,
        array_agg(o.details ORDER BY array_position(_obstacle_codes(), o.code)) FILTER (WHERE w.id IS NOT NULL) AS details,
        max((o.details ->> 'until')::timestamptz) FILTER (WHERE o.code <> 'group_began') AS until
    FROM (
        SELECT d.code, d.details FROM queue_hold AS d WHERE d.queue = n.queue
        UNION ALL
        SELECT g.code, g.details FROM _group_obstacles(n.queue, n.group_key, w.id) AS g
    ) AS o
) AS h
ORDER BY n.queue, n.group_key
$$;
COMMENT ON FUNCTION groups IS 'The rows of the view group_status, for one queue or for all. look_at is how many groups of each sort are read. Its default is 1,000. With after_queue and after_group the groups come in the order of queue and key, after this one, and at least look_at of them are read. Empty texts mean from the first group on. waiting and running stop at 1,001, waiting for each priority.';

CREATE VIEW group_status AS
SELECT g.* FROM groups() AS g;
COMMENT ON VIEW group_status IS 'One row per group of a queue that has available or running jobs. Reads the first 1,000 groups of each sort. The function groups() takes another number. Reads with the caller''s rights.';
COMMENT ON COLUMN group_status.running IS 'The number of running jobs of the group. 1001 means more than 1,000.';
COMMENT ON COLUMN group_status.group_limit IS 'How many jobs of the group may run at the same time, by its first job and its queue. Null: no limit.';
COMMENT ON COLUMN group_status.waiting IS 'The number of available jobs of the group, counted to 1,001 for each priority.';
COMMENT ON COLUMN group_status.head IS 'The first available job of the group. Null: none is available.';
COMMENT ON COLUMN group_status.head_kind IS 'The kind of the first available job.';
COMMENT ON COLUMN group_status.head_since IS 'The time from which on the first available job could have run.';
COMMENT ON COLUMN group_status.held_code IS 'Why the first available job does not start, as a code of why_waiting: queue_paused, queue_held, queue_rate, group_held, group_began, group_limit or group_rate. Null: its queue and its group do not hold it up, or no job is available.';
COMMENT ON COLUMN group_status.held_by IS 'The same as a sentence.';
COMMENT ON COLUMN group_status.held_details IS 'The facts of the sentence by name, as in why_waiting.';
COMMENT ON COLUMN group_status.held_until IS 'Until when a hold or a rate lets no job of the group start. Null: there is none.';
