-- The next ids of jobs that match a filter, up to the last id of a walk. $1 to $5 are the filter.
SELECT j.id
FROM /* schema */job AS j
WHERE /* matching */true AND j.id > $6 AND j.id <= $7
-- Running jobs are few, and may be older than a million that wait: job_running finds them, which job_pkey would not.
ORDER BY CASE WHEN $1::text[] = ARRAY['running'] THEN uuid_send(j.id) END, j.id
LIMIT $8
