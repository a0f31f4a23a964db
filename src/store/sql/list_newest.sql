-- A page of the jobs that match a filter, newest ids first, from one id on and down to another. $1 to $19 are the filter.
SELECT /* columns */j.*
FROM /* schema */job AS j
WHERE /* matching */true AND j.id < $20 AND j.id >= $21
ORDER BY j.id DESC
LIMIT $22
