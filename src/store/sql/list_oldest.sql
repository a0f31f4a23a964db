-- A page of the jobs that match a filter, oldest ids first, from one id on and up to another. $1 to $18 are the filter.
SELECT /* columns */j.*
FROM /* schema */job AS j
WHERE /* matching */true AND j.id > $19 AND j.id <= $20
ORDER BY j.id
LIMIT $21
