-- Inserts one job with a key and a new id that ignores duplicates, without the arrays of insert_batch, whose unpacking
-- is a third of what one row costs. Answers inserted, duplicate (with the row of the job that claims the
-- key), or contested, where another transaction has the key: insert_one settles that. No subtransaction: after 64 of
-- them a transaction slows down the snapshots of all others. $22 is a lock_timeout for the wait for another transaction with
-- the key, or null. It is not for the waits of the COMMIT.
WITH held AS MATERIALIZED (
    SELECT /* columns */j.*
    FROM /* schema */job AS j
    -- A scan of the table would have to ask not_by_scan for each row, so the planner takes the index.
    WHERE j.unique_key = $11 AND j.claims AND (j.claims OR /* schema */_not_by_scan(j.claims))
),
entered AS (
    INSERT INTO /* schema */job AS j (
        id, kind, queue, args, meta, priority, max_attempts, created_at, scheduled_at, state,
        unique_key, unique_states, unique_until, until_start, discard_on_reentry, group_key, group_limit, in_order,
        expires_at, expires_in
    )
    SELECT
        $1, $2, $3, $4, $5, $6, $7, t.at, t.due_at,
        CASE WHEN $10 THEN 'pending' WHEN t.due_at > t.at THEN 'scheduled' ELSE 'available' END::/* schema */job_state,
        $11, $12,
        coalesce(
            /* schema */_length_after(t.at, $13), /* schema */_length_after(greatest(t.at, t.due_at), $14)
        ),
        $15, $16, $17, $18, $19,
        coalesce($20::timestamptz, CASE WHEN NOT $10 THEN greatest(t.at, t.due_at) + $21::interval END), $21::interval
    FROM (
        SELECT
            statement_timestamp() AS at,
            coalesce($8::timestamptz, statement_timestamp() + $9::interval, statement_timestamp()) AS due_at
    ) AS t
    -- ON CONFLICT alone would wait for a transaction that changes the holder, which a look does not.
    WHERE NOT EXISTS (SELECT FROM held)
        AND (SELECT CASE WHEN $22::text IS NOT NULL THEN set_config('lock_timeout', $22, true) END) IS DISTINCT FROM ''
    ON CONFLICT (unique_key) WHERE claims DO NOTHING
    RETURNING j.id, j.state, j.created_at, j.scheduled_at, j.unique_until
)
SELECT
    CASE
        WHEN e.id IS NOT NULL THEN 'inserted'
        WHEN j.id IS NULL OR o.is_over THEN 'contested'
        ELSE 'duplicate'
    END AS outcome,
    NULL::integer AS place, NULL::uuid AS replaced, NULL::integer AS earlier, clock_timestamp() AS answered_at,
    e.state::text AS new_state, e.created_at AS new_created_at, e.scheduled_at AS new_scheduled_at,
    e.unique_until AS new_unique_until,
    j.*,
    CASE
        WHEN e.state = 'available'
            AND EXISTS (SELECT FROM /* schema */runner AS r WHERE r.idle AND r.queues @> ARRAY[$3::text])
            THEN /* schema */_wake_runners(ARRAY[$3::text])
    END AS woken,
    CASE WHEN $22 IS NOT NULL THEN set_config('lock_timeout', '0', true) END AS unlimited,
    CASE
        WHEN j.id IS NOT NULL AND o.is_over IS NOT TRUE
            AND EXISTS (SELECT FROM /* schema */duplicate_audit AS a WHERE a.stopped_at IS NULL)
            THEN /* schema */_note_duplicates(ARRAY[$2::text], ARRAY[$11::text], ARRAY[j.id], ARRAY[1])
    END AS noted
FROM (SELECT) AS once
LEFT JOIN entered AS e ON true
LEFT JOIN held AS j ON true
CROSS JOIN LATERAL (
    SELECT
        j.unique_until <= clock_timestamp()
        OR /* schema */_has_expired(j.expires_at, j.state::/* schema */job_state, clock_timestamp())
) AS o (is_over)
