-- Every queue and what is in it.
SELECT
    q.runners, q.available, q.running, q.scheduled, q.retryable,
    q.discarded, q.pending, q.completed, q.cancelled, q.waiting_are_all, q.discarded_are_all, q.last_are_all,
    extract(epoch FROM q.oldest_available_age)::double precision AS oldest_available_age,
    /* schema */_queue_settings(q.name, s) AS settings
FROM /* schema */queues($1, $2) WITH ORDINALITY AS q
LEFT JOIN /* schema */queue AS s ON s.name = q.name
ORDER BY q.ordinality
