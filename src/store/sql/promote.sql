-- Makes scheduled and retryable jobs available when they are due, and wakes their runners. Looks
-- at those that were due at $2 or later; null: at all; and of these at those in $3; null: at all.
-- Always one row: how many it took, up to when it looked, and in how many milliseconds the next job is
-- due. The statement's own time is a bound that the index can serve, which clock_timestamp() would not
-- be.
WITH due AS (
    SELECT j.id, j.scheduled_at
    FROM /* schema */job AS j
    WHERE j.state IN ('scheduled', 'retryable')
        AND j.scheduled_at >= coalesce($2::timestamptz, '-infinity')
        AND j.scheduled_at <= statement_timestamp()
        AND ($3::uuid[] IS NULL OR j.id = ANY ($3))
    ORDER BY j.scheduled_at
    LIMIT $1
    FOR NO KEY UPDATE SKIP LOCKED
),
promoted AS (
    UPDATE /* schema */job AS j
    SET state = 'available',
        unique_yielded = j.unique_yielded OR /* schema */_enters_claim(j.unique_states, j.state, 'available')
    -- An array, not a join: the planner takes a LIMIT of unknown size for a tenth of the table.
    WHERE j.id = ANY (ARRAY(SELECT d.id FROM due AS d))
    RETURNING j.id, j.queue, j.unique_yielded
),
settled AS MATERIALIZED (
    SELECT
        count(*) AS promoted,
        /* schema */_wake_runners(array_agg(DISTINCT p.queue)) AS woken,
        /* schema */_take_claims(array_agg(p.id) FILTER (WHERE p.unique_yielded)) AS discarded
    FROM promoted AS p
    HAVING count(*) > 0
)
SELECT
    coalesce(s.promoted, 0) AS promoted,
    s.woken,
    s.discarded,
    CASE
        WHEN s.promoted = $1 THEN (SELECT max(d.scheduled_at) FROM due AS d) ELSE statement_timestamp()
    END AS reached,
    (
        SELECT (extract(epoch FROM least(min(j.scheduled_at), clock_timestamp() + interval '1 day') - clock_timestamp()) * 1000)::bigint
        FROM /* schema */job AS j
        WHERE j.state IN ('scheduled', 'retryable') AND j.scheduled_at > statement_timestamp()
    ) AS next_in
FROM (SELECT) AS always
LEFT JOIN settled AS s ON true
