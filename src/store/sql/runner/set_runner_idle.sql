-- Sets whether a runner is idle and listens for wake-ups.
UPDATE /* schema */runner AS r
SET idle = $2
WHERE r.id = $1 AND r.idle <> $2
