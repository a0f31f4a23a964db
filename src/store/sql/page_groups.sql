-- The $2 groups after group $4 of queue $3, of one queue or of all ($1 is null), in the order of queues and keys. Both empty:
-- from the first on.
SELECT
    g.queue, g.group_key, g.running, g.group_limit, g.waiting, g.head, g.head_kind, g.head_since, g.held_until,
    g.held_code AS code, g.held_by AS reason, /* schema */_obstacle_remedy(g.held_code, g.held_details) AS remedy,
    g.held_details AS details
FROM /* schema */groups($1, $2, $3, $4) AS g
ORDER BY g.queue COLLATE "C", g.group_key COLLATE "C"
LIMIT $2
