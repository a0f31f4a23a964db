-- Suspects that crashed twice or more, and jobs that were discarded for their crashes, by kind, queue and whether they
-- are discarded, with one of them. Looks at $1 of the available suspects, of the available jobs of groups, of the jobs that run, of those that wait for
-- their time, and of the last discarded ones.
SELECT to_jsonb(g)
FROM (
    SELECT
        s.kind, s.queue, s.is_discarded, count(*) AS jobs, max(s.crashes) AS crashes,
        (array_agg(s.id ORDER BY s.crashes DESC, s.id))[1] AS job
    FROM (
        (
            SELECT j.id, j.kind, j.queue, j.crashes, false AS is_discarded
            FROM /* schema */job AS j
            WHERE j.group_key IS NULL AND j.state = 'available' AND j.crashes > 0
            LIMIT $1
        )
        UNION ALL
        (
            SELECT j.id, j.kind, j.queue, j.crashes, false
            FROM /* schema */job AS j
            WHERE j.group_key IS NOT NULL AND j.state = 'available'
            LIMIT $1
        )
        UNION ALL
        (
            SELECT j.id, j.kind, j.queue, j.crashes, false
            FROM /* schema */job AS j
            WHERE j.state = 'running'
            LIMIT $1
        )
        UNION ALL
        (
            SELECT j.id, j.kind, j.queue, j.crashes, false
            FROM /* schema */job AS j
            WHERE j.state IN ('scheduled', 'retryable')
            ORDER BY j.scheduled_at
            LIMIT $1
        )
        UNION ALL
        (
            SELECT j.id, j.kind, j.queue, j.crashes, true
            FROM /* schema */job AS j
            WHERE j.state = 'discarded'
            ORDER BY j.id DESC
            LIMIT $1
        )
    ) AS s
    WHERE s.crashes >= 2
    GROUP BY s.kind, s.queue, s.is_discarded
    ORDER BY s.kind, s.queue, s.is_discarded
    LIMIT 100
) AS g
