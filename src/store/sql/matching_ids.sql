-- The next ids of jobs that match a filter, up to the last one that a walk is for. $1 to $19 are the filter.
SELECT j.id
FROM /* schema */job AS j
WHERE /* matching */true AND j.id > $20 AND j.id <= $21
ORDER BY j.id
LIMIT $22
