-- The next ids of jobs that match a filter, up to the last one that a walk is for. $1 to $18 are the filter.
SELECT j.id
FROM /* schema */job AS j
WHERE /* matching */true AND j.id > $19 AND j.id <= $20
ORDER BY j.id
LIMIT $21
