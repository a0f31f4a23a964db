-- Inserts jobs that carry no unique key and may run now, and wakes the runners that sleep: any mix of
-- them; insert_alike and insert_one take what is more alike. An array of one stands for all places. The
-- statement's own time is theirs: now() would be the start of the caller's transaction. None is sent
-- back: each is available since the time that is. The look for sleepers comes before the rows do: a runner that
-- falls asleep in between finds them with its next poll, as it does those of a transaction that commits late.
WITH entered AS (
    INSERT INTO /* schema */job AS j (id, kind, queue, args, meta, priority, max_attempts, created_at, scheduled_at)
    SELECT
        u.id, coalesce(u.kind, ($2::text[])[1]), coalesce(u.queue, ($3::text[])[1]), u.args,
        coalesce(u.meta, ($5::jsonb[])[1]), coalesce(u.priority, ($6::smallint[])[1]),
        coalesce(u.max_attempts, ($7::smallint[])[1]), statement_timestamp(), statement_timestamp()
    FROM unnest($1::uuid[], $2::text[], $3::text[], $4::jsonb[], $5::jsonb[], $6::smallint[], $7::smallint[])
        AS u (id, kind, queue, args, meta, priority, max_attempts)
)
SELECT
    statement_timestamp() AS created_at,
    CASE
        WHEN EXISTS (SELECT FROM /* schema */runner AS r WHERE r.idle AND r.queues && $3::text[])
            THEN /* schema */wake_runners($3::text[])
    END AS woken
