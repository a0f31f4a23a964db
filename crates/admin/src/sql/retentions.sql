-- How long each queue keeps its final jobs, and how many should be gone.
SELECT
    r.queue, r.state, r.is_default, r.overdue, r.has_pruner,
    extract(epoch FROM least(r.keep, interval '1000 years')) AS keep, extract(epoch FROM r.overdue_by) AS overdue_by
FROM /* schema */retention AS r
ORDER BY r.queue COLLATE "C", r.state COLLATE "C"
