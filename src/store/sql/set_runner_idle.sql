-- Says whether a runner sleeps and wants to be woken.
UPDATE /* schema */runner AS r
SET idle = $2
WHERE r.id = $1 AND r.idle <> $2
