-- In how many seconds a rate or a hold lets a job of queue $1 start, or of its group $2 (null: a job without a group). Not
-- above 0, or null: now.
SELECT
    extract(
        epoch FROM greatest(
            q.held_until,
            /* schema */_next_token_at(q.rate_count, q.rate_period, q.rate_burst, q.rate_full_at),
            g.held_until,
            /* schema */_next_token_at(q.group_rate_count, q.group_rate_period, q.group_rate_burst, g.rate_full_at)
        ) - clock_timestamp()
    )::double precision AS next_in
FROM (SELECT $1::text AS queue, $2::text AS group_key) AS w
LEFT JOIN /* schema */queue AS q ON q.name = w.queue
LEFT JOIN /* schema */queue_group AS g ON g.queue = w.queue AND g.group_key = w.group_key
