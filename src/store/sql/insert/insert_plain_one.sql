-- Inserts one job that carries no unique key and has a new id, without the arrays of insert_plain. The statement's own
-- time is the job's: now() would be the start of the caller's transaction.
INSERT INTO /* schema */job AS j (
    id, kind, queue, args, meta, priority, max_attempts, created_at, scheduled_at, state, group_key, group_limit, in_order,
    expires_at, expires_in
)
SELECT
    $1, $2, $3, $4, $5, $6, $7, t.at, t.due_at,
    CASE WHEN $10 THEN 'pending' WHEN t.due_at > t.at THEN 'scheduled' ELSE 'available' END::/* schema */job_state,
    $11, $12, $13, coalesce($14::timestamptz, CASE WHEN NOT $10 THEN greatest(t.at, t.due_at) + $15::interval END), $15::interval
FROM (
    SELECT
        statement_timestamp() AS at,
        coalesce($8::timestamptz, statement_timestamp() + $9::interval, statement_timestamp()) AS due_at
) AS t
RETURNING
    j.state::text AS new_state, j.created_at AS new_created_at, j.scheduled_at AS new_scheduled_at,
    CASE
        WHEN j.state = 'available'
            AND EXISTS (SELECT FROM /* schema */runner AS r WHERE r.idle AND r.queues @> ARRAY[$3::text])
            THEN /* schema */_wake_runners(ARRAY[$3::text])
    END AS woken
