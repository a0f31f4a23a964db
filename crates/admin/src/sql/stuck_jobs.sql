-- Jobs that should have moved and have not, the longest first. The limit counts for each reason as well.
SELECT
    s.id, s.kind, s.queue, s.state, s.attempt, s.runner, s.since, s.code, s.reason, s.remedy,
    extract(epoch FROM s.stuck_for) AS stuck_for
FROM /* schema */stuck_jobs(
    make_interval(secs => ($1::jsonb ->> 'running_for')::float8),
    make_interval(secs => ($1::jsonb ->> 'waiting_for')::float8),
    least(($1::jsonb ->> 'limit')::bigint, 2147483647)::integer
) AS s
ORDER BY s.since, s.id
LIMIT ($1::jsonb ->> 'limit')::bigint
