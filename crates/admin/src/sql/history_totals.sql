-- The counts of each queue since it was first used, by queue.
SELECT
    t.queue,
    to_jsonb(t) || jsonb_build_object(
        'wait', jsonb_build_array(t.waits, t.wait_seconds), 'run', jsonb_build_array(t.runs, t.run_seconds)
    ) AS counts
FROM /* schema */history_total AS t
ORDER BY t.queue
