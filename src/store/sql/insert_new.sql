-- Inserts jobs with keys that are probably free, each for itself: one index decides, without a look before.
-- They may run now, claim their keys by that, and have no deadline; an array of one stands for all places,
-- as in insert_now. The caller has them in order (insert_new.rs says in which): to sort whole rows here would
-- cost a tenth of it all. Answers with the ids of those that are there now (null: all of them); the others met
-- somebody. Under $13 they are inserted all or none, and none is an error. A wait for somebody's open
-- transaction ends after $12, asked once, before the first row; what the commit waits for is no such wait.
WITH before AS MATERIALIZED (
    SELECT current_setting('lock_timeout') AS patience
),
entered AS (
    INSERT INTO /* schema */job AS j (
        id, kind, queue, args, meta, priority, max_attempts, created_at, scheduled_at,
        unique_key, unique_states, until_start, discard_on_reentry
    )
    SELECT
        u.id, coalesce(u.kind, ($2::text[])[1]), coalesce(u.queue, ($3::text[])[1]), u.args,
        coalesce(u.meta, ($5::jsonb[])[1]), coalesce(u.priority, ($6::smallint[])[1]),
        coalesce(u.max_attempts, ($7::smallint[])[1]), statement_timestamp(), statement_timestamp(),
        u.unique_key,
        CASE WHEN u.unique_key IS NOT NULL THEN coalesce(u.unique_states, ($9::smallint[])[1]) END,
        coalesce(u.until_start, ($10::boolean[])[1]), coalesce(u.discard_on_reentry, ($11::boolean[])[1])
    FROM unnest(
        $1::uuid[], $2::text[], $3::text[], $4::jsonb[], $5::jsonb[], $6::smallint[], $7::smallint[],
        $8::text[], $9::smallint[], $10::boolean[], $11::boolean[]
    ) AS u (
        id, kind, queue, args, meta, priority, max_attempts, unique_key, unique_states, until_start,
        discard_on_reentry
    )
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
        WHEN count(*) > 0 AND EXISTS (SELECT FROM /* schema */runner AS r WHERE r.idle AND r.queues && $3::text[])
            THEN /* schema */wake_runners($3::text[])
    END AS woken
FROM entered AS e
