-- The rows of history of span $1 of all queues in the last $2, by queue.
SELECT
    h.queue, h.inserted, h.duplicates, h.completed, h.failed, h.discarded, h.wait_seconds, h.run_seconds,
    h.waits::bigint[] AS waits, h.runs::bigint[] AS runs
FROM /* schema */history AS h
WHERE h.span = $1::text AND h.kind = '' AND h.queue <> ''
    AND h.at >= date_trunc($1, statement_timestamp() - $2::interval, 'UTC')
ORDER BY h.queue
