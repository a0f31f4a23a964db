-- Jobs that should have moved and have not, by reason and queue, with one of them. Those that wait in a queue are
-- told with their queue. $1: how long a running job may run before it is named; $2: how long one that is due may wait.
SELECT to_jsonb(g)
FROM (
    SELECT
        s.reason COLLATE "C" AS reason, s.queue COLLATE "C" AS queue, count(*) AS jobs,
        extract(epoch FROM max(s.stuck_for))::double precision AS oldest_age,
        (array_agg(s.id ORDER BY s.stuck_for DESC, s.id))[1] AS job,
        (array_agg(s.kind ORDER BY s.stuck_for DESC, s.id))[1] AS kind
    FROM /* schema */stuck_jobs($1, $2) AS s
    WHERE s.reason IN ('its runner died', 'is due and not promoted', 'runs long')
    GROUP BY s.reason COLLATE "C", s.queue COLLATE "C"
    ORDER BY s.reason COLLATE "C", s.queue COLLATE "C"
    LIMIT 100
) AS g
