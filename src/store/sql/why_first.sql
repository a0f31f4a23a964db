-- The first obstacle of each of these jobs. A job that does not exist has no row.
SELECT i.id, w.code, w.reason, w.remedy, w.details
FROM unnest($1::uuid[]) AS i (id)
CROSS JOIN LATERAL (
    SELECT o.code, o.reason, o.remedy, o.details
    FROM /* schema */why_waiting(i.id) WITH ORDINALITY AS o (code, reason, remedy, details, place)
    ORDER BY o.place
    LIMIT 1
) AS w
