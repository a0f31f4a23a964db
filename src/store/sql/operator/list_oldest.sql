-- A page of the jobs that match a filter, oldest ids first. $1 to $5 are the filter.
SELECT /* columns */j.*
FROM /* schema */job AS j
WHERE /* matching */true
-- Running jobs are few, and may be older than a million that wait: job_running finds them, which job_pkey would not.
ORDER BY CASE WHEN $1::text[] = ARRAY['running'] THEN uuid_send(j.id) END, j.id
LIMIT $6
