-- The first $3 groups that are held now, of one queue or of all ($1 is null), and of one group or of all ($2 is null).
SELECT g.queue, g.group_key, g.held_until
FROM /* schema */queue_group AS g
WHERE g.held_until > statement_timestamp()
    AND ($1::text IS NULL OR g.queue = $1)
    AND ($2::text IS NULL OR g.group_key = $2)
ORDER BY g.queue, g.group_key
LIMIT $3
