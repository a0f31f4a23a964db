-- How a queue is set, if anything was.
SELECT
    q.name, q.paused_at, q.paused_by, q.pause_reason, q.max_running, q.max_per_group, q.max_waiting, q.fair,
    q.rate_count, extract(epoch FROM q.rate_period)::double precision AS rate_period, q.rate_burst,
    q.group_rate_count, extract(epoch FROM q.group_rate_period)::double precision AS group_rate_period, q.group_rate_burst,
    CASE WHEN q.held_until > clock_timestamp() THEN q.held_until END AS held_until,
    extract(epoch FROM q.keep_completed)::double precision AS keep_completed,
    extract(epoch FROM q.keep_cancelled)::double precision AS keep_cancelled,
    extract(epoch FROM q.keep_discarded)::double precision AS keep_discarded
FROM /* schema */queue AS q
WHERE q.name = $1
