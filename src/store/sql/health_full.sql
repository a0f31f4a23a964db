-- Queues with a limit of waiting jobs that have as many, or whose limit no trigger enforces.
SELECT to_jsonb(f)
FROM (
    SELECT q.name AS queue, q.max_waiting, w.waiting, e.is_enforced
    FROM /* schema */queue AS q
    CROSS JOIN LATERAL (
        SELECT count(*) AS waiting
        FROM (
            SELECT FROM /* schema */_available_jobs(q.name, q.max_waiting) LIMIT q.max_waiting
        ) AS c
    ) AS w
    CROSS JOIN (
        SELECT EXISTS (
            SELECT FROM pg_trigger AS t
            WHERE t.tgrelid = to_regclass($1 || '.job') AND t.tgname = 'job_max_waiting' AND t.tgenabled IN ('O', 'A')
        ) AS is_enforced
    ) AS e
    WHERE q.max_waiting IS NOT NULL AND (w.waiting >= q.max_waiting OR NOT e.is_enforced)
    ORDER BY q.name
    LIMIT 100
) AS f
