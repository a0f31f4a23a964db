-- Every queue and what is in it.
SELECT
    q.name, q.paused_at, q.max_running, q.runners, q.available, q.running, q.scheduled, q.retryable,
    q.discarded, q.pending, q.completed, q.cancelled, q.waiting_are_all, q.discarded_are_all, q.last_are_all,
    extract(epoch FROM q.oldest_available_age)::double precision AS oldest_available_age,
    s.paused_by, s.pause_reason, s.max_per_group, s.max_waiting, s.fair,
    s.rate_count, extract(epoch FROM s.rate_period)::double precision AS rate_period, s.rate_burst,
    s.group_rate_count, extract(epoch FROM s.group_rate_period)::double precision AS group_rate_period, s.group_rate_burst,
    CASE WHEN s.held_until > clock_timestamp() THEN s.held_until END AS held_until,
    extract(epoch FROM s.keep_completed)::double precision AS keep_completed,
    extract(epoch FROM s.keep_cancelled)::double precision AS keep_cancelled,
    extract(epoch FROM s.keep_discarded)::double precision AS keep_discarded
FROM /* schema */queues($1, $2) WITH ORDINALITY AS q
LEFT JOIN /* schema */queue AS s ON s.name = q.name
ORDER BY q.ordinality
