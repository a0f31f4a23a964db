-- What rescue.sql looks at, but for the jobs in $2: up to $1 jobs of runners whose lease ran out.
SELECT j.id
FROM /* schema */job AS j
WHERE j.state = 'running'
    AND NOT EXISTS (
        SELECT FROM /* schema */runner AS r
        WHERE r.id = j.worker AND r.leased_until > clock_timestamp()
    )
    AND j.id <> ALL ($2::uuid[])
LIMIT $1
