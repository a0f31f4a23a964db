-- Defines a periodic job, or changes it where something differs. With another schedule the table's trigger begins it
-- anew. With the same one it keeps its place in time. Whether it is paused is left as it is.
INSERT INTO /* schema */periodic AS p (
    name, kind, queue, args, meta, priority, max_attempts, schedule, time_zone, unique_policy, catch_up, source,
    group_key, group_limit, in_order, takes_from_kind, expires_in, starts_at, created_at
)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, clock_timestamp(), clock_timestamp())
ON CONFLICT (name) DO UPDATE
SET kind = excluded.kind,
    queue = excluded.queue,
    args = excluded.args,
    meta = excluded.meta,
    priority = excluded.priority,
    max_attempts = excluded.max_attempts,
    schedule = excluded.schedule,
    time_zone = excluded.time_zone,
    unique_policy = excluded.unique_policy,
    catch_up = excluded.catch_up,
    source = excluded.source,
    group_key = excluded.group_key,
    group_limit = excluded.group_limit,
    in_order = excluded.in_order,
    takes_from_kind = excluded.takes_from_kind,
    expires_in = excluded.expires_in,
    problem = NULL
WHERE (
        p.kind, p.queue, p.args, p.meta, p.priority, p.max_attempts, p.schedule, p.time_zone, p.unique_policy,
        p.catch_up, p.source, p.group_key, p.group_limit, p.in_order, p.takes_from_kind,
        p.expires_in
    )
    IS DISTINCT FROM (
        excluded.kind, excluded.queue, excluded.args, excluded.meta, excluded.priority, excluded.max_attempts,
        excluded.schedule, excluded.time_zone, excluded.unique_policy, excluded.catch_up, excluded.source,
        excluded.group_key, excluded.group_limit, excluded.in_order, excluded.takes_from_kind, excluded.expires_in
    )
