-- The jobs that promote.sql finds, except those in $3: up to $1 that were due at $2 or later; null: at any time.
SELECT j.id
FROM /* schema */job AS j
WHERE j.state IN ('scheduled', 'retryable')
    AND j.scheduled_at >= coalesce($2::timestamptz, '-infinity')
    AND j.scheduled_at <= statement_timestamp()
    AND j.id <> ALL ($3::uuid[])
ORDER BY j.scheduled_at
LIMIT $1
