-- Jobs that should have moved and have not, by code and queue, with the one that has been stuck for longest. Those that wait
-- in a queue are told with their queue. $1: how long a running job may run before it is named; $2: how long one that is due
-- may wait.
SELECT to_jsonb(g)
FROM (
    SELECT
        s.code COLLATE "C" AS code, s.queue COLLATE "C" AS queue, count(*) AS jobs,
        extract(epoch FROM max(s.stuck_for))::double precision AS oldest_age,
        (array_agg(s.id ORDER BY s.stuck_for DESC, s.id))[1] AS job,
        (array_agg(s.kind ORDER BY s.stuck_for DESC, s.id))[1] AS kind,
        (array_agg(s.reason ORDER BY s.stuck_for DESC, s.id))[1] AS reason
    FROM /* schema */stuck_jobs($1, $2) AS s
    WHERE s.code IN ('runner_died', 'not_promoted', 'running')
    GROUP BY s.code COLLATE "C", s.queue COLLATE "C"
    ORDER BY s.code COLLATE "C", s.queue COLLATE "C"
    LIMIT 100
) AS g
