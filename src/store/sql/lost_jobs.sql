-- The jobs that rescue.sql finds, except those in $2: up to $1 jobs of runners whose lease expired.
SELECT j.id
FROM /* schema */job AS j
WHERE j.state = 'running'
    AND NOT EXISTS (
        SELECT FROM /* schema */runner AS r
        WHERE r.id = j.worker AND r.leased_until > clock_timestamp()
    )
    AND j.id <> ALL ($2::uuid[])
LIMIT $1
