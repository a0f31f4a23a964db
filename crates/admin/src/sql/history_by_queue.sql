/* planned anew */
-- The rows of history of all queues in the last time, by queue.
SELECT
    h.queue,
    to_jsonb(h) || jsonb_build_object(
        'wait', jsonb_build_array(h.waits, h.wait_seconds), 'run', jsonb_build_array(h.runs, h.run_seconds)
    ) AS counts
FROM /* schema */history AS h
WHERE h.span = $1::jsonb ->> 'span' AND h.kind = '' AND h.queue <> ''
    AND h.at >= date_trunc(
        $1::jsonb ->> 'span', statement_timestamp() - make_interval(secs => ($1::jsonb ->> 'since')::float8), 'UTC'
    )
ORDER BY h.queue
