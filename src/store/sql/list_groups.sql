-- Groups of one queue, or of all ($1 is null), that have available or running jobs, up to $2 of the 1,000 first ones of
-- each sort, or of more where $2 is more. Those that wait for something come first.
SELECT
    g.queue, g.group_key, g.running, g.group_limit, g.waiting, g.head, g.head_kind, g.head_since, g.held_until,
    g.held_code AS code, g.held_by AS reason, /* schema */_obstacle_remedy(g.held_code, g.held_details) AS remedy,
    g.held_details AS details
FROM /* schema */groups($1, greatest($2, 1000)) AS g
ORDER BY g.held_code IS NULL, g.head_since, g.queue COLLATE "C", g.group_key COLLATE "C"
LIMIT $2
