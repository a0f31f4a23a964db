-- The counts of each queue since it was first used, by queue.
SELECT
    t.queue, t.inserted, t.duplicates, t.completed, t.failed, t.discarded, t.wait_seconds, t.run_seconds, t.waits, t.runs
FROM /* schema */history_total AS t
ORDER BY t.queue
