-- Keys that are claimed by jobs which nothing will move: discarded and cancelled ones whose unique states cover that,
-- pending ones, and running ones whose runner is dead. Looked at are the last $2 discarded jobs, the last $2 jobs of
-- all, and the first $2 that run. Only where the state has lasted for at least $1, by kind and state.
WITH discarded AS MATERIALIZED (
    SELECT j.id FROM /* schema */job AS j WHERE j.state = 'discarded' ORDER BY j.id DESC LIMIT $2
),
latest AS MATERIALIZED (
    SELECT j.id FROM /* schema */job AS j ORDER BY j.id DESC LIMIT $2
),
running AS MATERIALIZED (
    SELECT j.id
    FROM (SELECT j.id, j.worker FROM /* schema */job AS j WHERE j.state = 'running' LIMIT $2) AS j
    WHERE NOT EXISTS (
        SELECT FROM /* schema */runner AS r WHERE r.id = j.worker AND r.leased_until > clock_timestamp() - $1::interval
    )
),
looked_at AS (
    SELECT d.id FROM discarded AS d
    UNION SELECT l.id FROM latest AS l
    UNION SELECT r.id FROM running AS r
)
SELECT to_jsonb(c)
FROM (
    SELECT
        j.kind, j.state::text AS state, count(*) AS keys,
        (array_agg(j.unique_key ORDER BY j.id))[1] AS unique_key,
        (array_agg(j.id ORDER BY j.id))[1] AS holder,
        extract(epoch FROM max(clock_timestamp() - coalesce(j.finalized_at, j.attempted_at, j.created_at)))::double precision
            AS oldest_age
    FROM looked_at AS l
    JOIN /* schema */job AS j ON j.id = l.id
    WHERE j.claims
        AND (j.unique_until IS NULL OR j.unique_until > clock_timestamp())
        AND (
            j.state IN ('cancelled', 'discarded', 'pending')
            OR (j.state = 'running' AND EXISTS (SELECT FROM running AS r WHERE r.id = j.id))
        )
        AND coalesce(j.finalized_at, j.attempted_at, j.created_at) <= clock_timestamp() - $1::interval
    GROUP BY j.kind, j.state
    ORDER BY count(*) DESC, j.kind
    LIMIT 100
) AS c
