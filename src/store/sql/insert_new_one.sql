-- Inserts one job with a key that is probably free, as insert_new inserts several, and answers with its time, or with
-- no row. Without a subtransaction, of which a caller's transaction of many inserts would soon have more than the
-- snapshots of others can hold.
INSERT INTO /* schema */job AS j (
    id, kind, queue, args, meta, priority, max_attempts, created_at, scheduled_at,
    unique_key, unique_states, until_start, discard_on_reentry
)
SELECT
    $1, $3, $4, $2, $5, $6, $7, statement_timestamp(), statement_timestamp(), $8, $9, $10, $11
WHERE
    -- ON CONFLICT would wait for whoever is just changing a holder, which a look does not.
    NOT EXISTS (
        SELECT
        FROM /* schema */job AS h
        -- As in held_jobs: a scan of the table would have to ask, so the planner takes the index.
        WHERE h.unique_key = $8 AND h.claims AND (h.claims OR /* schema */not_by_scan(h.claims))
    )
    AND ($12::text IS NULL OR set_config('lock_timeout', $12, true) IS NOT NULL)
ON CONFLICT (unique_key) WHERE claims DO NOTHING
RETURNING
    j.created_at,
    -- What the commit waits for is not what patience is for.
    CASE WHEN $12 IS NOT NULL THEN set_config('lock_timeout', '0', true) END AS patience,
    CASE
        WHEN EXISTS (SELECT FROM /* schema */runner AS r WHERE r.idle AND r.queues @> ARRAY[$4])
            THEN /* schema */wake_runners(ARRAY[$4])
    END AS woken
