-- Jobs that should have moved and have not, the longest first. $1: how long a running job may run before it is listed; $2: how long
-- one that is due may wait; $3: the most jobs of a reason, and of the list.
SELECT
    s.id, s.kind, s.queue, s.state, s.attempt, s.runner, s.since, s.code, s.reason, s.remedy,
    extract(epoch FROM s.stuck_for)::double precision AS stuck_for
FROM /* schema */stuck_jobs($1, $2, $3) AS s
ORDER BY s.since, s.id
LIMIT $3
