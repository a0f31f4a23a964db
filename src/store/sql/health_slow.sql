-- Kinds whose attempts run for far longer than usual although their runner lives, with one of them. An attempt counts from
-- $1 on, and from $2 times the usual time of its kind on. The usual time is the one within which 95 of 100 completed runs of
-- the kind ended. Looked at are the $3 jobs that were inserted before the attempt's job and the $3 after it, since a
-- backlog hides the completed jobs from a look at the latest. Fewer than 20 runs say nothing.
WITH running AS MATERIALIZED (
    SELECT j.id, j.kind, j.queue, clock_timestamp() - j.attempted_at AS running_for
    FROM /* schema */job AS j
    JOIN /* schema */runner AS r ON r.id = j.worker AND r.leased_until > clock_timestamp()
    WHERE j.state = 'running' AND j.attempted_at <= clock_timestamp() - $1::interval
    LIMIT 1000
),
kind AS MATERIALIZED (
    SELECT r.kind, min(r.id::text COLLATE "C")::uuid AS oldest
    FROM running AS r
    GROUP BY r.kind
    ORDER BY max(r.running_for) DESC
    LIMIT 20
),
usual AS MATERIALIZED (
    SELECT k.kind, u.runs, u.usual
    FROM kind AS k
    CROSS JOIN LATERAL (
        SELECT count(*) AS runs, percentile_disc(0.95) WITHIN GROUP (ORDER BY n.took) AS usual
        FROM (
            SELECT b.finalized_at - b.attempted_at AS took
            FROM (
                SELECT j.kind, j.state, j.attempted_at, j.finalized_at
                FROM /* schema */job AS j WHERE j.id < k.oldest ORDER BY j.id DESC LIMIT $3
            ) AS b
            WHERE b.state = 'completed' AND b.kind = k.kind
            UNION ALL
            SELECT a.finalized_at - a.attempted_at
            FROM (
                SELECT j.kind, j.state, j.attempted_at, j.finalized_at
                FROM /* schema */job AS j WHERE j.id > k.oldest ORDER BY j.id LIMIT $3
            ) AS a
            WHERE a.state = 'completed' AND a.kind = k.kind
        ) AS n
    ) AS u
    WHERE u.runs >= 20
)
SELECT to_jsonb(s)
FROM (
    SELECT
        r.kind, r.queue, count(*) AS jobs,
        extract(epoch FROM max(r.running_for))::double precision AS oldest_age,
        extract(epoch FROM u.usual)::double precision AS usual,
        u.runs,
        (array_agg(r.id ORDER BY r.running_for DESC, r.id))[1] AS job
    FROM usual AS u
    JOIN running AS r ON r.kind = u.kind AND r.running_for > u.usual * $2::double precision
    GROUP BY r.kind, r.queue, u.usual, u.runs
    ORDER BY max(r.running_for) DESC
) AS s
