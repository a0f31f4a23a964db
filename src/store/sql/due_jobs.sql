-- What promote.sql looks at, but for the jobs in $3: up to $1 that were due at $2 or later; null: at
-- all. Always one row: the jobs, and up to when it looked.
SELECT
    coalesce(array_agg(d.id), '{}') AS ids,
    CASE WHEN count(*) = $1 THEN max(d.scheduled_at) ELSE statement_timestamp() END AS reached
FROM (
    SELECT j.id, j.scheduled_at
    FROM /* schema */job AS j
    WHERE j.state IN ('scheduled', 'retryable')
        AND j.scheduled_at >= coalesce($2::timestamptz, '-infinity')
        AND j.scheduled_at <= statement_timestamp()
        AND j.id <> ALL ($3::uuid[])
    ORDER BY j.scheduled_at
    LIMIT $1
) AS d
