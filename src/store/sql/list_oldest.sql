-- A page of the jobs that match a filter, oldest ids first, from one id on. $1 to $17 are the filter.
SELECT /* columns */j.*
FROM /* schema */job AS j
WHERE /* matching */true AND j.id > $18
ORDER BY j.id
LIMIT $19
