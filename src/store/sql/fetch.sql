-- Takes the next jobs of several queues ($1), each up to its own free slots ($2), of the given kinds ($3), and starts a
-- run of each for the runner $4. Per queue the scan follows job_fetch in order and locks as it goes, so that no two
-- runners wait for each other. It begins at the head of the queue; or, where the cursor ($5 to $8) has positions in
-- the queue, behind these: one for each priority, the highest first. Leaves out the jobs in $9. Answers with a row a job, or with one row without a
-- job; each says what the scan was.
--
-- $10: how many of the free slots of each queue are idle, so that their jobs start at once. The others are fetched ahead,
-- which suspects and jobs with one attempt are not. $11: how many suspects to take in all, before other jobs. $12: whether
-- to take nothing but one suspect that crashed twice or more. Otherwise no such suspect is taken.
--
-- Jobs of groups are not fetched ahead. jobs_of_groups chooses them for the idle slots, in queues that have any. $13: the
-- group behind which it begins, for each queue. $14: how many groups it visits at most. $15 and $16: queues and groups to
-- visit in any case, since a place was freed in them.
--
-- A queue with a rate gives no more jobs than it has tokens, and a group likewise. The jobs that start spend them.
WITH wanted AS MATERIALIZED (
    SELECT
        w.queue, w.free, w.idle, w.after_group, w.visits, q.rate_count IS NOT NULL AS is_rated,
        q.max_running IS NOT NULL OR q.rate_count IS NOT NULL AS is_limited,
        CASE
            WHEN q.paused_at IS NOT NULL OR q.held_until > clock_timestamp() THEN 0
            WHEN q.max_running IS NULL AND q.rate_count IS NULL THEN w.free
            -- Asked only where there is a limit or a rate over all runners, by all in one order of queues. A token is not
            -- spent ahead.
            ELSE /* schema */free_places(w.queue, CASE WHEN q.rate_count IS NULL THEN w.free ELSE w.idle END)
        END AS slots,
        -- When a hold ends and there is a token. As of the snapshot: at worst too early, and then it is asked again.
        CASE
            WHEN q.paused_at IS NULL THEN greatest(
                q.held_until,
                /* schema */next_token_at(q.rate_count, q.rate_period, q.rate_burst, q.rate_full_at)
            )
        END AS next_at,
        -- Of the suspect with the fewest crashes. Null: none waits. This is all that a queue without suspects pays.
        (
            SELECT j.crashes
            FROM /* schema */job AS j
            WHERE j.queue = w.queue AND j.state = 'available' AND j.crashes > 0 AND j.group_key IS NULL
                AND j.kind = ANY ($3::text[]) AND j.id <> ALL ($9::uuid[])
            ORDER BY j.crashes
            LIMIT 1
        ) AS crashes,
        -- All that a queue without groups pays.
        (
            SELECT true
            FROM /* schema */job AS j
            WHERE j.queue = w.queue AND j.group_key IS NOT NULL AND j.state = 'available'
            ORDER BY j.priority DESC
            LIMIT 1
        ) AS has_groups
    FROM unnest($1::text[], $2::integer[], $10::integer[], $13::text[], $14::integer[])
        AS w (queue, free, idle, after_group, visits)
    LEFT JOIN /* schema */queue AS q ON q.name = w.queue
    -- A runner that has not noticed yet that its lease ran out would take what was just rescued.
    WHERE EXISTS (
        SELECT FROM /* schema */runner AS r WHERE r.id = $4 AND r.leased_until > clock_timestamp()
    )
    ORDER BY w.queue COLLATE "C"
),
suspects AS MATERIALIZED (
    SELECT w.queue, s.id
    FROM wanted AS w
    CROSS JOIN LATERAL (
        SELECT j.id
        FROM /* schema */job AS j
        WHERE j.queue = w.queue AND j.state = 'available' AND j.crashes > 0 AND j.group_key IS NULL
            AND (j.crashes > 1) = $12::boolean AND j.kind = ANY ($3::text[]) AND j.id <> ALL ($9::uuid[])
        ORDER BY j.crashes, j.priority DESC, j.scheduled_at, j.id
        LIMIT least(w.slots, w.idle)
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS s
    WHERE w.crashes > 0
    LIMIT $11::integer
),
grouped AS MATERIALIZED (
    SELECT g.*
    FROM (
        SELECT
            array_agg(w.queue ORDER BY w.queue COLLATE "C") AS queues,
            array_agg(least(w.slots, w.idle) - s.taken ORDER BY w.queue COLLATE "C") AS wanted,
            array_agg(w.after_group ORDER BY w.queue COLLATE "C") AS after_groups,
            array_agg(w.visits ORDER BY w.queue COLLATE "C") AS visits
        FROM wanted AS w
        CROSS JOIN LATERAL (SELECT count(*)::integer AS taken FROM suspects AS s WHERE s.queue = w.queue) AS s
        WHERE w.has_groups AND least(w.slots, w.idle) > s.taken
            AND (w.visits > 0 OR w.queue = ANY ($15::text[]))
        HAVING count(*) > 0
    ) AS w
    CROSS JOIN LATERAL /* schema */jobs_of_queues(
        w.queues, $3::text[], w.wanted, $11::integer - (SELECT count(*)::integer FROM suspects), $12::boolean, $9::uuid[],
        w.visits, w.after_groups, $15::text[], $16::text[]
    ) AS g
),
room AS MATERIALIZED (
    SELECT
        w.queue,
        CASE
            WHEN $12::boolean THEN 0
            ELSE greatest(w.slots - s.taken - coalesce(cardinality(g.ids), 0), 0)
        END AS slots,
        w.idle - s.taken - coalesce(cardinality(g.ids), 0) AS idle
    FROM wanted AS w
    CROSS JOIN LATERAL (SELECT count(*) AS taken FROM suspects AS s WHERE s.queue = w.queue) AS s
    LEFT JOIN grouped AS g ON g.queue = w.queue
),
next AS MATERIALIZED (
    SELECT w.queue, n.id, n.max_attempts = 1 AND n.place > w.idle AS is_left_out
    FROM room AS w
    CROSS JOIN LATERAL (
        SELECT n.id, n.max_attempts, row_number() OVER () AS place
        FROM (
            SELECT j.id, j.max_attempts
            FROM /* schema */job AS j
            WHERE j.queue = w.queue AND j.group_key IS NULL AND j.state = 'available' AND j.crashes = 0
                AND j.kind = ANY ($3::text[]) AND j.id <> ALL ($9::uuid[])
            ORDER BY j.priority DESC, j.scheduled_at, j.id
            LIMIT w.slots
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS n
    ) AS n
    WHERE w.queue <> ALL ($5::text[])
    UNION ALL
    SELECT w.queue, o.id, o.max_attempts = 1 AND o.place > w.idle
    FROM room AS w
    CROSS JOIN LATERAL (
        SELECT n.id, n.max_attempts, row_number() OVER () AS place
        FROM (
            SELECT n.id, n.max_attempts
            -- unnest keeps the order of the positions.
            FROM unnest($5::text[], $6::smallint[], $7::timestamptz[], $8::uuid[])
                AS p (queue, priority, scheduled_at, id)
            CROSS JOIN LATERAL (
                SELECT j.id, j.max_attempts
                FROM /* schema */job AS j
                WHERE j.queue = p.queue
                    AND j.group_key IS NULL
                    AND j.state = 'available'
                    AND j.crashes = 0
                    AND j.priority = p.priority
                    AND (j.scheduled_at, j.id) > (p.scheduled_at, p.id)
                    AND j.kind = ANY ($3::text[])
                    AND j.id <> ALL ($9::uuid[])
                ORDER BY j.scheduled_at, j.id
                LIMIT w.slots
                FOR NO KEY UPDATE SKIP LOCKED
            ) AS n
            WHERE p.queue = w.queue
            LIMIT w.slots
        ) AS n
    ) AS o
    WHERE w.queue = ANY ($5::text[])
    UNION ALL
    SELECT s.queue, s.id, false
    FROM suspects AS s
    UNION ALL
    SELECT g.queue, i.id, false
    FROM grouped AS g
    CROSS JOIN LATERAL unnest(g.ids) AS i (id)
),
started AS (
    UPDATE /* schema */job AS j
    SET state = 'running',
        -- The fence: no other run of the job has this number.
        run = j.run % 2147483647 + 1,
        -- Capped, so that no count stops a queue.
        attempt = least(j.attempt::integer + 1, 32767),
        -- Read once, when the scan is over and no row is changed yet.
        attempted_at = (SELECT clock_timestamp()),
        worker = $4,
        -- Where a job in order begins, it stays first in its group until it is final.
        began = CASE WHEN j.in_order THEN coalesce(j.began, j.run % 2147483647 + 1) END,
        unique_states = CASE WHEN j.until_start AND j.unique_states > 0 THEN 0 ELSE j.unique_states END,
        unique_yielded = j.unique_yielded OR /* schema */enters_claim(j.unique_states, 'available', 'running')
    -- An array, not a join: the planner cannot know how many rows a LIMIT of slots gives, and would read the whole table.
    WHERE j.id = ANY (ARRAY(SELECT n.id FROM next AS n WHERE NOT n.is_left_out))
    RETURNING
        /* columns */j.*,
        j.unique_yielded
),
scan AS (
    SELECT
        statement_timestamp() AS began_at,
        array_agg(w.queue) FILTER (WHERE w.slots < w.free) AS held_back,
        array_agg(w.queue) FILTER (WHERE w.is_limited) AS limited,
        array_agg(w.queue) FILTER (WHERE w.slots > 0 AND (w.crashes > 0 OR g.suspects_seen > 0)) AS suspected,
        least(
            min(w.crashes) FILTER (WHERE w.slots > 0 AND w.crashes > 1),
            min(g.alone_crashes) FILTER (WHERE g.suspects_seen = 0)
        ) AS alone_crashes,
        array_agg(w.queue) FILTER (WHERE w.has_groups) AS with_groups,
        array_agg(g.queue) FILTER (WHERE g.queue IS NOT NULL) AS visited,
        array_agg(g.reached) FILTER (WHERE g.queue IS NOT NULL) AS reached,
        array_agg(g.has_startable) FILTER (WHERE g.queue IS NOT NULL) AS startable,
        array_agg(g.took) FILTER (WHERE g.queue IS NOT NULL) AS visits_took,
        extract(epoch FROM least(
            min(w.next_at) FILTER (WHERE w.next_at > clock_timestamp()),
            min(g.next_at) FILTER (WHERE g.next_at > clock_timestamp())
        ) - clock_timestamp())::double precision AS next_in,
        -- The last step, when all jobs have started.
        CASE
            WHEN bool_or(w.is_rated OR g.is_rated) THEN (
                SELECT /* schema */spend_tokens(array_agg(s.queue::text), array_agg(s.group_key), max(s.attempted_at))
                FROM started AS s
                HAVING count(*) > 0
            )
        END AS spent,
        ARRAY(SELECT DISTINCT n.queue FROM next AS n WHERE n.is_left_out) AS left_out
    FROM wanted AS w
    LEFT JOIN grouped AS g ON g.queue = w.queue
)
SELECT
    c.began_at, coalesce(j.attempted_at, clock_timestamp()) AS ended_at, c.held_back, c.limited, c.suspected,
    c.alone_crashes, c.left_out, c.with_groups, c.visited, c.reached, c.startable, c.visits_took, c.next_in, c.spent,
    /* columns */j.*
FROM scan AS c
LEFT JOIN started AS j ON NOT j.unique_yielded OR j.id <> ALL (
    -- Asked once, and only where a job came to its claim's states while it was fetched, or had yielded before.
    coalesce((SELECT /* schema */take_claims(array_agg(s.id)) FROM started AS s WHERE s.unique_yielded), '{}')
)
