-- The number of jobs that match a filter, counted up to a limit. $1 to $5 are the filter.
SELECT count(*) AS found
FROM (SELECT FROM /* schema */job AS j WHERE /* matching */true LIMIT $6) AS m
