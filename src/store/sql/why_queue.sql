-- What keeps the first available job of queue $1 from starting, the first obstacle to go first.
SELECT f.id, w.code, w.reason, w.remedy, w.details
FROM (
    SELECT j.id
    FROM /* schema */_available_jobs($1, 1) AS j
    ORDER BY j.priority DESC, j.scheduled_at, j.id
    LIMIT 1
) AS f
CROSS JOIN LATERAL /* schema */why_waiting(f.id) WITH ORDINALITY AS w (code, reason, remedy, details, place)
ORDER BY w.place
