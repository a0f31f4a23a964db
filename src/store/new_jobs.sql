ARRAY(
    SELECT
        (
            u.place, u.id, $23, coalesce(u.kind, ($2::text[])[1]), coalesce(u.queue, ($3::text[])[1]), u.args,
            coalesce(u.meta, ($5::jsonb[])[1]), coalesce(u.priority, ($6::smallint[])[1]),
            coalesce(u.max_attempts, ($7::smallint[])[1]), u.scheduled_at, u.delay, coalesce(u.is_pending, false),
            u.unique_key, CASE WHEN u.unique_key IS NOT NULL THEN coalesce(u.unique_states, ($12::smallint[])[1]) END,
            u.period, u.ttl, coalesce(u.until_start, false),
            coalesce(u.discard_on_reentry, false), coalesce(u.on_conflict, ($22::text[])[1]),
            CASE WHEN u.changes IS NOT NULL THEN jsonb_populate_record(NULL::/* schema */update_terms, u.changes) END,
            u.group_key, u.group_limit, u.in_order, NULL, u.expires_at, u.expires_in
        )::/* schema */new_job
    FROM unnest(
        $1::uuid[], $2::text[], $3::text[], $4::jsonb[], $5::jsonb[], $6::smallint[], $7::smallint[],
        $8::timestamptz[], $9::interval[], $10::boolean[], $11::text[], $12::smallint[], $13::interval[],
        $14::interval[], $15::boolean[], $16::boolean[], $22::text[], $17::text[], $18::smallint[], $19::boolean[],
        $20::timestamptz[], $21::interval[], $24::jsonb[], $25::integer[]
    ) AS u (
        id, kind, queue, args, meta, priority, max_attempts, scheduled_at, delay, is_pending, unique_key, unique_states,
        period, ttl, until_start, discard_on_reentry, on_conflict, group_key, group_limit, in_order, expires_at, expires_in,
        changes, place
    )
)
