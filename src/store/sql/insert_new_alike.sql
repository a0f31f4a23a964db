-- Inserts jobs that differ in nothing but their args and their keys, which each has, as insert_new inserts any: what
-- they have in common comes once and is not taken from an array for each. The caller has them in order.
WITH before AS MATERIALIZED (
    SELECT current_setting('lock_timeout') AS patience
),
entered AS (
    INSERT INTO /* schema */job AS j (
        id, kind, queue, args, meta, priority, max_attempts, created_at, scheduled_at,
        unique_key, unique_states, until_start, discard_on_reentry
    )
    SELECT u.id, $4, $5, u.args, $6, $7, $8, statement_timestamp(), statement_timestamp(), u.unique_key, $9, $10, $11
    FROM unnest($1::uuid[], $2::jsonb[], $3::text[]) AS u (id, args, unique_key)
    WHERE (SELECT set_config('lock_timeout', $12, true) FROM before AS b WHERE b.patience IS NOT NULL) IS NOT NULL
    ON CONFLICT (unique_key) WHERE claims DO NOTHING
    RETURNING j.id
)
SELECT
    statement_timestamp() AS created_at,
    CASE
        WHEN count(*) = cardinality($1::uuid[]) THEN NULL
        WHEN $13 THEN /* schema */give_back()
        ELSE coalesce(array_agg(e.id), '{}')
    END AS entered,
    (SELECT set_config('lock_timeout', b.patience, true) FROM before AS b) AS patience,
    CASE
        WHEN count(*) > 0 AND EXISTS (SELECT FROM /* schema */runner AS r WHERE r.idle AND r.queues @> ARRAY[$5])
            THEN /* schema */wake_runners(ARRAY[$5])
    END AS woken
FROM entered AS e
