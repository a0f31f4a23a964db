-- The periodic jobs whose slot has come, or that have none yet, or that were placed before the clock went back (is_ahead),
-- or that have a problem, which may be gone. A row each, or one without, each with the milliseconds until the next slot of the others,
-- and whether there are any at all.
SELECT
    o.has_any, o.next_in, clock_timestamp() AS asked_at,
    d.name, d.schedule, d.time_zone, d.catch_up, d.starts_at, d.next_at, d.is_ahead
FROM (
    SELECT
        count(*) > 0 AS has_any,
        (
            extract(
                epoch FROM least(
                    min(p.next_at) FILTER (WHERE p.next_at > clock_timestamp() AND p.problem IS NULL),
                    clock_timestamp() + interval '1 day'
                ) - clock_timestamp()
            ) * 1000
        )::bigint AS next_in
    FROM /* schema */periodic AS p
    WHERE p.paused_at IS NULL
) AS o
LEFT JOIN LATERAL (
    SELECT p.name, p.schedule, p.time_zone, p.catch_up, p.starts_at, p.next_at, c.is_ahead
    FROM /* schema */periodic AS p
    CROSS JOIN LATERAL (SELECT p.placed_at > clock_timestamp() + interval '1 min' AS is_ahead) AS c
    WHERE p.paused_at IS NULL
        AND (p.next_at IS NULL OR p.next_at <= clock_timestamp() OR p.problem IS NOT NULL OR c.is_ahead)
    ORDER BY p.problem IS NOT NULL, p.next_at NULLS FIRST
    LIMIT $1
) AS d ON true
