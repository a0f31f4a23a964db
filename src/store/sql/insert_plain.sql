-- Inserts jobs that carry no unique key, and wakes the runners that sleep. The statement's own time
-- is theirs: now() would be the start of the caller's transaction.
WITH entered AS (
    INSERT INTO /* schema */job AS j (
        id, kind, queue, args, meta, priority, max_attempts, created_at, scheduled_at, state
    )
    SELECT
        u.id, u.kind, u.queue, u.args, u.meta, u.priority, u.max_attempts, statement_timestamp(),
        coalesce(u.scheduled_at, statement_timestamp() + u.delay, statement_timestamp()),
        CASE
            WHEN u.is_pending THEN 'pending'
            WHEN coalesce(u.scheduled_at, statement_timestamp() + u.delay) > statement_timestamp() THEN 'scheduled'
            ELSE 'available'
        END::/* schema */job_state
    FROM unnest(
        $1::uuid[], $2::text[], $3::text[], $4::jsonb[], $5::jsonb[], $6::smallint[], $7::smallint[],
        $8::timestamptz[], $9::interval[], $10::boolean[]
    ) AS u (id, kind, queue, args, meta, priority, max_attempts, scheduled_at, delay, is_pending)
    RETURNING j.id, j.queue, j.state, j.created_at, j.scheduled_at
)
SELECT e.id, e.state::text AS state, e.created_at, e.scheduled_at
FROM entered AS e
WHERE (
    SELECT /* schema */wake_runners(array_agg(DISTINCT w.queue))
    FROM entered AS w
    WHERE w.state = 'available'
) IS NOT NULL
