-- A page of the jobs that match a filter, oldest ids first, from one id on and up to another. $1 to $19 are the filter.
SELECT /* columns */j.*
FROM /* schema */job AS j
WHERE /* matching */true AND j.id > $20 AND j.id <= $21
ORDER BY j.id
LIMIT $22
