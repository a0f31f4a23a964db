-- Inserts jobs that differ in nothing but their args, as insert_now inserts any: what they have in common comes
-- once and is not taken from an array for each.
WITH entered AS (
    INSERT INTO /* schema */job AS j (id, kind, queue, args, meta, priority, max_attempts, created_at, scheduled_at)
    SELECT u.id, $3, $4, u.args, $5, $6, $7, statement_timestamp(), statement_timestamp()
    FROM unnest($1::uuid[], $2::jsonb[]) AS u (id, args)
)
SELECT
    statement_timestamp() AS created_at,
    CASE
        WHEN EXISTS (SELECT FROM /* schema */runner AS r WHERE r.idle AND r.queues @> ARRAY[$4])
            THEN /* schema */wake_runners(ARRAY[$4])
    END AS woken
