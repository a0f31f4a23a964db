-- Inserts jobs that carry no unique key and have new ids, and wakes the runners that sleep. An array of one element
-- stands for all places, an empty one for nulls. The statement's own time is theirs: now() would be the start of the
-- caller's transaction. Answers with a row for each job where one of them may not run at once ($16), and with one row
-- without a place, which stands for every job that no other row names.
-- The look for idle runners comes before the rows: a runner that falls asleep in between finds them with its next poll.
WITH entered AS (
    INSERT INTO /* schema */job AS j (
        id, kind, queue, args, meta, priority, max_attempts, created_at, scheduled_at, state, group_key, group_limit, in_order,
        expires_at, expires_in
    )
    SELECT
        u.id, coalesce(u.kind, ($2::text[])[1]), coalesce(u.queue, ($3::text[])[1]), u.args,
        coalesce(u.meta, ($5::jsonb[])[1]), coalesce(u.priority, ($6::smallint[])[1]),
        coalesce(u.max_attempts, ($7::smallint[])[1]), t.at, coalesce(u.scheduled_at, t.at + u.delay, t.at),
        CASE
            WHEN u.is_pending THEN 'pending'
            WHEN coalesce(u.scheduled_at, t.at + u.delay) > t.at THEN 'scheduled'
            ELSE 'available'
        END::/* schema */job_state,
        u.group_key, u.group_limit, u.in_order,
        coalesce(
            u.expires_at,
            CASE WHEN u.is_pending THEN NULL ELSE greatest(t.at, coalesce(u.scheduled_at, t.at + u.delay)) + u.expires_in END
        ),
        u.expires_in
    FROM (SELECT statement_timestamp() AS at) AS t
    CROSS JOIN unnest(
        $1::uuid[], $2::text[], $3::text[], $4::jsonb[], $5::jsonb[], $6::smallint[], $7::smallint[],
        $8::timestamptz[], $9::interval[], $10::boolean[], $11::text[], $12::smallint[], $13::boolean[],
        $14::timestamptz[], $15::interval[]
    ) AS u (
        id, kind, queue, args, meta, priority, max_attempts, scheduled_at, delay, is_pending, group_key, group_limit, in_order,
        expires_at, expires_in
    )
    RETURNING j.id, j.queue, j.state, j.scheduled_at
)
SELECT
    NULL::integer AS place, 'available' AS new_state, statement_timestamp() AS new_created_at,
    statement_timestamp() AS new_scheduled_at,
    CASE
        WHEN EXISTS (SELECT FROM /* schema */runner AS r WHERE r.idle AND r.queues && $3::text[])
            THEN /* schema */_wake_runners(
                ARRAY(SELECT DISTINCT e.queue::text FROM entered AS e WHERE e.state = 'available')
            )
    END AS woken
UNION ALL
SELECT u.place::integer, e.state::text, statement_timestamp(), e.scheduled_at, NULL
FROM entered AS e
INNER JOIN unnest($1::uuid[]) WITH ORDINALITY AS u (id, place) ON u.id = e.id
WHERE $16
